from __future__ import annotations

from pathlib import Path

import pytest

from agent.events import ChangeMoved
from agent.state import Change
from tests.ledger_bench import Bench, graphs, oriented
from tools.contract import ToolError


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return oriented(tmp_path)


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
    for number, setting in enumerate(("SGLANG_X", "AllowedCPUs", "num_thread"), start=2):
        assert bench.change(setting=setting)["change"] == f"C{number}"


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
