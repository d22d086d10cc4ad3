from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.events import HypothesisMoved
from agent.ledger import Ledger
from tests.ledger_bench import CMDLINE, LOG, Bench, graphs, oriented, text
from tools.contract import ToolError


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return oriented(tmp_path)


def test_ids_ranks_and_a_rebuilt_ledger(bench: Bench) -> None:
    view = bench.hypothesis(add=[graphs(2), graphs(1)])
    assert [(item["id"], item["rank"]) for item in view["hypotheses"]] == [("H2", 1), ("H1", 2)]
    bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")
    rebuilt = Ledger()
    for event in bench.events:
        rebuilt.apply(event)
    assert rebuilt == bench.ledger
    assert rebuilt.hypotheses["H1"].links[0].evidence == "E1"


def test_ranks_are_unique_and_can_be_swapped(bench: Bench) -> None:
    bench.hypothesis(add=[graphs(1), graphs(2)])
    with pytest.raises(ToolError, match="H1 and H3 share rank 1; rank 3 is free"):
        bench.hypothesis(add=[graphs(1)])
    assert list(bench.ledger.hypotheses) == ["H1", "H2"]
    bench.hypothesis(update=[{"id": "H1", "rank": 2}, {"id": "H2", "rank": 1}])
    assert bench.ledger.hypotheses["H1"].rank == 2


@pytest.mark.parametrize("side", ["for", "against"])
def test_predictions_need_both_sides(bench: Bench, side: str) -> None:
    only = [text("P1", side, "a"), text("P2", side, "b")]
    with pytest.raises(ToolError, match="needs a prediction with favours="):
        bench.hypothesis(add=[{**graphs(), "predictions": only}])


def test_prediction_ids_differ_and_patterns_are_re2(bench: Bench) -> None:
    twice = [text("P1", "for", "a"), text("P1", "against", "b")]
    with pytest.raises(ToolError, match="must differ"):
        bench.hypothesis(add=[{**graphs(), "predictions": twice}])
    for pattern in ("(", "(?=x)", r"(a)\1"):
        broken = [text("P1", "for", pattern), text("P2", "against", "b")]
        with pytest.raises(ToolError, match="is not RE2"):
            bench.hypothesis(add=[{**graphs(), "predictions": broken}])
    value = {"id": "P1", "favours": "for", "says": "s"}
    value["check"] = {"kind": "value", "pattern": "no group", "op": "<", "value": 1}  # type: ignore[assignment]
    with pytest.raises(ToolError, match="has 0 groups"):
        bench.hypothesis(add=[{**graphs(), "predictions": [value, text("P2", "against", "b")]}])
    assert not bench.ledger.hypotheses


def test_empty_and_unknown(bench: Bench) -> None:
    with pytest.raises(ToolError, match="both are empty"):
        bench.hypothesis()
    bench.hypothesis(add=[graphs()])
    with pytest.raises(ToolError, match="no hypothesis H9; known: H1"):
        bench.hypothesis(update=[{"id": "H9"}])
    with pytest.raises(ToolError, match="no prediction P9; it has P1, P2, P3"):
        bench.cite("H1", "P9", "log", "t1.1", "x")
    with pytest.raises(ToolError, match=r"no artifact t8\.1"):
        bench.cite("H1", "P1", "log", "t8.1", "x")


def test_quotes_must_be_there(bench: Bench) -> None:
    bench.hypothesis(add=[graphs()])
    bench.turn()
    log = bench.call("t2", "journal", LOG, first_line=100)
    with pytest.raises(ToolError, match="nearest is line 101: Decode batch"):
        bench.cite("H1", "P2", "log", log, "running-req: 1, cuda graph: True")
    with pytest.raises(ToolError, match="but at line 101, not in 102"):
        bench.cite("H1", "P2", "log", log, "cuda graph: False", lines=(102, 102))
    said = bench.cite("H1", "P2", "log", log, "#running-req:   1,\n cuda graph: False", lines=(100, 101))
    assert said["matched"] is True
    assert bench.ledger.evidence["E1"].citation.lines == (101, 101)
    assert said["cite"].startswith("lab:t2.1 (journal):101#")


def test_changed_artifact_is_refused(bench: Bench) -> None:
    bench.hypothesis(add=[graphs()])
    path = bench.store.path(bench.ledger.artifacts["t1.1"].sha256)
    path.write_bytes(CMDLINE + b"x")
    with pytest.raises(ToolError, match="changed on disk"):
        bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")
    path.unlink()
    with pytest.raises(ToolError, match="no longer stored"):
        bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")


def test_prior_facts_support_and_never_confirm(bench: Bench) -> None:
    bench.hypothesis(
        add=[{**graphs(), "predictions": [graphs()["predictions"][0], graphs()["predictions"][2]]}]
    )
    said = bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")
    assert "prior" in said
    assert bench.status("H1") == "supported"
    bench.cite("H1", "P1", "log", "t1.1", "--disable-cuda-graph")
    assert bench.status("H1") == "supported"


def test_confirmed_needs_all_predictions_two_kinds_and_something_new(bench: Bench) -> None:
    bench.hypothesis(add=[graphs()])
    bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")
    bench.turn()
    log = bench.call("t2", "journal", LOG)
    said = bench.cite("H1", "P2", "log", log, "cuda graph: False")
    assert "prior" not in said
    assert bench.status("H1") == "confirmed"
    moved = [event for event in bench.events if isinstance(event, HypothesisMoved)]
    assert [event.before for event in moved] == [None, "open", "supported"]


def test_one_kind_does_not_confirm(bench: Bench) -> None:
    bench.hypothesis(add=[graphs()])
    log = bench.call("t2", "journal", LOG + b"--disable-cuda-graph\n")
    bench.cite("H1", "P1", "log", log, "--disable-cuda-graph")
    bench.cite("H1", "P2", "log", log, "cuda graph: False")
    assert bench.status("H1") == "supported"


def test_same_turn_counts_as_after_and_an_earlier_turn_is_refused(bench: Bench) -> None:
    early = bench.call("t2", "journal", LOG)
    bench.turn()
    beside = bench.call("t3", "journal", LOG)
    bench.hypothesis(add=[graphs()])
    with pytest.raises(ToolError, match=r"t2\.1 was read before H1 was stated; ask again"):
        bench.cite("H1", "P2", "log", early, "cuda graph: False")
    assert "prior" not in bench.cite("H1", "P2", "log", beside, "cuda graph: False")


def test_a_file_that_keeps_its_handle_counts_from_when_it_was_shown_again(bench: Bench) -> None:
    source = bench.call("t2", "grep", b"if server_args.disable_cuda_graph:\n", path="/x.py", package="sglang")
    bench.turn()
    bench.hypothesis(add=[{**graphs(), "predictions": [text("P1", "for", "if"), text("P2", "against", "x")]}])
    bench.show("t3", source, artifact=source)
    with pytest.raises(ToolError, match="ask again"):
        bench.cite("H1", "P1", "source", source, "if server_args.disable_cuda_graph:")
    bench.show("t4", source, path="/x.py")
    assert "prior" not in bench.cite("H1", "P1", "source", source, "if server_args.disable_cuda_graph:")


def test_unmatched_evidence_is_stored_and_moves_nothing(bench: Bench) -> None:
    bench.hypothesis(add=[graphs()])
    log = bench.call("t2", "journal", LOG)
    said = bench.cite("H1", "P3", "log", log, "cuda graph: False")
    assert said["matched"] is False and "does not move" in said["note"]
    assert bench.status("H1") == "open"
    assert bench.ledger.hypotheses["H1"].links[0].matched is False


def test_against_refutes_and_conflict_is_open(bench: Bench) -> None:
    bench.hypothesis(add=[graphs()])
    log = bench.call("t2", "journal", b"cuda graph: True\n")
    bench.cite("H1", "P3", "log", log, "cuda graph: True")
    assert bench.status("H1") == "refuted"
    bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")
    assert bench.status("H1") == "open"


def test_absence_needs_lines_and_complete_output(bench: Bench) -> None:
    predictions = [text("P1", "for", "Capture cuda graph", present=False), text("P2", "against", "Capture")]
    bench.hypothesis(add=[{**graphs(), "predictions": predictions}])
    log = bench.call("t2", "journal", LOG)
    cut = bench.call("t3", "journal", LOG, complete=False)
    loud = bench.call("t4", "journal", LOG + b"Capture  cuda graph begin\n")
    with pytest.raises(ToolError, match="give `lines`"):
        bench.cite("H1", "P1", "log", log, "end")
    with pytest.raises(ToolError, match="not complete"):
        bench.cite("H1", "P1", "log", cut, "end", lines=(1, 3))
    assert bench.cite("H1", "P1", "log", loud, "end", lines=(1, 4))["matched"] is False
    assert bench.cite("H1", "P1", "log", log, "end", lines=(1, 9))["matched"] is True
    assert bench.ledger.evidence["E2"].citation.lines == (1, 3)


def test_judgement_is_asked_for_marked_and_never_confirms(bench: Bench) -> None:
    judge = {"id": "P1", "favours": "for", "says": "looks slow", "check": {"kind": "judgement"}}
    bench.hypothesis(add=[{**graphs(), "predictions": [judge, text("P2", "against", "b")]}])
    log = bench.call("t2", "journal", LOG)
    with pytest.raises(ToolError, match="is a judgement: say in `matches`"):
        bench.cite("H1", "P1", "log", log, "24.41")
    with pytest.raises(ToolError, match="leave `matches` out"):
        bench.cite("H1", "P2", "log", log, "24.41", matches=True)
    bench.cite("H1", "P1", "log", log, "24.41", matches=True)
    bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph", matches=True)
    assert bench.ledger.hypotheses["H1"].links[0].judged is True
    assert bench.status("H1") == "supported"


@pytest.mark.parametrize(
    ("tool", "kind", "more"),
    [
        ("facts", "source", {}),
        ("benchmark", "log", {}),
        ("grep", "measurement", {}),
        ("read_file", "log", {"package": "sglang", "path": "/x.py"}),
    ],
)
def test_kinds_cannot_be_made_up(bench: Bench, tool: str, kind: str, more: dict[str, Any]) -> None:
    bench.hypothesis(add=[graphs()])
    handle = bench.call("t2", tool, LOG, **more)
    with pytest.raises(ToolError, match=f"is no evidence of kind {kind}"):
        bench.cite("H1", "P2", kind, handle, "cuda graph: False")


def test_a_call_is_taken_whole_or_not_at_all(bench: Bench) -> None:
    bench.hypothesis(add=[graphs()])
    good = {"prediction": "P1", "kind": "configuration", "artifact": "t1.1", "quote": "--disable-cuda-graph"}
    before = len(bench.events)
    with pytest.raises(ToolError):
        bench.hypothesis(update=[{"id": "H1", "evidence": [good, {**good, "quote": "nowhere"}]}])
    assert len(bench.events) == before and bench.status("H1") == "open"


def test_the_same_quote_is_one_piece_of_evidence(bench: Bench) -> None:
    bench.hypothesis(add=[graphs(1), graphs(2)])
    bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")
    bench.cite("H2", "P1", "configuration", "t1.1", "--disable-cuda-graph")
    assert list(bench.ledger.evidence) == ["E1"]


def test_source_is_read_only_after_a_hypothesis(bench: Bench) -> None:
    for tool in ("grep", "read_file"):
        with pytest.raises(ToolError, match="state at least one hypothesis"):
            bench.ledger.may_read_source(tool, {"path": "server_args.py"})
    bench.ledger.may_read_source("journal")
    bench.ledger.may_read_source("read_file", {"artifact": "t1.1"})
    bench.hypothesis(add=[graphs()])
    bench.ledger.may_read_source("grep")
