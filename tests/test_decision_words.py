"""What a person may answer at a change, and what is asked about once more."""

from __future__ import annotations

import pytest

from agent.surfaces.decision_words import ASK, ASK_UNDO, REASON, Answer, take_answer


class Person:
    """Answer with prepared lines; keep what was asked and told."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.asked: list[str] = []
        self.told = ""

    async def ask(self, question: str) -> str:
        self.asked.append(question)
        return self.lines.pop(0)

    def tell(self, text: str) -> None:
        self.told += text


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["y"], Answer("yes")),
        ([" YES "], Answer("yes")),
        (["n"], Answer("no")),
        (["", "No"], Answer("no")),
        (["edit"], Answer("edit")),
        (["d not today"], Answer("no", "not today")),
        (["deny: it is Friday"], Answer("no", "it is Friday")),
        (["d", "not today"], Answer("no", "not today")),
        (["d", ""], Answer("no")),
        (["yes please", "n", "y"], Answer("yes")),
        (["yes please", "", "n"], Answer("no")),
        (["go on", "y"], Answer("no", "go on")),
        (["no problem", "N", "y"], Answer("yes")),
        (["denied", "no", "e"], Answer("edit")),
        (["?", "n"], Answer("no")),
    ],
)
async def test_only_the_words_of_the_question_decide(lines: list[str], answer: Answer) -> None:
    person = Person(*lines)
    assert await take_answer(person.ask, person.ask, person.tell) == answer
    assert person.lines == [] and person.asked[0] == ASK


@pytest.mark.parametrize("line", ["yes please", "go on", "x", "?", "y y", "ja"])
async def test_a_stray_line_of_a_pipe_denies_and_takes_no_other_line(line: str) -> None:
    person = Person(line, "y")
    answer = await take_answer(person.ask, person.ask, person.tell, unattended=True)
    assert answer == Answer("no", line) and person.lines == ["y"]


async def test_an_undo_takes_no_other_value() -> None:
    person = Person("e", "?", "d", "later")
    assert await take_answer(person.ask, person.ask, person.tell, edits=False) == Answer("no", "later")
    assert "takes no other value" in person.told and "e, edit" not in person.told
    assert person.asked == [ASK_UNDO, ASK_UNDO, ASK_UNDO, REASON]
