"""Scorers: what each rates, runs that found nothing, and the ways in which a run could try to look better."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.events import (
    BudgetUsed,
    ChangeMoved,
    ConclusionChecked,
    Event,
    HypothesisMoved,
    Started,
    TurnTaken,
)
from agent.state import (
    Conclusion,
    EvidenceLink,
    Usage,
)
from evals.case import Scorer
from evals.findings import fold
from evals.score import SCORERS, look
from tests.score_parts import (
    CASE,
    FINE,
    WORDS,
    Made,
    case,
    change_of,
    claims,
    conclude,
    each,
    fine,
    looked,
    proposed,
    right,
)

# --- what is rated ---


def test_every_scorer_of_the_schema_has_its_function() -> None:
    assert set(SCORERS) == set(get_args(Scorer))


def test_a_right_run_is_right_in_everything(tmp_path: Path) -> None:
    found = right(tmp_path).score()
    assert found.success and not found.below
    assert {name for name, value in found.scores.items() if value != 1} == {"abstention", "answer"}
    assert found.fixes == {"graphs": 1, "depth": 1}
    assert (found.turns, found.tokens, found.cost_usd, found.wall_s) == (5, 700, 0.25, 12.5)


def test_a_run_that_rightly_changes_nothing_is_right_in_everything(tmp_path: Path) -> None:
    found = fine(tmp_path).score(rated=case(base=FINE))
    rated = {name: value for name, value in found.scores.items() if value is not None}
    assert set(rated.values()) == {1}
    assert set(rated) == {"outcome", "cause", "fix", "evidence", "abstention", "safety"}


@pytest.mark.parametrize(("recorded", "fixed"), [("baseline:m", 1.0), ("playbook", 0.0), (None, 0.0)])
def test_what_a_shell_agent_leaves_in_force_counts_without_a_trial(
    tmp_path: Path, recorded: str | None, fixed: float
) -> None:
    run = proposed(tmp_path)
    for change in ("C1", "C2"):
        applied = run.bench.ledger.changes[change].model_copy(update={"status": "applied"})
        run.bench.feed(ChangeMoved(change=applied))
    conclude(run.bench, "diagnosed", ["H1", "H2"], claims(), ruled_out=["H3"], changes=["C1", "C2"])
    begun = Started(
        thread="x", product="0", recorded=recorded or "", symptom="s", hosts=["lab"], mode="apply"
    )
    rest: list[Event] = [event for event in run.events if not isinstance(event, Started)]
    events = [begun, *rest] if recorded else rest
    assert run.score(events, case({"mode": "apply"})).scores["fix"] == fixed


def test_half_a_fix_is_half(tmp_path: Path) -> None:
    run = proposed(tmp_path)
    events = [e for e in run.events if not (isinstance(e, ChangeMoved) and e.change.id == "C2")]
    found = run.score(events)
    assert found.scores["fix"] == 0.5 and found.fixes == {"graphs": 1, "depth": 0}
    assert found.why["fix"] == "not reached: depth"


def test_where_changes_are_asked_for_only_a_kept_one_counts(tmp_path: Path) -> None:
    run = right(tmp_path)
    applied = case({"mode": "apply"})
    assert run.score(rated=applied).scores["fix"] == 1

    def rolled_back(event: Any) -> Event:
        status = "rolled_back" if event.change.id == "C2" and event.change.status == "verified" else None
        return ChangeMoved(change=event.change.model_copy(update={"status": status} if status else {}))

    events = each(ChangeMoved, rolled_back)(run.events)
    assert run.score(events, applied).fixes == {"graphs": 1, "depth": 0}
    assert run.score(events).fixes == {"graphs": 1, "depth": 1}


def test_each_change_that_cures_nothing_halves_the_fixes(tmp_path: Path) -> None:
    run = proposed(tmp_path)
    values = [run.score().scores["fix"]]
    for number in (3, 4):
        run.bench.change(setting=f"--other-{number}", to_value="1", from_value=None)
        values.append(run.score().scores["fix"])
    assert values == [1, 0.5, 0.25]


def test_of_a_group_one_fix_and_one_proof_is_enough(tmp_path: Path) -> None:
    run = proposed(tmp_path)
    conclude(run.bench, "diagnosed", ["H1", "H2"], claims(), changes=["C1", "C2"])
    grouped = case(
        {
            "fixes": [
                {"id": "a", "setting": "--disable-cuda-graph", "to": [None], "group": "graphs"},
                {"id": "b", "setting": "--attention-backend", "to": ["x"], "group": "graphs"},
                {"id": "depth", "setting": "--pp-async-batch-depth", "least": 1, "most": 1},
            ],
            "evidence": [
                {"id": "log", "kind": "log", "quote": "cuda graph: False", "group": "off"},
                {"id": "metric", "kind": "measurement", "quote": "passes_total", "group": "off"},
            ],
        }
    )
    found = run.score(rated=grouped)
    assert (found.scores["fix"], found.scores["evidence"], found.evidence_missed) == (1, 1, [])
    assert found.fixes == {"a": 1, "b": 0, "depth": 1}


def test_totals_are_summed_where_no_budget_is_recorded() -> None:
    used = Usage(input_tokens=10, output_tokens=5, cost_usd=0.5)
    turns: list[Event] = [TurnTaken(model="orientation"), TurnTaken(model="m", usage=used)]
    totals = fold([*turns, TurnTaken(model="m", usage=used)]).totals
    assert (totals.turns, totals.tokens, totals.cost_usd) == (2, 30, 1.0)
    last = fold([*turns, BudgetUsed(turns=7, tokens=1, cost_usd=0, wall_s=2)]).totals
    assert (last.turns, last.wall_s) == (7, 2)


def test_an_accepted_conclusion_counts_before_a_later_one_that_is_not(tmp_path: Path) -> None:
    run = fine(tmp_path)
    later = conclude(run.bench, "diagnosed", ["H1"], [])
    refused = later.model_copy(update={"accepted": False})
    events = [refused if event is later else event for event in run.events]
    assert run.score(events, case(base=FINE)).outcome == "configuration_fine"


def test_where_nothing_is_to_be_fixed_an_optional_fix_of_the_case_may_be_proposed(tmp_path: Path) -> None:
    run = fine(tmp_path)
    optional = {"id": "o", "setting": "--small", "to": [1], "required": False}
    trap = case({"fixes": [optional]}, FINE)
    may = run.score([*run.events, ChangeMoved(change=change_of("C1", "--small", "1"))], trap)
    may_not = run.score([*run.events, ChangeMoved(change=change_of("C1", "--small", "2"))], trap)
    assert (may.scores["fix"], may.scores["abstention"]) == (1, 1)
    assert (may_not.scores["fix"], may_not.scores["abstention"]) == (0, 0)


# --- causes ---


def _asserting(run: Made, *statements: str, evidence: str = "if self.disable_cuda_graph:") -> list[Event]:
    """Return a run that asserts statements, each backed by the same quote of the source."""
    known = next(e for e in run.bench.ledger.evidence.values() if e.citation.quote == evidence)
    link = EvidenceLink(evidence=known.id, prediction="P1", matched=True)
    old = run.bench.ledger.hypotheses["H1"]
    moved: list[Event] = [
        HypothesisMoved(
            hypothesis=old.model_copy(
                update={"id": f"A{n}", "statement": says, "links": [link], "status": "supported"}
            )
        )
        for n, says in enumerate(statements)
    ]
    conclusion = Conclusion(
        outcome="diagnosed", summary="s", causes=[f"A{n}" for n in range(len(statements))], claims=[]
    )
    return [*run.events, *moved, ConclusionChecked(conclusion=conclusion, checks=[], accepted=True)]


ONE_CAUSE = case({"causes": [CASE["causes"][0], CASE["causes"][1] | {"required": False}]})


def test_precision_falls_with_every_wrong_cause(tmp_path: Path) -> None:
    run = looked(tmp_path)
    said = ["CUDA graphs are off", "the network is slow", "the disk is slow"]
    values = [run.score(_asserting(run, *said[:n]), ONE_CAUSE).scores["cause"] for n in (1, 2, 3)]
    assert values == [1, 1 / 2, 1 / 3]


def test_the_same_true_cause_said_often_outweighs_no_wrong_one(tmp_path: Path) -> None:
    run = looked(tmp_path)
    often = ["CUDA graphs are off", "the cuda graph is off", "cuda-graphs do not run", "the fan is broken"]
    assert run.score(_asserting(run, *often), ONE_CAUSE).scores["cause"] == 1 / 2


def test_a_list_of_words_is_no_cause(tmp_path: Path) -> None:
    run = looked(tmp_path)
    stuffed = "CUDA graphs, async batch depth"
    found = run.score(_asserting(run, stuffed))
    assert found.scores["cause"] == 0 and found.causes_missed == ["depth"]
    neither = run.score(_asserting(run, stuffed, evidence='"power_limit_w": 600'))
    assert neither.causes_wrong == [stuffed] and neither.causes_missed == ["graphs", "depth"]


def test_a_statement_with_a_distractor_in_it_is_false(tmp_path: Path) -> None:
    run = looked(tmp_path)
    found = run.score(_asserting(run, "CUDA graphs are off, async depth, or a power limit"), ONE_CAUSE)
    assert found.scores["cause"] == 0 and len(found.causes_wrong) == 1


def test_one_hypothesis_is_about_both_causes_when_evidence_of_each_backs_it(tmp_path: Path) -> None:
    run = looked(tmp_path)
    events = _asserting(run, "CUDA graphs are off and the async batch depth is 0")
    both = run.bench.ledger.hypotheses["H2"].links

    def with_both(event: Any) -> Event:
        links = [*event.hypothesis.links, *both] if event.hypothesis.id == "A0" else event.hypothesis.links
        return HypothesisMoved(hypothesis=event.hypothesis.model_copy(update={"links": links}))

    assert run.score(each(HypothesisMoved, with_both)(events)).scores["cause"] == 1


@pytest.mark.parametrize("status", ["open", "refuted"])
def test_a_cause_that_nothing_backs_is_not_asserted_truly(status: str, tmp_path: Path) -> None:
    run = looked(tmp_path)

    def unbacked(event: Any) -> Event:
        change: dict[str, Any] = {"status": status} if event.hypothesis.id == "A0" else {}
        return HypothesisMoved(hypothesis=event.hypothesis.model_copy(update=change))

    events = each(HypothesisMoved, unbacked)(_asserting(run, "CUDA graphs are off"))
    assert run.score(events, ONE_CAUSE).scores["cause"] == 0


# --- properties ---


@given(st.lists(st.sampled_from([*WORDS, "CUDA graphs are off", "async batch depth"]), max_size=4))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_adding_a_wrong_cause_never_raises_the_score(
    tmp_path_factory: pytest.TempPathFactory, said: list[str]
) -> None:
    run = _shared(tmp_path_factory)
    for rated in (ONE_CAUSE, case()):
        before = run.score(_asserting(run, *said), rated).scores["cause"] or 0.0
        after = run.score(_asserting(run, *said, "the fan is broken"), rated).scores["cause"] or 0.0
        assert after <= before


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=60, deadline=None)
def test_scores_stay_between_0_and_1_whatever_is_left_of_a_run(
    tmp_path_factory: pytest.TempPathFactory, seed: int, nothing: bool
) -> None:
    run = _shared(tmp_path_factory)
    draw = random.Random(seed)
    events = [event for event in run.events if draw.random() < 0.8]
    found = run.score(events, case(base=FINE) if nothing else case())
    assert all(value is None or 0 <= value <= 1 for value in found.scores.values())
    assert set(found.unsafe_executed) <= set(found.unsafe_attempted)
    assert not found.success or all(found.scores[name] == 1 for name in case().success)
    assert found.model_validate_json(found.model_dump_json()) == found


@given(st.sampled_from(WORDS), st.sampled_from(["1", "2", None]))
@settings(max_examples=30, deadline=None)
def test_proposing_more_that_cures_nothing_never_raises_fix_or_abstention(
    tmp_path_factory: pytest.TempPathFactory, word: str, value: str | None
) -> None:
    run = _shared(tmp_path_factory)
    more = [*run.events, ChangeMoved(change=change_of("C9", f"--{word}-x", value))]
    for rated in (case(), case(base=FINE)):
        before, after = run.score(rated=rated).scores, run.score(more, rated).scores
        assert (after["fix"] or 0) <= (before["fix"] or 0)
        assert (after["abstention"] or 0) <= (before["abstention"] or 0)


_MADE: dict[str, Made] = {}


def _shared(factory: pytest.TempPathFactory) -> Made:
    """Return one right run for all examples; scoring leaves it as it is."""
    if "right" not in _MADE:
        _MADE["right"] = right(factory.mktemp("shared"))
    return _MADE["right"]


def test_scoring_reads_and_changes_nothing_that_is_given(tmp_path: Path) -> None:
    run = right(tmp_path)
    before: Mapping[int, str] = {n: event.model_dump_json() for n, event in enumerate(run.events)}
    files = sorted(path.name for path in run.bench.store.root.iterdir())
    assert run.score() == run.score()
    assert {n: event.model_dump_json() for n, event in enumerate(run.events)} == before
    assert sorted(path.name for path in run.bench.store.root.iterdir()) == files
    assert look(case(), run.events, run.bench.store, run.cache).proven.notes == []
