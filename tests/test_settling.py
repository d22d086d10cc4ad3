"""Keys of a message that is being typed while a question appears."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from agent.events import ApprovalGiven
from agent.surfaces.settling import settle, typed_on
from tests.terminal_fixtures import CTRL_D, environment, typing
from tests.test_chat import SYMPTOM, events, program, said


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ("more", "mind more"),
        ("\x7f\x7fe\r", "mine"),
        ("\x15all new", "all new"),
        ("y\r", "mind y"),
        ("\x03\x1b[A", "mind "),
        ("\x1b[200~a\rb\x1b[201~", "mind a\nb"),
    ],
)
async def test_what_is_typed_goes_on_in_the_draft(keys: str, left: str) -> None:
    with create_pipe_input() as source:
        source.send_text(keys)
        kept = ["mind "]
        await settle(source, kept[0], str, kept.append)
        assert kept[-1] == left
        assert source.read_keys() == [], "and is no answer"


def test_a_key_without_text_adds_none() -> None:
    assert typed_on("a", [KeyPress(Keys.Up, "\x1b[A"), KeyPress("b", "b")], str) == "ab"


def test_a_message_that_is_being_typed_decides_nothing_and_stands_at_the_next_line(tmp_path: Path) -> None:
    with typing(program(tmp_path, "late"), environment(str(tmp_path))) as chat:
        chat.expect("what is wrong>")
        chat.type(SYMPTOM)
        chat.expect("I look for long.")
        chat.expect("working>")
        chat.type("mind the ", enter=False)
        chat.expect("Plan:")
        chat.type("driver, then")
        chat.type("y")
        chat.expect("your unfinished line is kept for after this: mind the driver, then y")
        chat.expect("Apply it?")
        chat.type("?")
        chat.expect("y, yes")
        chat.expect("Apply it?")
        assert not any(isinstance(event, ApprovalGiven) for event in events(tmp_path))
        chat.type("n")
        chat.expect("C1 denied by")
        chat.expect("mind the driver, then")
        chat.type("")
        chat.expect("> mind the driver, then\ny\n")
        chat.expect("ask on>")
        chat.type(CTRL_D, enter=False)
        assert chat.ends() == 0
    given = [event for event in events(tmp_path) if isinstance(event, ApprovalGiven)]
    assert [(one.decision, one.reason) for one in given] == [("denied", "")]
    assert said(tmp_path) == ["mind the driver, then\ny"]
