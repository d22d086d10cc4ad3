from __future__ import annotations

from typing import Any

import pytest

from agent.measuring import comparison_text, known_cautions, outputs_of
from agent.outputs import asks_for_equality
from agent.state import Comparison
from agent.trial_view import trial_view
from tests.test_experiment import change, judged, measured
from tools.service_types import ChangeStatus as Standing

BEFORE, AFTER = {1: 24.4, 8: 97.7}, {1: 44.3, 8: 177.0}
CAUTION = "Compare greedy outputs before and after; keep the change only when they are equal."
Digests = dict[str, str]


def digests(word: str, *, alone: int = 3, beside: int = 8) -> Digests:
    """Return one digest for each prompt at concurrency 1 and 8."""
    return {f"c1.r{n}.0": word for n in range(1, alone + 1)} | {f"c8.r1.{n}": word for n in range(beside)}


def first_run(found: Digests, **changed: str) -> Digests:
    """Return the digests of the prompts that are sent twice, with some of them changed."""
    twice = {key: digest for key, digest in found.items() if ".r1." in key}
    return twice | {key.replace("_", "."): digest for key, digest in changed.items()}


def tried(after: Digests, again: Digests, again_after: Digests | None = None, **more: Any) -> Comparison:
    outputs = (digests("x"), after)
    return judged(BEFORE, AFTER, outputs=outputs, again=(again, again_after or first_run(after)), **more)


def test_a_server_that_reproduces_itself_is_held_to_its_outputs() -> None:
    same = tried(digests("x"), first_run(digests("x")))
    assert same.kept and same.outputs_equal is True and same.outputs_state == "equal"
    assert [(one.concurrency, one.compared, one.repeated) for one in same.outputs] == [(1, 3, 1), (8, 8, 8)]
    other = tried(digests("x") | {"c8.r1.4": "y"}, first_run(digests("x")))
    assert not other.kept and other.outputs_equal is False and other.outputs_state == "changed"
    assert "1 of 11 greedy outputs changed" in other.why


def test_outputs_that_change_by_themselves_do_not_forbid_a_gain() -> None:
    again = first_run(digests("x"), c8_r1_0="y", c8_r1_5="z")
    found = tried(digests("x") | {"c8.r1.3": "y", "c8.r1.4": "z", "c8.r1.6": "z"}, again)
    assert found.kept and found.outputs_equal is None and found.outputs_state == "not_comparable"
    alone, beside = found.outputs
    assert alone.equal is True and beside.equal is None
    assert (beside.unlike, beside.repeated, beside.different, beside.compared) == (2, 8, 3, 8)
    assert beside.why == (
        "not reproducible by itself: 2 of 8 differed between two runs of the same configuration"
    )
    assert "outputs not comparable at concurrency 8" in found.why and beside.why in found.why
    assert "3 greedy outputs at other concurrencies are equal" in found.why
    assert (found.outputs_compared, found.outputs_different) == (3, 0)


def test_doubt_stays_when_the_outputs_happen_to_be_equal() -> None:
    found = tried(digests("x"), first_run(digests("x"), c8_r1_0="y"))
    assert found.kept and found.outputs_state == "not_comparable" and found.outputs_equal is None


def test_a_change_where_the_server_is_steady_outweighs_doubt_elsewhere() -> None:
    again = first_run(digests("x"), c8_r1_0="y")
    found = tried(digests("x") | {"c1.r2.0": "y"}, again)
    assert not found.kept and found.outputs_state == "changed" and found.outputs_equal is False
    assert "1 of 3 greedy outputs changed" in found.why


def test_a_change_after_which_outputs_differ_from_run_to_run_is_not_kept() -> None:
    again_after = first_run(digests("x"), c8_r1_2="y")
    found = tried(digests("x"), first_run(digests("x")), again_after)
    assert not found.kept and found.outputs_state == "changed"
    assert "1 of 11 greedy outputs changed" in found.why
    assert "concurrency 8: reproducible by itself no more" in found.why


def test_without_a_control_a_difference_counts() -> None:
    found = judged(BEFORE, AFTER, outputs=(digests("x"), digests("x") | {"c8.r1.0": "y"}))
    assert not found.kept and found.outputs_state == "changed"
    assert {one.repeated for one in found.outputs} == {0}


@pytest.mark.parametrize("after", [{1: 24.4, 8: 97.9}, {1: 44.3, 8: 60.0}])
def test_doubt_about_outputs_excuses_nothing_else(after: dict[int, float]) -> None:
    again = first_run(digests("x"), c8_r1_0="y")
    outputs = (digests("x"), digests("x"))
    assert not judged(BEFORE, after, outputs=outputs, again=(again, {})).kept


def test_a_caution_that_asks_for_equal_outputs_is_a_state_of_its_own() -> None:
    again = first_run(digests("x"), c8_r1_0="y")
    found = tried(digests("x"), again, cautions=(CAUTION,))
    assert found.kept and found.outputs_state == "equality_open"
    assert "outputs not comparable" in found.why and "compare answers by hand" in found.why
    assert tried(digests("x"), first_run(digests("x")), cautions=(CAUTION,)).outputs_state == "equal"


def test_which_changes_ask_for_equal_outputs() -> None:
    assert asks_for_equality(change(cautions=(CAUTION,)))
    assert asks_for_equality(change(mechanism="none; check that greedy outputs are equal"))
    assert asks_for_equality(change("--pp-async-batch-depth"), known_cautions("--pp-async-batch-depth"))
    assert not asks_for_equality(change(cautions=("Above 1 it has wrong outputs.", "Equal load only.")))
    assert not asks_for_equality(change(), known_cautions("--disable-cuda-graph"))


def test_the_model_is_told_plainly() -> None:
    again = first_run(digests("x"), c8_r1_0="y")
    found = tried(digests("x"), again, cautions=(CAUTION,))
    view = trial_view(change(), _trial(found), "kept", Standing(state="confirmed", detail=""), "", ["later"])
    assert view["outputs"]["equal"] is None and view["outputs"]["state"] == "equality_open"
    assert view["outputs"]["levels"][1]["unlike"] == 1
    assert "outputs not comparable" in view["why"] and "outputs not comparable" in view["notes"][0]
    untried = trial_view(change(), None, "denied", Standing(state="none", detail="no"), "", [])
    assert untried["outputs"].keys() == view["outputs"].keys()
    text = comparison_text(change(), measured(BEFORE), measured(AFTER), found).decode()
    for line in (
        '"outputs_equal_at_1": true',
        '"outputs_equal_at_8": null',
        '"outputs_not_reproduced_at_8": 1',
        '"outputs_state": "equality_open"',
    ):
        assert text.count(line) == 1, line


def _trial(found: Comparison) -> Any:
    from agent.events import Judged, PlanMade
    from agent.trials import Trial
    from tests.test_experiment import NOW
    from tools.contract import ArtifactRef

    ref = ArtifactRef(handle="t1.1", sha256="0" * 64, host="here", label="x", taken_at=NOW, size=1)
    trial = Trial(PlanMade(change="C1", tool_call_id="c", plan={}, digest="d"))
    trial.judged = Judged(change="C1", comparison=found, predicted="", measured="", artifact=ref)
    return trial


def test_figures_with_and_without_a_control() -> None:
    old = outputs_of(b'{"outputs": {"c1.r1.0": "x"}}')
    assert old.first == {"c1.r1.0": "x"} and old.again == {}
    new = outputs_of(b'{"outputs": {"c1.r1.0": "x"}, "outputs_again": {"c1.r1.0": "y"}}')
    assert new.again == {"c1.r1.0": "y"}


def test_a_comparison_of_before_is_still_read() -> None:
    known = tried(digests("x"), {}).model_dump()
    old = {name: value for name, value in known.items() if name not in ("outputs", "outputs_state")}
    assert Comparison.model_validate(old).outputs_state is None
