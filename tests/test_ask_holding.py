"""Ctrl-C in `leadline ask` at a terminal: once holds the model and takes a message, twice leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events import ApprovalVoided, Ended, Event, ToolFinished, UserMessage
from agent.transcript import check_order, read_events
from tests.chat_program import WORDS
from tests.terminal_fixtures import CTRL_C, CTRL_D, Terminal, environment, typing

GO_ON = "go on with: leadline ask local --resume one"


def program(root: Path, *words: str) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("ask_program.py")), str(root), *words]


@pytest.fixture
def ask(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """An investigation held in the middle of a command on the host."""
    words = getattr(request, "param", ("sleeps",))
    with typing(program(tmp_path, *words), environment(str(tmp_path))) as terminal:
        terminal.expect("I look for long.")
        terminal.expect("t3 asleep")
        terminal.type(CTRL_C, enter=False)
        terminal.expect("held: the model waits, and what runs on the host goes on. ")
        yield terminal


def events(root: Path) -> list[Event]:
    path = root / "threads" / "one" / "transcript.jsonl"
    found = read_events(path)
    check_order(found, path)
    return found


def said(root: Path) -> list[str]:
    return [event.text for event in events(root) if isinstance(event, UserMessage)]


def slept(root: Path) -> list[str]:
    """Return what became of the command that ran when Ctrl-C was pressed."""
    return [one.view for one in events(root) if isinstance(one, ToolFinished) and one.tool == "sleep"]


def test_a_message_steers_and_the_command_on_the_host_comes_to_its_end(ask: Terminal, tmp_path: Path) -> None:
    ask.expect("Say something, press Enter to go on as before, or Ctrl-C again to leave")
    ask.expect("held> ")
    ask.type("mind the driver")
    ask.expect("going on; the model hears it at its next turn")
    ask.expect("t3 done in 3.")
    ask.expect("diagnosed: Graphs are off.")
    assert ask.ends() == 0
    assert said(tmp_path) == ["mind the driver"]
    (view,) = slept(tmp_path)
    assert '"exited"' in view and "slept" in view


def test_nothing_is_shown_while_it_asks_and_all_of_it_afterwards(ask: Terminal, tmp_path: Path) -> None:
    ask.expect("held> ")
    ask.type("half a wo", enter=False)
    ask.expect("half a wo")
    path = tmp_path / "threads" / "one" / "transcript.jsonl"
    subprocess.run(
        ["timeout", "30", "sh", "-c", 'until grep -q slept "$0"; do sleep 0.1; done', str(path)], check=True
    )
    ask.type("rd")
    assert ask.expect("going on; the model hears it at its next turn").strip() == "rd", "nothing came between"
    assert ask.expect("t3 done in 3.").strip() == ""
    assert ask.ends() == 0
    assert said(tmp_path) == ["half a word"]


def test_enter_alone_goes_on(ask: Terminal, tmp_path: Path) -> None:
    ask.expect("held> ")
    ask.type("")
    ask.expect("going on")
    ask.expect("diagnosed: Graphs are off.")
    assert ask.ends() == 0
    assert said(tmp_path) == [] and len(slept(tmp_path)) == 1


@pytest.mark.parametrize("ask", [("sleeps", "deaf")], indirect=True)
def test_a_model_that_takes_no_advice_says_so_and_goes_on(ask: Terminal, tmp_path: Path) -> None:
    ask.expect("Press Enter to go on as before, or Ctrl-C again to leave")
    ask.expect("held> ")
    ask.type("mind the driver")
    ask.expect("the built-in playbooks take no advice; a language model does: --model NAME --base-url URL")
    ask.expect("going on")
    assert ask.ends() == 0
    assert said(tmp_path) == []


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D], ids=["Ctrl-C", "Ctrl-D"])
def test_a_second_one_or_the_end_of_input_leaves_and_is_gone_on_from(
    ask: Terminal, tmp_path: Path, key: str
) -> None:
    ask.expect("held> ")
    ask.type(key, enter=False)
    ask.expect(f"interrupted; what was gathered is kept; {GO_ON}")
    assert ask.ends() == 130
    with typing(program(tmp_path, "sleeps", "again"), environment(str(tmp_path))) as again:
        again.expect("diagnosed: Graphs are off.")
        assert again.ends() == 0


def test_sigterm_ends_it_while_it_asks(ask: Terminal, tmp_path: Path) -> None:
    ask.expect("held> ")
    ask.process.send_signal(signal.SIGTERM)
    ask.expect(f"stopped; {GO_ON}")
    assert ask.ends() == 143
    assert not [event for event in events(tmp_path) if isinstance(event, Ended)]


def test_it_is_held_again_and_heard_again(ask: Terminal, tmp_path: Path) -> None:
    ask.expect("held> ")
    ask.type("one")
    ask.expect("going on")
    ask.type(CTRL_C, enter=False)
    ask.expect("held> ")
    ask.type("two")
    assert ask.ends() == 0
    assert said(tmp_path) == ["one", "two"]


def test_at_a_question_about_a_change_it_leaves(tmp_path: Path) -> None:
    with typing(program(tmp_path, "apply"), environment(str(tmp_path))) as terminal:
        terminal.expect("Apply it?")
        terminal.type(CTRL_C, enter=False)
        terminal.expect(GO_ON)
        assert terminal.ends() == 130
    assert not [event for event in events(tmp_path) if isinstance(event, ApprovalVoided)]


def test_without_a_terminal_the_first_one_leaves(tmp_path: Path) -> None:
    process = subprocess.Popen(
        program(tmp_path, "sleeps"),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(str(tmp_path)),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "t3 sleep" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(30) == 130 and GO_ON in rest and "held" not in rest
    process.stderr.close()
    assert WORDS not in rest
