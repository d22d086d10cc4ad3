"""Whole investigations on lab hosts, by the command line: every scenario, and hosts changed at run time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from agent.events import (
    ChangeMoved,
    ConclusionChecked,
    Event,
    HypothesisMoved,
    Started,
    ToolStarted,
    TurnTaken,
)
from agent.state import Change, Conclusion, GuardClaim, Hypothesis, MeasurementClaim
from agent.transcript import check_order, read_events
from evals.lab.package import PackageError, fetch
from evals.lab.scenario import Scenario, load
from tests.lab_fixtures import need_sandbox

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SYMPTOM = "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W"
UNIT = "sglang-kimi.service"


@dataclass(frozen=True)
class Run:
    """Hold what one investigation printed and recorded."""

    result: Mapping[str, Any]
    events: Sequence[Event]
    code: int

    @property
    def conclusion(self) -> Conclusion:
        return Conclusion.model_validate(self.result["conclusion"])

    @property
    def changes(self) -> list[Change]:
        return [event.change for event in self.events if isinstance(event, ChangeMoved)]

    @property
    def hypotheses(self) -> dict[str, Hypothesis]:
        """Return the hypotheses as they ended, by a word of their statement."""
        last = {e.hypothesis.id: e.hypothesis for e in self.events if isinstance(e, HypothesisMoved)}
        words = {
            "without CUDA graphs": "graphs",
            "keeps no extra one ready": "depth",
            "share one": "shared",
            "inherent": "inherent",
            "capture failed": "capture",
        }
        return {
            name: item
            for item in last.values()
            for words_in, name in words.items()
            if words_in in item.statement
        }

    @property
    def checked(self) -> ConclusionChecked:
        return [event for event in self.events if isinstance(event, ConclusionChecked)][-1]

    def all_verified(self) -> bool:
        return all(check.status == "verified" for check in self.checked.checks)


@pytest.fixture(scope="session", autouse=True)
def _sources() -> None:
    need_sandbox()
    try:
        fetch("sglang", "0.5.11", Settings().cache_dir)
    except PackageError as error:
        pytest.skip(str(error))


def leadline(folder: Path, *arguments: str, timeout: float = 150) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("leadline")), *arguments]
    environment = {**os.environ, "LEADLINE_STATE_DIR": str(folder)}  # noqa: TID251
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


def investigate(folder: Path, scenario: Scenario | str, *flags: str, symptom: str = SYMPTOM) -> Run:
    name = scenario if isinstance(scenario, str) else str(scenario.save(folder / "changed.yaml"))
    done = leadline(folder, "ask", f"lab:{name}", symptom, "--json", *flags)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    path = next(Path(name) for name in result["files"] if name.endswith(".jsonl"))
    events = read_events(path)
    check_order(events, path)
    left = leadline(folder, "lab", "list", "--json").stdout
    assert '"running": true' not in left and '"alive": true' not in left, left
    return Run(result, events, done.returncode)


def changed(flags: Mapping[str, Any], unit: Mapping[str, Any] | None = None) -> Scenario:
    """Return the founding host with other launch flags: None takes one away."""
    return load("kimi-k26-pp8").mutate({"units": {UNIT: {"launch": {"flags": dict(flags)}, **(unit or {})}}})


def guard_claims(conclusion: Conclusion, statement: str) -> dict[int, GuardClaim]:
    found = [claim for claim in conclusion.claims if isinstance(claim, GuardClaim)]
    return {c.statement.lines[0]: c for c in found if c.statement.lines and statement in c.statement.quote}


def test_the_founding_case_is_diagnosed_with_both_fixes(tmp_path: Path) -> None:
    run = investigate(tmp_path, "kimi-k26-pp8")
    assert run.code == 0
    assert run.result["subtype"] == "diagnosed"
    assert run.all_verified() and len(run.checked.checks) >= 30
    graphs, depth = run.changes
    assert (graphs.setting, graphs.from_value, graphs.to_value) == ("--disable-cuda-graph", "true", None)
    assert (depth.setting, depth.to_value) == ("--pp-async-batch-depth", "1")
    assert all(change.predicted_effect and change.mechanism and change.rollback for change in run.changes)
    assert "above 1" in " ".join(depth.cautions) and "greedy" in " ".join(depth.cautions)
    status = {name: item.status for name, item in run.hypotheses.items()}
    assert (status["graphs"], status["depth"], status["shared"]) == ("confirmed", "confirmed", "refuted")
    assert run.hypotheses["shared"].id in {row.hypothesis for row in run.conclusion.ruled_out}
    _every_assignment_is_judged(run.conclusion)
    _source_was_read_after_the_hypotheses(run.events)
    limits = " ".join(run.conclusion.inherent)
    assert "1/8" in limits and "37 to 49" in limits


def _every_assignment_is_judged(conclusion: Conclusion) -> None:
    """Check the eight assignments in server_args.py, each with its reason, and the one that holds."""
    judged = guard_claims(conclusion, "self.disable_cuda_graph = True")
    assert set(judged) == {1276, 2557, 2563, 3058, 3780, 4072, 4146, 4155}
    assert {claim.verdict for claim in judged.values()} == {"false"}
    reasons = {line: {fact.name for fact in claim.facts} for line, claim in judged.items()}
    assert reasons[1276] == {"enable_mis"}
    assert reasons[2557] == reasons[2563] == {"attention_backend"}
    assert "deepep_mode" in reasons[3058] or "moe_a2a_backend" in reasons[3058]
    assert reasons[3780] == {"disaggregation_mode"}
    assert reasons[4072] == {"dllm_algorithm"}
    assert reasons[4146] == {"debug_tensor_dump_output_folder"}
    assert reasons[4155] == {"msprobe_dump_config"}
    piecewise = guard_claims(conclusion, "self.disable_piecewise_cuda_graph = True")
    assert piecewise[1212].verdict == "true"
    assert [(fact.name, fact.value) for fact in piecewise[1212].facts] == [("pp_size", "8")]


def _source_was_read_after_the_hypotheses(events: Sequence[Event]) -> None:
    stated = next(event.seq for event in events if isinstance(event, HypothesisMoved))
    source = ("grep", "read_file", "settings")
    reads = [event.seq for event in events if isinstance(event, ToolStarted) and event.tool in source]
    assert reads and min(reads) > stated


def test_the_twin_confirms_the_rival_and_does_not_propose_depth(tmp_path: Path) -> None:
    run = investigate(tmp_path, "kimi-k26-pp8-onebatch")
    assert run.result["subtype"] == "diagnosed" and run.all_verified()
    status = {name: item.status for name, item in run.hypotheses.items()}
    assert (status["shared"], status["depth"]) == ("confirmed", "refuted")
    settings = [change.setting for change in run.changes]
    assert settings == ["--disable-cuda-graph", "--pp-max-micro-batch-size"]
    assert run.changes[1].to_value == "1"


def test_a_healthy_host_is_called_fine_and_nothing_is_proposed(tmp_path: Path) -> None:
    run = investigate(tmp_path, "kimi-k26-pp8-healthy")
    assert run.result["subtype"] == "configuration_fine" and run.all_verified()
    assert not run.changes and not run.conclusion.causes
    numbers = [claim.value for claim in run.conclusion.claims if isinstance(claim, MeasurementClaim)]
    assert any(37 <= value <= 49 for value in numbers)


def test_where_capture_failed_before_the_change_carries_the_warning(tmp_path: Path) -> None:
    run = investigate(tmp_path, "kimi-k26-pp8-capturefails", "--no-load")
    assert run.result["subtype"] == "diagnosed" and run.all_verified()
    assert run.hypotheses["capture"].status == "supported"
    graphs = next(change for change in run.changes if change.setting == "--disable-cuda-graph")
    assert "Capture failed here before" in graphs.cautions[0]
    assert "Graph capture failed on this host before" in run.conclusion.summary


def test_with_graphs_on_only_depth_is_proposed_and_never_above_one(tmp_path: Path) -> None:
    run = investigate(tmp_path, "kimi-k26-pp8-depth2", "--no-load")
    assert run.result["subtype"] == "diagnosed" and run.all_verified()
    assert run.hypotheses["graphs"].status == "refuted"
    assert [(change.setting, change.to_value) for change in run.changes] == [("--pp-async-batch-depth", "1")]


def test_another_flag_that_disables_graphs_is_found_through_the_assignment(tmp_path: Path) -> None:
    host = changed({"--disable-cuda-graph": None, "--attention-backend": "torch_native"})
    run = investigate(tmp_path, host, "--no-load")
    assert run.result["subtype"] == "diagnosed" and run.all_verified()
    graphs = run.changes[0]
    assert (graphs.setting, graphs.from_value, graphs.to_value) == (
        "--attention-backend",
        "torch_native",
        None,
    )
    judged = guard_claims(run.conclusion, "self.disable_cuda_graph = True")
    assert {line for line, claim in judged.items() if claim.verdict != "false"} == {2557}
    assert "server_args.py:2557" in graphs.reason


def test_a_flag_that_dumps_tensors_is_found_as_what_turns_graphs_off(tmp_path: Path) -> None:
    host = changed({"--disable-cuda-graph": None, "--debug-tensor-dump-output-folder": "/tmp/dump"})
    run = investigate(tmp_path, host, "--no-load")
    assert run.changes[0].setting == "--debug-tensor-dump-output-folder"
    assert "server_args.py:4146" in run.changes[0].reason and run.all_verified()


def test_the_flag_inside_a_dropin_is_found_where_it_stands(tmp_path: Path) -> None:
    without = changed({"--disable-cuda-graph": None})
    launch = without.units[UNIT].launch
    assert launch is not None
    text = f"[Service]\nExecStart=\nExecStart={launch.line()} --disable-cuda-graph\n"
    host = without.mutate({"units": {UNIT: {"dropins": {"10-local.conf": text}}}})
    run = investigate(tmp_path, host, "--no-load")
    graphs = run.changes[0]
    assert graphs.setting == "--disable-cuda-graph"
    assert "/sglang-kimi.service.d/10-local.conf" in graphs.reason


def test_a_symptom_that_no_playbook_knows_ends_with_what_to_do(tmp_path: Path) -> None:
    run = investigate(
        tmp_path, "kimi-k26-pp8", "--no-load", symptom="the model answers in the wrong language"
    )
    assert run.result["subtype"] == "inconclusive"
    assert "disable_cuda_graph" in run.conclusion.summary
    assert "--base-url" in run.conclusion.next_step
    assert not run.changes


def test_a_killed_investigation_goes_on_and_repeats_no_turn(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("leadline")),
        "ask",
        "lab:kimi-k26-pp8",
        SYMPTOM,
        "--no-load",
    ]
    environment = {**os.environ, "LEADLINE_STATE_DIR": str(tmp_path)}  # noqa: TID251
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "grep" in line:
                running.kill()
                break
    session = json.loads(leadline(tmp_path, "sessions", "list", "--json").stdout.splitlines()[0])
    assert session["outcome"] is None
    done = leadline(tmp_path, "ask", session["hosts"][0], "--resume", session["session_id"], "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["subtype"] == "diagnosed"
    events = read_events(tmp_path / "threads" / session["session_id"] / "transcript.jsonl")
    turns = [event.turn for event in events if isinstance(event, TurnTaken)]
    assert turns == sorted(set(turns))
    assert isinstance(events[0], Started)
    assert '"running": true' not in leadline(tmp_path, "lab", "list", "--json").stdout


@pytest.mark.parametrize(
    ("flags", "setting", "line"),
    [
        ({"--enable-mis": True, "--attention-backend": "flashinfer"}, "--enable-mis", 1276),
        ({"--moe-a2a-backend": "deepep", "--deepep-mode": "normal"}, "--deepep-mode", 3058),
    ],
)
def test_of_the_flags_that_an_override_needs_one_is_taken_out(
    tmp_path: Path, flags: dict[str, Any], setting: str, line: int
) -> None:
    run = investigate(tmp_path, changed({"--disable-cuda-graph": None, **flags}), "--no-load")
    assert run.result["subtype"] == "diagnosed" and run.all_verified()
    assert [change.setting for change in run.changes] == [setting, "--pp-async-batch-depth"]
    assert f"server_args.py:{line}" in run.changes[0].reason


def test_a_prefill_server_is_left_as_it_is(tmp_path: Path) -> None:
    host = changed({"--disable-cuda-graph": None, "--disaggregation-mode": "prefill"})
    run = investigate(tmp_path, host, "--no-load")
    assert run.result["subtype"] == "diagnosed" and run.all_verified()
    assert not run.changes and re.search(r"disaggregation.mode prefill", run.conclusion.summary)
    assert "the server that decodes" in run.conclusion.next_step


def test_batches_above_the_captured_size_are_found_with_graphs_on(tmp_path: Path) -> None:
    flags = {"--disable-cuda-graph": None, "--pp-size": None, "--tp-size": 8, "--cuda-graph-max-bs": 1}
    run = investigate(tmp_path, changed(flags))
    assert run.result["subtype"] == "diagnosed" and run.all_verified()
    assert [(change.setting, change.to_value) for change in run.changes] == [("--cuda-graph-max-bs", "8")]


def test_a_flag_that_does_not_touch_decode_is_no_cause_of_slow_decode(tmp_path: Path) -> None:
    host = load("kimi-k26-pp8-healthy")
    host = host.mutate({"units": {UNIT: {"launch": {"flags": {"--disable-radix-cache": True}}}}})
    run = investigate(tmp_path, host, "--no-load")
    assert run.result["subtype"] == "configuration_fine" and not run.changes
    assert "prefix cache" in run.conclusion.summary
