from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.actions import ConcludeArgs, HypothesisArgs, ProposeChangeArgs
from agent.checks import evaluate
from agent.events import ChangeMoved, Event, HypothesisMoved, Started, ToolFinished, ToolStarted, TurnTaken
from agent.hypotheses import Step
from agent.ledger import Ledger
from agent.quotes import StoredText
from agent.state import Change, JudgementCheck, RatioCheck, TextCheck, ValueCheck
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, ToolError

NOW = datetime(2026, 5, 1, tzinfo=UTC)
CMDLINE = b"/opt/venv/bin/python\0-m\0sglang.launch_server\0--pp-size\0008\0--disable-cuda-graph\0"
SOURCE = b"class ServerArgs:\n    pp_async_batch_depth: int = 0\n    disable_cuda_graph: bool = False\n"
LOG = b"start\nDecode batch. #running-req: 1, cuda graph: False, gen throughput (token/s): 24.41\nend\n"


class Bench:
    """A ledger with its store, driven like the graph drives it: every event through `apply`."""

    def __init__(self, root: Path) -> None:
        self.store = ArtifactStore(root)
        self.events: list[Event] = []
        self.ledger = Ledger()
        self.feed(
            Started(thread="x", product="0", recorded="playbook", symptom="s", hosts=["lab"], mode="propose")
        )

    def feed(self, event: Event) -> None:
        self.events.append(event)
        self.ledger.apply(event)

    def turn(self) -> None:
        self.feed(TurnTaken(model="m"))

    def call(self, call: str, tool: str, data: bytes, **more: Any) -> str:
        self.feed(ToolStarted(call=call, tool_call_id=call, tool=tool))
        ref = ArtifactRef(
            handle=f"{call}.1",
            sha256=self.store.put(data),
            size=len(data),
            host="lab",
            taken_at=NOW,
            **{"label": tool, **more},
        )
        self.feed(
            ToolFinished(call=call, tool_call_id=call, tool=tool, status="ok", view="{}", artifacts=[ref])
        )
        return ref.handle

    def take(self, step: Step) -> dict[str, Any]:
        for event in step.events:
            self.feed(event)
        return step.view

    def hypothesis(self, **args: Any) -> dict[str, Any]:
        return self.take(self.ledger.hypothesis(HypothesisArgs.model_validate(args), self.store))

    def cite(
        self, name: str, prediction: str, kind: str, artifact: str, quote: str, **more: Any
    ) -> dict[str, Any]:
        given = {"prediction": prediction, "kind": kind, "artifact": artifact, "quote": quote, **more}
        view = self.hypothesis(update=[{"id": name, "evidence": [given]}])
        said: dict[str, Any] = view["evidence"][0]
        return said

    def status(self, name: str) -> str:
        return self.ledger.hypotheses[name].status

    def change(self, **more: Any) -> dict[str, Any]:
        fields = {
            "unit": "sglang.service",
            "setting": "--disable-cuda-graph",
            "from_value": "true",
            "to_value": None,
            "reason": "E1",
            "hypotheses": ["H1"],
            "predicted_effect": "44 tok/s at 1",
            "mechanism": "is_cuda_graph 0 -> 1",
            "rollback": "put the flag back",
            **more,
        }
        return self.take(self.ledger.propose_change(ProposeChangeArgs.model_validate(fields)))

    def conclude(self, outcome: str, **more: Any) -> None:
        fields = {"outcome": outcome, "summary": "s", "claims": [], **more}
        self.ledger.may_conclude(ConcludeArgs.model_validate(fields).conclusion())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.call("t1", "facts", CMDLINE)
    made.turn()
    return made


def text(name: str, favours: str, pattern: str, **more: Any) -> dict[str, Any]:
    check = {"kind": "text", "pattern": pattern, **more}
    return {"id": name, "favours": favours, "says": "seen", "check": check}


def graphs(rank: int = 1) -> dict[str, Any]:
    return {
        "statement": "The launch flag turns CUDA graphs off",
        "rank": rank,
        "predictions": [
            text("P1", "for", "--disable-cuda-graph"),
            text("P2", "for", "cuda graph: False"),
            text("P3", "against", "cuda graph: True"),
        ],
    }


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
    assert said["cite"].startswith("lab:journal:101#")


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


def test_a_change_needs_grounds(bench: Bench) -> None:
    bench.hypothesis(add=[graphs()])
    with pytest.raises(ToolError, match="H1 is open; a change needs a supported hypothesis"):
        bench.change()
    run = bench.call("t2", "run", b"cuda graph: False 85 W\n")
    bench.cite("H1", "P2", "measurement", run, "cuda graph: False")
    with pytest.raises(ToolError, match="rests on measurement alone"):
        bench.change()
    bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")
    assert bench.change() == {
        "change": "C1",
        "status": "proposed",
        "host": "lab",
        "setting": "--disable-cuda-graph",
    }
    with pytest.raises(ToolError, match="C1 proposes the same change already"):
        bench.change()
    with pytest.raises(ToolError, match="no hypothesis H7"):
        bench.change(hypotheses=["H7"])
    with pytest.raises(ToolError, match="name one of the hosts"):
        bench.change(host="elsewhere")
    with pytest.raises(ToolError, match="two different values"):
        bench.change(to_value="true")
    for setting in ("cuda graphs", "--a --b", "--x;reboot", "lower_case", ""):
        with pytest.raises(ToolError, match="is not one setting"):
            bench.change(setting=setting)
    assert bench.change(setting="SGLANG_X")["change"] == "C2"


def supported(bench: Bench) -> None:
    bench.hypothesis(add=[graphs(2)])
    bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")


def test_no_conclusion_past_an_untested_rival(bench: Bench) -> None:
    supported(bench)
    bench.hypothesis(add=[graphs(1)])
    with pytest.raises(ToolError, match=r"untested rival: H2 \(rank 1\)"):
        bench.conclude("diagnosed", causes=["H1"])
    bench.hypothesis(update=[{"id": "H2", "rank": 3}])
    bench.conclude("diagnosed", causes=["H1"])


def test_causes_must_hold(bench: Bench) -> None:
    supported(bench)
    with pytest.raises(ToolError, match="names no cause"):
        bench.conclude("diagnosed")
    bench.hypothesis(add=[graphs(5)])
    log = bench.call("t2", "journal", b"cuda graph: True\n")
    with pytest.raises(ToolError, match="H2 is open and cannot be named"):
        bench.conclude("diagnosed", causes=["H1", "H2"])
    bench.cite("H2", "P3", "log", log, "cuda graph: True")
    with pytest.raises(ToolError, match="H2 is refuted and cannot be named"):
        bench.conclude("diagnosed", causes=["H1", "H2"])
    bench.conclude("diagnosed", causes=["H1"], ruled_out=[{"hypothesis": "H2", "because": "graphs are on"}])
    with pytest.raises(ToolError, match="H1 is not refuted"):
        bench.conclude("diagnosed", causes=["H1"], ruled_out=[{"hypothesis": "H1", "because": "no"}])
    with pytest.raises(ToolError, match="no change C4"):
        bench.conclude("diagnosed", causes=["H1"], changes=["C4"])


def test_fixed_needs_a_verified_change(bench: Bench) -> None:
    supported(bench)
    bench.change()
    with pytest.raises(ToolError, match="needs a verified change"):
        bench.conclude("fixed", causes=["H1"], changes=["C1"])
    change: Change = bench.ledger.changes["C1"]
    bench.feed(ChangeMoved(change=change.model_copy(update={"status": "verified"})))
    bench.conclude("fixed", causes=["H1"], changes=["C1"])


def test_configuration_fine_means_nothing_to_change(bench: Bench) -> None:
    bench.conclude("configuration_fine")
    bench.hypothesis(add=[graphs()])
    with pytest.raises(ToolError, match="H1 is untested"):
        bench.conclude("configuration_fine")
    bench.cite("H1", "P1", "configuration", "t1.1", "--disable-cuda-graph")
    with pytest.raises(ToolError, match="has no causes"):
        bench.conclude("configuration_fine", causes=["H1"])
    bench.conclude("configuration_fine")
    bench.change()
    with pytest.raises(ToolError, match="C1 is proposed for H1"):
        bench.conclude("configuration_fine")


@pytest.mark.parametrize("outcome", ["inconclusive", "needs_person"])
def test_giving_up_is_always_allowed_with_a_next_step(bench: Bench, outcome: str) -> None:
    bench.hypothesis(add=[graphs()])
    with pytest.raises(ToolError, match="needs a next_step"):
        bench.conclude(outcome)
    bench.conclude(outcome, next_step="attach a model")


def test_checks_compare_whole_numbers() -> None:
    below = ValueCheck(pattern=r"tok/s: (\S+)", op="<", value=30)
    assert evaluate(below, "tok/s: 24.4", "", None)
    assert not evaluate(below, "tok/s: 44.3", "", None)
    assert not evaluate(below, "nothing", "", None)
    assert not evaluate(ValueCheck(pattern=r"(2)", op="==", value=2), "24.4", "", None)
    ratio = RatioCheck(pattern=r"(\d+\.\d) W of (\d+) W", op="<", value=0.2)
    assert evaluate(ratio, "85.0 W of 600 W", "", None)
    assert not evaluate(ratio, "185.0 W of 600 W", "", None)
    assert not evaluate(ratio, "85.0 W of 0 W", "", None)
    assert evaluate(JudgementCheck(), "", "", True) and not evaluate(JudgementCheck(), "", "", None)
    assert not evaluate(TextCheck(pattern="a b", present=False), "x", "a\n b", None)


def test_quotes_never_cut_words_or_numbers() -> None:
    stored = StoredText(
        b"--pp-size\0" + b"80\nspeed 24.41 tok/s -5\n\n if  not  self.enable_mis:\n", first_line=10
    )
    for cut in ("--pp-size 8", "speed 24", "24.4", "peed 24.41", "5", "self.enable"):
        assert not list(stored.find(cut)), cut
    for whole, lines in (("--pp-size 80", (10, 10)), ("24.41 tok/s", (11, 11)), ("-5 if not", (11, 13))):
        assert [place.lines for place in stored.find(whole)] == [lines]
    assert stored.last_line == 13
    assert stored.between(11, 12) == "speed 24.41 tok/s -5\n\n"
    assert stored.between(14, 20) == "" and stored.between(1, 9) == ""
    assert stored.line(13) == " if  not  self.enable_mis:"
