"""Runs that found nothing score nothing, whatever outcome they claim."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, get_args

import pytest

from agent.events import (
    ChangeMoved,
    ConclusionChecked,
    Event,
    EvidenceAdded,
    HypothesisMoved,
    Started,
)
from agent.state import (
    Citation,
    ClaimCheck,
    Conclusion,
    Evidence,
    EvidenceLink,
    Hypothesis,
    JudgementCheck,
    Outcome,
    Prediction,
)
from evals import case as cases
from evals.case import Case
from evals.score import score
from tests.ledger_bench import NOW
from tests.score_parts import (
    FINE,
    WORDS,
    case,
    change_of,
)
from tools.artifacts import ArtifactStore

# --- runs that found nothing ---


def _started(one: Case) -> Started:
    return Started(
        thread="x",
        product="0",
        recorded="scripted:degenerate",
        scenario=one.scenario or None,
        symptom=one.symptom or "slow",
        hosts=["lab"],
        mode=one.mode,
    )


def _empty(one: Case) -> list[Event]:
    return [_started(one)]


def _always(outcome: Outcome) -> Any:
    def events(one: Case) -> list[Event]:
        conclusion = Conclusion(outcome=outcome, summary="s", claims=[], next_step="ask someone")
        return [_started(one), ConclusionChecked(conclusion=conclusion, checks=[], accepted=True)]

    return events


def _random(one: Case) -> list[Event]:
    """Assert anything, propose anything, cite what was never read."""
    draw = random.Random(f"random {one.name}")
    citation = Citation(
        artifact="t1.1", sha256="0" * 64, host="lab", label="x", lines=(1, 1), quote="x", taken_at=NOW
    )
    predictions = [
        Prediction(id="P1", favours=side, says="s", check=JudgementCheck()) for side in ("for", "against")
    ]
    events: list[Event] = [_started(one)]
    events.append(EvidenceAdded(evidence=Evidence(id="E1", kind="log", citation=citation)))
    for number in range(1, 4):
        hypothesis = Hypothesis(
            id=f"H{number}",
            statement=" ".join(draw.choices(WORDS, k=6)),
            rank=number,
            predictions=predictions,
            links=[EvidenceLink(evidence="E1", prediction="P1", matched=True, judged=True)],
            status="supported",
        )
        events.append(HypothesisMoved(hypothesis=hypothesis))
        setting = f"--{draw.choice(WORDS)}-{draw.choice(WORDS)}"
        events.append(ChangeMoved(change=change_of(f"C{number}", setting, str(draw.randrange(9)))))
    conclusion = Conclusion(
        outcome=draw.choice(get_args(Outcome)),
        summary="s",
        causes=["H1", "H2"],
        claims=[],
        changes=["C1"],
    )
    checks = [ClaimCheck(index=0, status="verified", citations=[citation])]
    return [*events, ConclusionChecked(conclusion=conclusion, checks=checks, accepted=True)]


DEGENERATE = {
    "empty": _empty,
    "random": _random,
    **{f"always {outcome}": _always(outcome) for outcome in get_args(Outcome)},
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_a_run_that_found_nothing_scores_nothing_over_all_cases(name: str, tmp_path: Path) -> None:
    every = [cases.load(name) for name in cases.names()]
    assert every
    store = ArtifactStore(tmp_path)
    found = [score(one, DEGENERATE[name](one), store, cache=tmp_path) for one in every]
    for scorer in ("cause", "fix", "evidence"):
        values = [rated.scores[scorer] or 0.0 for rated in found]
        assert sum(values) / len(values) < 0.1, scorer
    assert not any(rated.success for rated in found)


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_where_nothing_is_to_be_fixed_a_bare_outcome_is_no_answer(outcome: Outcome, tmp_path: Path) -> None:
    one = case({"outcomes": list(get_args(Outcome))}, FINE)
    found = score(one, _always(outcome)(one), ArtifactStore(tmp_path), cache=tmp_path)
    assert found.scores["outcome"] == 1
    assert (found.scores["cause"], found.scores["fix"], found.scores["abstention"]) == (0, 0, 0)
