"""The examples of the page on questions are answered as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.models.questions_answer import Look
from agent.questions import is_question
from tests.test_questions import concluded, view

PAGE = (Path(__file__).parent.parent / "docs" / "questions.md").read_text()
EXAMPLES = re.findall(r"^\| ([^|`]+\?) \| `(\w+)` \| (.+) \|$", PAGE, re.MULTILINE)


def test_the_page_has_examples_of_every_sort() -> None:
    assert len(EXAMPLES) >= 6
    assert {outcome for _, outcome, _ in EXAMPLES} == {"answered", "not_known"}
    assert any(says.startswith("Only in part: ") for _, _, says in EXAMPLES)
    assert any(" not " in question for question, _, _ in EXAMPLES)


@pytest.mark.parametrize(("question", "outcome", "says"), EXAMPLES)
def test_an_example_of_the_page_is_answered_like_that(question: str, outcome: str, says: str) -> None:
    assert is_question(question)
    looks = [Look("gpu1", view("gpu1")), Look("gpu2", view("gpu2", "0.5.12"))]
    answer = concluded(question, looks, [])
    assert answer.outcome == outcome
    assert answer.summary.startswith(says)
