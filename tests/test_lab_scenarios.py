"""Scenario files: inheritance, clear errors, mutations, and a history that fits the cost model."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest
from pydantic import ValidationError

from agent.errors import UsageError
from evals.lab import history
from evals.lab.engine_facts import Scenario as Facts
from evals.lab.inside import unitfile
from evals.lab.past import span
from evals.lab.scenario import FOLDER, Scenario, load, merge, names
from tests.lab_fixtures import TINY, tiny

PACKAGE = "/opt/sglang/venv/lib/python3.11/site-packages/sglang"
UNIT = "sglang-kimi.service"


def flags(scenario: Scenario) -> dict[str, str | int | float | bool]:
    launch = scenario.units[UNIT].launch
    assert launch is not None
    return launch.flags


def exec_argv(scenario: Scenario) -> list[str]:
    """Return the argv that systemd's rules make of the unit and its drop-ins, read as files."""
    values: list[str] = []
    files = scenario.units[UNIT].files(UNIT)
    for path in sorted(files, key=lambda path: (path.count("/"), path)):
        for key, value in unitfile.assignments(files[path]):
            if key == "Service.ExecStart":
                values = [*values, value] if value else []
    assert len(values) == 1
    return unitfile.command(values[0], {}, UNIT)[0]


_DECODE = re.compile(r"#running-req: (\d+),.*cuda graph: (\w+), gen throughput \(token/s\): ([\d.]+)")


def decode_lines(scenario: Scenario) -> list[tuple[int, bool, float]]:
    rows = history.entries(scenario, PACKAGE, 1_800_000_000.0)
    found = [match for row in rows if (match := _DECODE.search(row["text"]))]
    return [(int(match[1]), match[2] == "True", float(match[3])) for match in found]


@pytest.mark.parametrize("name", names())
def test_no_scenario_holds_an_answer(name: str) -> None:
    scenario = load(name)
    assert scenario.name == name
    assert scenario.engine is not None or scenario.services
    text = (FOLDER / f"{name}.yaml").read_text()
    assert not re.search(r"\b(expected|fix|remedy|cause|symptom)\b", text, re.IGNORECASE)


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("kimi-k26-pp8")])
def test_every_variant_of_the_founding_host_is_whole(name: str) -> None:
    scenario = load(name)
    assert Facts.from_json(scenario.facts(package_dir=PACKAGE)).hardware.count > 0
    text = (FOLDER / f"{name}.yaml").read_text()
    assert not re.search(r"\b(expected|fix|remedy|cause|symptom)\b", text, re.IGNORECASE)


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("kimi-k26-pp8")])
def test_the_pipelines_share_hardware_and_launch_line(name: str) -> None:
    scenario = load(name)
    facts = Facts.from_json(scenario.facts(package_dir=PACKAGE))
    assert (facts.hardware.count, facts.hardware.memory_mib, facts.hardware.capability) == (8, 97887, (12, 0))
    assert exec_argv(scenario)[:3] == ["/opt/sglang/venv/bin/python", "-m", "sglang.launch_server"]
    launch = scenario.units[UNIT].launch
    assert launch is not None
    if not scenario.units[UNIT].dropins:
        assert exec_argv(scenario) == launch.argv


def test_the_variants_differ_as_they_say() -> None:
    founding = flags(load("kimi-k26-pp8"))
    assert founding["--disable-cuda-graph"] is True
    assert founding["--max-running-requests"] == 8
    twin = flags(load("kimi-k26-pp8-onebatch"))
    assert {**twin, "--max-running-requests": 8} == founding
    assert "--max-running-requests" not in twin
    healthy = flags(load("kimi-k26-pp8-healthy"))
    assert "--disable-cuda-graph" not in healthy
    assert healthy["--pp-async-batch-depth"] == 1
    depth = load("kimi-k26-pp8-depth2")
    assert "--disable-cuda-graph" not in flags(depth)
    assert depth.facts(package_dir=PACKAGE)["hazards"] == {
        "output_changes": {"when": {"pp_async_batch_depth": {"gt": 1}}}
    }


def test_a_failed_capture_stands_in_the_boot_before() -> None:
    scenario = load("kimi-k26-pp8-capturefails")
    older, current = history.boots(scenario)
    rows = history.entries(scenario, PACKAGE, 1_800_000_000.0)
    failed = [row for row in rows if "Capture cuda graph failed" in row["text"]]
    assert [row["boot"] for row in failed] == [older]
    assert any(PACKAGE in row["text"] for row in rows if row["boot"] == older)
    assert not any("{site}" in row["text"] for row in rows)
    facts = Facts.from_json(scenario.facts(package_dir=PACKAGE))
    assert facts.hazards.capture_fails is not None
    assert facts.hazards.capture_fails.log[0].startswith("Scheduler hit an exception")
    assert {row["boot"] for row in rows} == {older, current}


@pytest.mark.parametrize(
    ("name", "alone", "together", "running"),
    [
        ("kimi-k26-pp8", 24.4, 97.7, 1),
        ("kimi-k26-pp8-onebatch", 24.4, 95.6, 8),
        ("kimi-k26-pp8-depth2", 44.3, 177.0, 1),
        ("kimi-k26-pp8-healthy", 44.3, 315.0, 1),
    ],
)
def test_recorded_load_fits_the_cost_model(name: str, alone: float, together: float, running: int) -> None:
    lines = decode_lines(load(name))
    slow = [rate for _, _, rate in lines if rate < (alone + together) / 2]
    fast = [(count, rate) for count, _, rate in lines if rate >= (alone + together) / 2]
    assert statistics.mean(slow) == pytest.approx(alone, rel=0.01)
    assert statistics.mean(rate for _, rate in fast) == pytest.approx(together, rel=0.01)
    assert {count for count, _ in fast} == {running}
    assert 0.01 < statistics.stdev(slow) / alone < 0.05
    graphs = "--disable-cuda-graph" not in flags(load(name))
    assert {graph for _, graph, _ in lines} == {graphs}


def test_history_is_the_same_each_time_and_lies_in_its_boot() -> None:
    scenario = load("kimi-k26-pp8")
    now = 1_800_000_000.0
    rows = history.entries(scenario, PACKAGE, now)
    assert rows == history.entries(scenario, PACKAGE, now)
    assert max(row["at"] for row in rows) < now * 1e6
    current = history.boots(scenario)[-1]
    assert all((row["at"] >= (now + span("-6d")) * 1e6) == (row["boot"] == current) for row in rows)


def test_mutations_move_a_flag_into_a_dropin_or_change_its_kind() -> None:
    founding = load("kimi-k26-pp8")
    without = founding.mutate({"units": {UNIT: {"launch": {"flags": {"--disable-cuda-graph": None}}}}})
    launch = without.units[UNIT].launch
    assert launch is not None
    assert "--disable-cuda-graph" not in launch.argv
    text = f"[Service]\nExecStart=\nExecStart={launch.line()} \\\n    --disable-cuda-graph\n"
    moved = without.mutate({"units": {UNIT: {"dropins": {"10-local.conf": text}}}})
    assert exec_argv(moved)[-1] == "--disable-cuda-graph"
    assert sorted(exec_argv(moved)) == sorted(exec_argv(founding))
    other = without.mutate({"units": {UNIT: {"launch": {"flags": {"--attention-backend": "torch_native"}}}}})
    assert exec_argv(other)[-2:] == ["--attention-backend", "torch_native"]
    assert flags(founding)["--disable-cuda-graph"] is True
    with pytest.raises(ValidationError):
        founding.mutate({"no_such_field": 1})


def test_a_file_by_path_inherits_and_survives_saving(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base: kimi-k26-pp8\nhostname: mine\n")
    scenario = load(str(path))
    assert (scenario.name, scenario.hostname) == ("mine", "mine")
    assert flags(scenario) == flags(load("kimi-k26-pp8"))
    assert load(str(scenario.save(tmp_path / "saved.yaml"))) == scenario
    (tmp_path / "child.yaml").write_text("base: mine\ndescription: beside it\n")
    assert load(str(tmp_path / "child.yaml")).hostname == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: kimi-k26-pp8\nhostnam: x\n", "bad.yaml: hostnam: there is no such field; nearest: hostname"),
        ("base: kimi-k26-pp8\nready: {unit: x, port: many}\n", "bad.yaml: ready.port: "),
        ("base: kimi-k26-pp8\nengine: {hardware: {gpu: x}}\n", "bad.yaml: engine: .*hardware: unknown gpu"),
        ("base: kimi-k26-pp8\nhistory: {x: {at: 3d, text: x}}\n", "bad.yaml: history.x.at: .*in the past"),
        ("base: kimi-k26-pp8\nhistory: {x: {at: -3d}}\n", "bad.yaml: history.x: .*exactly one of"),
        ("base: kimi-k26-pp8\nfiles: {/usr/x: y}\n", "bad.yaml: files: .*/usr/x: files go below"),
        ("base: nothing\n", "bad.yaml: base: no scenario 'nothing'; .*leadline lab list"),
        ("base: bad\n", "bad.yaml: base: is based on itself"),
        ("units: [\n", "bad.yaml: cannot be read: "),
        ("- 1\n", "bad.yaml: must hold an object"),
        (
            "base: kimi-k26-pp8\nunits: {a.service: {text: 'ExecStart=/bin/true', launch: {command: x}}}\n",
            "units.a",
        ),
    ],
)
def test_errors_name_the_file_and_the_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load(str(path))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no scenario 'x'; .*leadline lab list"):
        load("x")


def test_merge_removes_by_none_and_leaves_its_input_alone() -> None:
    base = {"a": {"b": 1, "c": [1]}, "d": 2}
    assert merge(base, {"a": {"b": None, "c": [2]}, "e": {"f": 1}}) == {
        "a": {"c": [2]},
        "d": 2,
        "e": {"f": 1},
    }
    assert base == {"a": {"b": 1, "c": [1]}, "d": 2}


def test_the_small_scenario_of_the_tests_is_valid() -> None:
    assert tiny().name == TINY["name"]
    assert span("-2d12h") == -216000
