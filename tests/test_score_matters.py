"""A statement that names everything asserts nothing, and right words without evidence of them are a guess."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.events import ConclusionChecked, Event, HypothesisMoved
from agent.state import Conclusion, EvidenceLink
from evals import case as cases
from evals.matters import LONGEST, MOST, is_list, named
from tests.score_parts import CASE, Made, case, looked

DATA = Path(__file__).parent / "data"
ALONE = case({"causes": CASE["causes"][:1], "distractors": []})
SHORT = (
    "A GPU was lost, or another job holds its memory, or the power brake is on, or P2P is disabled, or "
    "overlap scheduling is disabled, or CUDA graphs are off, or the server runs more threads "
    "than it has processors."
)


def asserting(run: Made, statement: str, quote: str = "if self.disable_cuda_graph:") -> list[Event]:
    """Return a run that asserts one statement, backed by one quote that is really there."""
    known = next(e for e in run.bench.ledger.evidence.values() if e.citation.quote == quote)
    link = EvidenceLink(evidence=known.id, prediction="P1", matched=True)
    said: dict[str, Any] = {"id": "A0", "statement": statement, "links": [link], "status": "supported"}
    moved = HypothesisMoved(hypothesis=run.bench.ledger.hypotheses["H1"].model_copy(update=said))
    conclusion = Conclusion(outcome="diagnosed", summary="s", causes=["A0"], claims=[])
    return [*run.events, moved, ConclusionChecked(conclusion=conclusion, checks=[], accepted=True)]


def everything() -> str:
    """Return one statement of all causes of all cases."""
    return " ".join(cause.says for name in cases.names() for cause in cases.load(name).causes)


def texts(value: object) -> Iterator[str]:
    """Yield every text in a tree."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


def test_a_statement_of_one_cause_is_true(tmp_path: Path) -> None:
    run = looked(tmp_path)
    assert run.score(asserting(run, "CUDA graphs are off"), ALONE).scores["cause"] == 1


@pytest.mark.parametrize("statement", [everything(), SHORT], ids=["all", "short"])
def test_a_statement_of_every_cause_is_false_also_where_one_of_them_is_true(
    statement: str, tmp_path: Path
) -> None:
    run = looked(tmp_path)
    found = run.score(asserting(run, f"CUDA graphs are off. {statement}"), ALONE)
    assert found.scores["cause"] == 0 and len(found.causes_wrong) == 1


def test_right_words_with_evidence_of_something_else_are_a_guess(tmp_path: Path) -> None:
    run = looked(tmp_path)
    found = run.score(asserting(run, "CUDA graphs are off", '"power_limit_w": 600'), ALONE)
    assert found.scores["cause"] == 0 and found.causes_wrong == ["CUDA graphs are off"]


def test_evidence_that_the_case_asks_for_need_not_use_the_words_of_the_cause(tmp_path: Path) -> None:
    run = looked(tmp_path)
    odd = case(
        {"causes": [{"id": "kernels", "says": "k", "any": ["kernels? .*one by one"]}], "distractors": []}
    )
    assert run.score(asserting(run, "Kernels are launched one by one"), odd).scores["cause"] == 1


def test_matters_are_counted_once_however_they_are_said() -> None:
    assert named("The flag --disable-cuda-graph turns CUDA graphs off: capture is disabled.") == 1
    assert named("Nothing is known.") == 0
    assert named(SHORT) > MOST
    assert is_list("x" * (LONGEST + 1)) and not is_list("CUDA graphs are off.")


def test_no_cause_as_people_say_it_is_a_list() -> None:
    said = [
        text
        for file in DATA.glob("case_paraphrases*.yaml")
        for text in texts(yaml.safe_load(file.read_text()))
    ]
    said += [cause.says for name in cases.names() for cause in cases.load(name).causes]
    assert len(said) > 300 and not [text for text in said if is_list(text)]
