"""Which citations count as evidence, and what the order of a run is judged by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.events import (
    HypothesisMoved,
    ToolStarted,
)
from evals import proofs
from evals.case import Case
from evals.regions import package_file, symbol_lines
from evals.score import score
from tests.score_parts import (
    CASE,
    ENGINE,
    SOURCE,
    Made,
    case,
    claims,
    conclude,
    looked,
    right,
    started,
)

# --- evidence ---


def _citing(run: Made, **cite: Any) -> Case:
    """Let the run conclude with one claim, and return the case that asks for nothing but the graph reader."""
    claim = {"type": "log_event", "says": "seen", "cite": {"artifact": "t4.1", **cite}}
    conclude(run.bench, "diagnosed", [], [claim])
    return case({"evidence": CASE["evidence"][:1]})


def test_a_quote_outside_the_symbol_does_not_prove_it(tmp_path: Path) -> None:
    run = looked(tmp_path)
    wanted = _citing(run, quote="return args.disable_cuda_graph")
    assert run.score(rated=wanted).scores["evidence"] == 0


def test_a_whole_file_as_a_quote_points_at_nothing(tmp_path: Path) -> None:
    run = looked(tmp_path)
    wanted = _citing(run, quote=SOURCE.decode())
    assert run.score(rated=wanted).scores["evidence"] == 0


def test_who_cites_everything_has_chosen_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = looked(tmp_path)
    lines = [line.strip() for line in SOURCE.decode().splitlines() if line.strip()]
    said = [
        {"type": "log_event", "says": "seen", "cite": {"artifact": "t4.1", "quote": line}} for line in lines
    ]
    conclude(run.bench, "diagnosed", [], said)
    wanted = case({"evidence": CASE["evidence"][:1]})
    assert run.score(rated=wanted).scores["evidence"] == 1, "so few lines may all be cited"
    monkeypatch.setattr(proofs, "MOST_QUOTED", 100)
    found = run.score(rated=wanted)
    assert found.scores["evidence"] == 0 and "points at nothing" in found.why["evidence"]


def test_evidence_of_a_hypothesis_that_the_conclusion_does_not_name_counts_for_nothing(
    tmp_path: Path,
) -> None:
    run = looked(tmp_path)
    wanted = case({"evidence": CASE["evidence"][:1]})
    conclude(run.bench, "diagnosed", ["H2"], [])
    assert run.score(rated=wanted).scores["evidence"] == 0
    conclude(run.bench, "diagnosed", ["H1"], [])
    assert run.score(rated=wanted).scores["evidence"] == 1


def test_where_the_package_is_not_cached_path_and_quote_count_and_it_is_said(tmp_path: Path) -> None:
    run = looked(tmp_path)
    wanted = _citing(run, quote="return args.disable_cuda_graph")
    found = score(wanted, run.events, run.bench.store, cache=tmp_path / "nowhere")
    assert found.scores["evidence"] == 1
    assert found.why["evidence"] == (
        "reader: the source of engine 1.0 is not cached: path and quote alone count"
    )


def test_what_a_command_was_told_to_print_is_no_evidence(tmp_path: Path) -> None:
    run = looked(tmp_path)
    run.bench.call("t8", "bash", b"cuda graph: False\n", label="echo 'cuda graph: False'")
    run.bench.turn()
    wanted = case({"evidence": [CASE["evidence"][2]]})
    claim = {"type": "log_event", "says": "s", "cite": {"artifact": "t8.1", "quote": "cuda graph: False"}}
    conclude(run.bench, "diagnosed", [], [claim])
    assert run.score(rated=wanted).scores["evidence"] == 0


def test_source_says_what_is_printed_not_what_happened(tmp_path: Path) -> None:
    run = looked(tmp_path)
    wanted = case({"evidence": [{"id": "line", "kind": "log", "quote": "disable_cuda_graph"}]})
    conclude(run.bench, "diagnosed", [], claims()[:1])
    assert run.score(rated=wanted).scores["evidence"] == 0


def test_a_shell_that_printed_the_region_is_placed_by_the_text_itself(tmp_path: Path) -> None:
    run = looked(tmp_path)
    shown = b"def _handle_graphs(self):\n        if self.disable_cuda_graph:\n"
    run.bench.call("t8", "bash", shown, label=f"sed -n 5,6p {ENGINE}; true")
    claim = {
        "type": "log_event",
        "says": "s",
        "cite": {"artifact": "t8.1", "quote": "if self.disable_cuda_graph:"},
    }
    conclude(run.bench, "diagnosed", [], [claim])
    wanted = case({"evidence": CASE["evidence"][:2]})
    look_for = [{**one, "quote": "if self"} for one in CASE["evidence"][:2]]
    versioned = case({"evidence": look_for})
    assert score(wanted, run.events, run.bench.store, cache=run.cache).evidence_missed == []
    (run.cache / "packages/engine-1.0-0123456789ab").rename(run.cache / "packages/engine-0.5.11-01")
    assert score(versioned, run.events, run.bench.store, cache=run.cache).evidence_missed == ["relay"]


def test_a_symbol_is_found_in_the_file_that_is_cited_and_nowhere_else(tmp_path: Path) -> None:
    cache = started(tmp_path).cache
    assert symbol_lines("engine", "1.0", ENGINE, "ServerArgs._handle_pp", cache) == (10, 12)
    assert symbol_lines("engine", "1.0", "engine/args.py", "unrelated", cache) == (15, 16)
    assert symbol_lines("engine", "1.0", "args.py", "unrelated", cache) == (15, 16)
    assert symbol_lines("engine", "1.0", ENGINE, "ServerArgs.no_such", cache) == (0, 0)
    assert symbol_lines("engine", "2.0", ENGINE, "ServerArgs", cache) is None
    assert package_file("engine", "1.0", "/x/site-packages/../../etc/passwd", cache) is None


# --- order ---


def test_a_junk_hypothesis_first_does_not_cover_one_that_was_stated_after_its_source_was_read(
    tmp_path: Path,
) -> None:
    run = right(tmp_path)
    late = [e for e in run.events if isinstance(e, HypothesisMoved) and e.hypothesis.id == "H1"]
    rest = [e for e in run.events if e not in late]
    place = next(n for n, e in enumerate(rest) if isinstance(e, ToolStarted) and e.tool == "grep")
    events = [*rest[: place + 1], *late, *rest[place + 1 :]]
    found = run.score(events)
    assert found.scores["hypothesis_first"] == 0.5
    assert found.why["hypothesis_first"] == "stated after its source was read: H1"


def test_reading_by_a_shell_counts_as_reading(tmp_path: Path) -> None:
    run = right(tmp_path)
    command = ToolStarted(call="t0", tool_call_id="t0", tool="bash", arguments={"command": f"cat {ENGINE}"})
    assert run.score([run.events[0], command, *run.events[1:]]).scores["hypothesis_first"] == 0


def test_a_refused_read_is_no_read(tmp_path: Path) -> None:
    run = right(tmp_path)
    asked = ToolStarted(call="t0", tool_call_id="t0", tool="grep", arguments={"pattern": "x"})
    assert run.score([run.events[0], asked, *run.events[1:]]).scores["hypothesis_first"] == 1
