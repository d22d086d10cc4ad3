"""Slash commands of a chat in a real tmux: before the first message, while it works, and long answers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent.events import ApprovalGiven, Started
from tests.test_chat import SYMPTOM, program
from tests.test_tmux_chat import events, plainly
from tests.tmux_fixtures import Pane, need_tmux, pane

pytestmark = [need_tmux, pytest.mark.slow]


def answered(it: Pane, question: str) -> str:
    """Wait for what stands under the repeated question, above the input line; return its first row."""
    until = time.monotonic() + 30
    rows: list[str] = []
    while time.monotonic() < until:
        rows = it.screen()
        asked = max((number for number, row in enumerate(rows) if row == f"> {question}"), default=len(rows))
        under = next((row for row in rows[asked + 1 :] if row), "[here")
        if not under.startswith(("[here", "Apply it?")):
            return under
        time.sleep(0.05)
    pytest.fail("\n".join([f"{question!r} has no answer:", *rows]))


def test_before_the_first_message_the_desk_answers(tmp_path: Path) -> None:
    with pane(tmp_path, program(tmp_path, "quick"), plainly(tmp_path), (100, 40)) as it:
        it.wait("what is wrong>")
        it.type("/hosts")
        assert answered(it, "/hosts") == "here: connected"
        it.type("/log")
        assert answered(it, "/log").startswith("no command ran yet")
        it.type("!uname -s")
        it.wait("[here] exit 0 in")
        it.type("/mode propose")
        it.wait("[here · propose] what is wrong>")
        assert "· propose · " in it.wait("here · ready")[-1]
        it.type("/diff")
        assert answered(it, "/diff").startswith("nothing was investigated")
        coloured = it.screen(colours=True)
        assert [row for row in coloured if "> !uname -s" in row] == ["\x1b[2m> !uname -s"], "it is dim"
        it.type(SYMPTOM)
        it.wait("ask on>")
        it.type("/quit")
        it.wait("exit=0")
    (started, *_) = events(tmp_path)
    assert isinstance(started, Started) and started.mode == "propose"


def test_what_is_asked_while_it_works_or_waits_stands_above_its_answer(tmp_path: Path) -> None:
    with pane(tmp_path, program(tmp_path, "late"), plainly(tmp_path), (100, 50)) as it:
        it.wait("what is wrong>")
        it.type(SYMPTOM)
        it.wait("I look for long.")
        it.type("/mode")
        assert answered(it, "/mode").startswith("apply: each change")
        it.type("!uname -s")
        assert answered(it, "!uname -s") == "$ uname -s"
        it.wait("Apply it?")
        it.type("/diff")
        assert answered(it, "/diff").startswith("C1 proposed: ")
        it.wait("Apply it?")
        it.type("n")
        it.wait("ask on>")
        it.keys("C-d")
        it.wait("exit=0")


@pytest.mark.parametrize("named", ["", "less"])
def test_a_long_log_is_paged_with_the_newest_in_view(tmp_path: Path, named: str) -> None:
    own = plainly(tmp_path, **({"PAGER": named} if named else {}))
    with pane(tmp_path, program(tmp_path, "quick"), own, (60, 12)) as it:
        it.wait("what is wrong>")
        for number in range(8):
            it.type(f"!echo number {number} of {'many ' * 10}")
            it.wait(f"$ echo number {number} of many", history=True)
            it.wait("what is wrong>")
        it.type("/log")
        rows = it.wait("(END)" if named else "q leaves, space pages")
        assert any("number 7 of many" in row for row in rows) and "q leaves, space pages" in rows[-1]
        assert not any("number 0 of many" in row for row in rows)
        it.keys("g")
        it.wait("number 0 of many")
        it.keys("q")
        it.wait("what is wrong>")
        it.type("/log 1")
        assert answered(it, "/log 1") == "... 7 before; /log shows all"
        it.keys("C-d")
        it.wait("exit=0")


def test_a_pager_at_a_decision_says_how_to_leave_it_and_decides_nothing(tmp_path: Path) -> None:
    with pane(tmp_path, program(tmp_path, "apply"), plainly(tmp_path), (80, 20)) as it:
        it.wait("what is wrong>")
        it.type(SYMPTOM)
        it.wait("Apply it?")
        it.type("/help")
        it.wait("q leaves, space pages")
        it.type("yes")
        it.wait("q leaves first: what is typed here goes nowhere")
        it.keys("q")
        it.wait("Apply it?")
        it.type("?")
        it.wait("d, deny")
        it.wait("Apply it?")
        assert not any(isinstance(event, ApprovalGiven) for event in events(tmp_path))
        it.keys("C-c")
        it.wait("exit=0")
