from __future__ import annotations

import ast
import asyncio
import json
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from agent.fault_points import AWAITED, WirePoint
from tests.killed_trial import PLACES
from tests.trial_parts import TRIAL_POINTS

HERE = Path(__file__).parent

pytestmark = pytest.mark.slow


ROOT = HERE.parent
VERB = "call of "


def awaited(path: Path) -> list[tuple[str, str]]:
    """Return every await of a file: in which function, and the name of what is called; none of its own."""
    found: list[tuple[str, str]] = []
    tree = ast.parse(path.read_text())
    own = {node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
    own |= {
        node.name
        for owner in tree.body
        if isinstance(owner, ast.ClassDef) and owner.name in ("Experiment", "Undo")
        for node in owner.body
        if isinstance(node, ast.AsyncFunctionDef) and node.name != "run"
    }
    for function in ast.walk(tree):
        if not isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.AsyncFor):
                found.append((function.name, "AsyncFor"))
            if isinstance(node, ast.AsyncWith):
                found += [(function.name, called(item.context_expr)) for item in node.items]
            if isinstance(node, ast.Await):
                value = node.value
                parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                found += [(function.name, called(part)) for part in parts]
    return [(function, name.removeprefix(VERB)) for function, name in found if name not in own]


def called(node: ast.expr) -> str:
    """Return the name of what an expression calls; for the door to a host, its verb."""
    target = node.func if isinstance(node, ast.Call) else node
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ast.dump(target))
    if name == "call" and isinstance(node, ast.Call):
        return VERB + str(ast.literal_eval(node.args[1]))
    return name


@pytest.mark.threat(15)
@pytest.mark.parametrize("file", sorted(AWAITED))
def test_every_await_of_the_change_path_stands_in_the_list(file: str) -> None:
    calls = awaited(ROOT / file)
    assert calls
    for function, name in calls:
        assert name in AWAITED[file], f"{file}: {function} waits for {name}, which no test kills"
    stale = AWAITED[file].keys() - {name for _, name in calls}
    assert not stale, f"{file} waits for none of {stale} any more"


def test_no_file_of_the_change_path_is_left_out() -> None:
    doors = {"tools.transaction", "tools.service", "tools.lease", "tools.service_unit", "agent.experiment"}
    for path in [*(ROOT / "tools").glob("*.py"), *(ROOT / "agent").glob("*.py")]:
        file = str(path.relative_to(ROOT))
        taken = {
            node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module
        }
        if taken & doors and awaited(path):
            assert file in AWAITED or file in READERS, f"{file} calls the change path and is not in the list"


READERS = {"agent/ports.py", "tools/account.py", "tools/account_clean.py"}
"""Files that name the doors and take no part in a change."""


def test_every_point_is_killed_or_cut() -> None:
    killed = {point for point, _, _ in PLACES} | {"status", "make_undo"}
    assert killed == set(TRIAL_POINTS) - {"wait"}
    points = {point for names in AWAITED.values() for point in names.values()}
    assert points - {"read"} == set(TRIAL_POINTS) | set(get_args(WirePoint))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    async def run() -> tuple[bytes, bytes, int | None]:
        argv = [sys.executable, str(HERE / "killed_trial.py"), str(tmp_path_factory.mktemp("killed"))]
        child = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
        out, err = await asyncio.wait_for(child.communicate(), 240)
        return out, err, child.returncode

    out, err, code = asyncio.run(run())
    assert code == 0, err.decode()[-3000:]
    return [json.loads(line) for line in out.splitlines()]


def test_each_kill_happened_and_each_resume_ended(rows: list[dict[str, Any]]) -> None:
    assert len(rows) > 60
    for row in rows:
        whole = row["codes"] == [0]
        assert whole or (row["codes"][0] == -9 and row["codes"][-1] == 0), row
    assert [row["name"] for row in rows if row["codes"] == [0]] == ["whole"]


def test_nothing_is_applied_twice(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["applied"] == row["distinct"] <= 1, row
        assert len(row["plans"]) <= 1, row
        assert len(row["orders"]) <= 1, row


def test_the_result_is_what_the_host_says(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        states = list(row["plans"].values())
        if row["result"] == "kept":
            assert states == ["confirmed"] and row["status"] == "verified", row
            assert row["runs"] == "graphs" and row["restarts"] == 1, row
        elif row["result"] == "rolled_back":
            assert states == ["rolled_back"] and row["status"] == "rolled_back", row
            assert row["runs"] == "old" and row["restarts"] == 2, row
        else:
            assert row["result"] == "not_applied" and states == [], row
            assert row["runs"] == "old" and row["restarts"] == 0, row


def test_both_sides_of_the_timer_end_as_they_should(rows: list[dict[str, Any]]) -> None:
    by_name = {row["name"]: row for row in rows}
    for name in (
        "apply after 1",
        "extend before 1",
        "measure before 2",
        "measure after 2",
        "confirm before 1",
    ):
        assert by_name[f"{name} armed"]["result"] == "kept", name
        fired = by_name[f"{name} fired"]
        assert fired["result"] == "rolled_back" and "timer fired" in fired["why"], fired
    assert by_name["apply before 1 armed"]["result"] == "not_applied"
    for side in ("armed", "fired"):
        assert by_name[f"confirm after 1 {side}"]["result"] == "kept"
        assert by_name[f"roll_back after 1 {side}"]["result"] == "rolled_back"
        assert by_name[f"measure after 1 {side}"]["result"] == "kept", "nothing was applied yet"
