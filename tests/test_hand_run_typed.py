"""Commands that are run by hand at a terminal: beside work, agreed to, and ended by Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events import BY_HAND, Ended, TurnTaken
from agent.transcript import check_order, read_events
from tests.terminal_fixtures import CTRL_C, Terminal, environment, typing

HERE = Path(__file__).parent
SYMPTOM = "slow: 24 tok/s"


@pytest.fixture
def chat(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A chat about the story that the test names."""
    argv = [sys.executable, str(HERE / "chat_program.py"), str(tmp_path), request.param]
    with typing(argv, environment(str(tmp_path))) as terminal:
        terminal.expect("what is wrong>")
        yield terminal


@pytest.mark.parametrize("chat", ["slow"], indirect=True)
def test_a_command_runs_beside_the_work_and_is_shared_after_it(chat: Terminal, tmp_path: Path) -> None:
    chat.type(SYMPTOM)
    chat.expect("I look for long.")
    chat.expect("working>")
    chat.type("!uname -s")
    chat.expect("[here] exit 0 in")
    chat.expect("/share gives this to the model")
    chat.type("/share")
    chat.expect("/share is for when nothing is under way")
    chat.expect("diagnosed: Graphs are off.")
    chat.expect("ask on>")
    chat.type("/share")
    chat.expect("the model sees it with your next message")
    chat.expect("ask on>")
    chat.type("/quit")
    assert chat.ends() == 0
    (path,) = (tmp_path / "threads").glob("*/transcript.jsonl")
    events = read_events(path)
    check_order(events, path)
    turns = [(place, one) for place, one in enumerate(events) if isinstance(one, TurnTaken)]
    by_hand = [place for place, one in turns if one.model == BY_HAND]
    ended = [place for place, one in enumerate(events) if isinstance(one, Ended)]
    assert len(by_hand) == 1 and by_hand[0] > ended[0]


@pytest.mark.parametrize("chat", ["quick"], indirect=True)
def test_a_command_that_is_agreed_to_is_ended_by_an_interrupt(chat: Terminal) -> None:
    chat.type("!sleep 30")
    chat.expect("not on the list of commands known to only read")
    chat.expect("on here: sleep 30")
    chat.expect("Run it?")
    chat.type("n")
    chat.expect("not run")
    chat.expect("what is wrong>")
    chat.type("!sleep 30")
    chat.expect("Run it?")
    chat.type("y")
    chat.expect("running by hand, Ctrl-C ends it>")
    chat.type(CTRL_C, enter=False)
    chat.expect("ended by Ctrl-C; how far it came on here is not known")
    chat.expect("what is wrong>")
    chat.type(CTRL_C, enter=False)
    assert chat.ends() == 0
