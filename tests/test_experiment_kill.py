from __future__ import annotations

import ast
import asyncio
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent import experiment
from tests.killed_trial import PLACES
from tests.trial_parts import FAULT_POINTS

HERE = Path(__file__).parent

pytestmark = pytest.mark.slow


def awaited() -> list[tuple[str, str]]:
    """Return every await of the experiment: in which function, and the name of what is called."""
    found: list[tuple[str, str]] = []
    tree = ast.parse(inspect.getsource(experiment))
    for function in ast.walk(tree):
        if not isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.AsyncFor | ast.AsyncWith):
                found.append((function.name, type(node).__name__))
            if isinstance(node, ast.Await):
                value = node.value
                parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                found += [(function.name, called(part)) for part in parts]
    return found


def called(node: ast.expr) -> str:
    """Return the name of what an expression calls; anything else is not known."""
    target = node.func if isinstance(node, ast.Call) else node
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ast.dump(target))


KNOWN = {"run": "measure", "sleep": "wait", "wait": "wait"}
"""Fault point of what has another name: ``run`` is the measuring tool's own."""


def test_every_await_is_a_fault_point_or_leads_to_one() -> None:
    own = {
        node.name
        for node in ast.walk(ast.parse(inspect.getsource(experiment)))
        if isinstance(node, ast.AsyncFunctionDef)
    }
    calls = awaited()
    assert len(calls) > 15
    reached = set()
    for function, name in calls:
        if name in own - {"run"}:
            continue
        point = KNOWN.get(name, name)
        assert point in FAULT_POINTS, f"{function} waits for {name}, which no test kills"
        reached.add(point)
    assert reached == set(FAULT_POINTS), "a point in the list that nothing waits for"


def test_every_fault_point_is_killed() -> None:
    killed = {point for point, _, _ in PLACES} | {"status"}
    assert killed == set(FAULT_POINTS) - {"wait"}


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
