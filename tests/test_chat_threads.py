"""What commands do to a chat besides answering: another thread, a change taken back, the clipboard."""

from __future__ import annotations

import base64
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events import Ended, Forked, Started, UserMessage
from agent.surfaces import clipboard
from agent.transcript import check_order, read_events
from tests.chat_program import WORDS
from tests.terminal_fixtures import CTRL_C, CTRL_D, Terminal, environment, typing

HERE = Path(__file__).parent
SYMPTOM = "slow: 24 tok/s"


def program(root: Path, story: str) -> list[str]:
    return [sys.executable, str(HERE / "chat_program.py"), str(root), story]


@pytest.fixture
def chat(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A chat about the story that the test names, outside tmux whatever the tests run in."""
    with typing(program(tmp_path, request.param), environment(str(tmp_path), TMUX="")) as terminal:
        terminal.expect("what is wrong>")
        terminal.type(SYMPTOM)
        yield terminal


@pytest.mark.parametrize("chat", ["quick"], indirect=True)
def test_a_thread_is_forked_and_the_old_one_gone_back_to(chat: Terminal, tmp_path: Path) -> None:
    chat.expect("ask on>")
    chat.type("/fork 2")
    chat.expect("goes on from turn 2; one stays as it is.")
    chat.expect(f"on here: {SYMPTOM}")
    chat.expect("it is unfinished: Enter goes on, or say how")
    chat.expect("Enter goes on, or say how>")
    chat.type("look once more")
    chat.expect("diagnosed: Graphs are off.")
    chat.expect("ask on>")
    chat.type("/resume one")
    chat.expect(f"one on here: {SYMPTOM}")
    chat.expect("diagnosed: Graphs are off.")
    chat.expect("ask on>")
    chat.type("who reads the flag?")
    chat.expect(WORDS)
    chat.expect("ask on>")
    chat.type("/resume none")
    chat.expect("no thread none; see /resume")
    chat.type(CTRL_D, enter=False)
    chat.expect("ask on with: leadline chat here --resume one")
    assert chat.ends() == 0
    said = {}
    for path in (tmp_path / "threads").glob("*/transcript.jsonl"):
        events = read_events(path)
        check_order(events, path)
        forked = any(isinstance(event, Forked) for event in events)
        said[forked] = [event.text for event in events if isinstance(event, UserMessage)]
    assert said == {True: ["look once more"], False: ["who reads the flag?"]}


@pytest.mark.parametrize("chat", ["apply"], indirect=True)
def test_a_kept_change_is_taken_back_through_an_approval(chat: Terminal, tmp_path: Path) -> None:
    chat.expect("Apply it?")
    chat.type("/undo")
    chat.expect("when nothing is under way: decide on the change first")
    chat.expect("Apply it?")
    chat.type("y")
    chat.expect("C1 kept: improved at 1")
    chat.expect("Apply it?")
    chat.type("n")
    chat.expect("ask on>")
    chat.type("/undo c2")
    chat.expect("C2 is not one that stands")
    chat.type("/undo")
    chat.expect("to be taken back: C1, --disable-cuda-graph on engine.service")
    chat.expect("Predicted:")
    chat.expect("Apply it? y(es), n(o), d(eny with a reason)")
    chat.type("e")
    chat.expect("it takes no other value")
    chat.expect("Apply it?")
    chat.type("y")
    chat.expect("C1 of one was taken back")
    chat.expect("ask on>")
    chat.type("/undo")
    chat.expect("no change of this session stands")
    chat.type("/mode")
    chat.expect("apply: each change")
    chat.type("/quit")
    assert chat.ends() == 0
    (undo,) = (tmp_path / "threads").glob("undo-*/transcript.jsonl")
    assert [event.outcome for event in read_events(undo) if isinstance(event, Ended)] == ["fixed"]


@pytest.mark.parametrize("chat", ["slow"], indirect=True)
def test_work_that_is_held_is_ended_for_a_fork(chat: Terminal, tmp_path: Path) -> None:
    chat.expect("I look for long.")
    chat.expect("working>")
    chat.type("/fork")
    chat.expect("there are 0 to 2")
    chat.expect("  1  hypothesis")
    chat.type("/fork 1")
    chat.expect("press Ctrl-C, which holds the model, and type it then")
    chat.type(CTRL_C, enter=False)
    chat.expect("held>")
    chat.type("/undo")
    chat.expect("press Enter to go on, and type it after the answer")
    chat.type("/fork 1")
    chat.expect("goes on from turn 1; one stays as it is.")
    chat.expect("Enter goes on, or say how>")
    chat.type("/resume one")
    chat.expect("it is unfinished: Enter goes on")
    chat.expect("Enter goes on, or say how>")
    chat.type("/quit")
    assert chat.ends() == 0
    assert len(list((tmp_path / "threads").iterdir())) == 2


@pytest.mark.parametrize("chat", ["apply"], indirect=True)
def test_a_thread_whose_change_waits_says_so_when_it_is_taken_up(chat: Terminal, tmp_path: Path) -> None:
    chat.expect("Apply it?")
    chat.type(CTRL_C, enter=False)
    chat.expect("left unfinished")
    assert chat.ends() == 0
    with typing(program(tmp_path, "apply"), environment(str(tmp_path))) as again:
        again.expect("what is wrong>")
        again.type("/resume one")
        again.expect("C1 waits for your decision: Enter shows it, words void it")
        again.expect("Enter goes on, or say how>")
        again.type("")
        again.expect("C1: --disable-cuda-graph")
        again.expect("Apply it?")
        again.type("n")
        again.expect("C1 denied by")
        again.expect("Apply it?")
        again.type(CTRL_C, enter=False)
        assert again.ends() == 0


@pytest.mark.parametrize("chat", ["deaf"], indirect=True)
def test_another_investigation_begins_on_the_same_hosts(chat: Terminal, tmp_path: Path) -> None:
    chat.expect("ask on>")
    chat.type("try another flag")
    chat.expect("/new begins another investigation")
    chat.expect("ask on>")
    chat.type("/new")
    chat.expect("one stays as it is; your next message begins one on here")
    chat.expect("[here · read-only] what is wrong>")
    chat.type("/new")
    chat.expect("nothing was investigated yet")
    chat.type("slower than before: 12 tok/s")
    chat.expect("diagnosed: Graphs are off.")
    chat.expect("ask on>")
    chat.type(CTRL_D, enter=False)
    chat.expect("ask on with: leadline chat here --resume two")
    assert chat.ends() == 0
    begun = {path.parent.name: read_events(path)[0] for path in (tmp_path / "threads").glob("*/*.jsonl")}
    symptoms = {name: event.symptom for name, event in begun.items() if isinstance(event, Started)}
    assert symptoms == {"one": SYMPTOM, "two": "slower than before: 12 tok/s"}


@pytest.mark.parametrize("chat", ["quick"], indirect=True)
def test_the_last_answer_is_copied_by_the_terminal(chat: Terminal) -> None:
    chat.expect("ask on>")
    chat.type("/copy")
    chat.expect("copied the last answer")
    _, _, rest = chat.raw.partition("\x1b]52;c;")
    data, end, _ = rest.partition("\x07")
    assert end and base64.b64decode(data).decode().startswith("diagnosed: Graphs are off.")
    chat.expect("ask on>")
    chat.type("/quit")
    assert chat.ends() == 0


def test_a_text_too_long_for_a_clipboard_is_cut_between_characters() -> None:
    text, whole = clipboard.fitting("ü" * 40_000)
    assert not whole and set(text) == {"ü"} and len(clipboard.sequence(text)) <= clipboard.MOST + 10
    assert clipboard.fitting("short") == ("short", True)
    assert clipboard.through_tmux("x") == "\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\"


def test_inside_tmux_its_buffer_gets_the_text(tmp_path: Path) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is absent")
    tmux = ["tmux", "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]
    command = shlex.join(program(tmp_path, "quick"))
    subprocess.run(
        [*tmux, "new-session", "-d", "-s", "chat", "-x", "100", "-y", "30", command],
        env=environment(str(tmp_path)),
        check=True,
    )

    def until(words: list[str], text: str) -> str:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            done = subprocess.run([*tmux, *words], capture_output=True, text=True, check=False)
            if text in done.stdout:
                return done.stdout
            time.sleep(0.05)
        pytest.fail(f"{text!r} does not come:\n{done.stdout}{done.stderr}")

    def press(text: str) -> None:
        subprocess.run([*tmux, "send-keys", "-t", "chat", text, "Enter"], check=True)

    try:
        pane = ["capture-pane", "-p", "-t", "chat"]
        until(pane, "what is wrong>")
        press(SYMPTOM)
        until(pane, "ask on>")
        press("/copy t1.1")
        until(pane, "copied t1.1")
        assert until(["show-buffer"], "disable-cuda-graph") == "--disable-cuda-graph\n--pp-size\n8\n"
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


@pytest.mark.parametrize("chat", ["fails"], indirect=True)
def test_what_was_kept_for_after_the_answer_is_not_the_answer_to_an_error(
    chat: Terminal, tmp_path: Path
) -> None:
    chat.expect("I look for long.")
    chat.expect("working>")
    chat.type("who reads the flag?\t", enter=False)
    chat.expect("kept for after the answer: who reads the flag?")
    chat.expect("no connection; start it")
    chat.expect("Enter goes on, or say how>")
    chat.type("")
    chat.expect("diagnosed: Graphs are off.")
    chat.expect("> who reads the flag?")
    chat.expect("ask on>")
    chat.type("/quit")
    assert chat.ends() == 0
    (path,) = (tmp_path / "threads").glob("*/transcript.jsonl")
    order = [event for event in read_events(path) if isinstance(event, UserMessage | Ended)]
    assert isinstance(order[0], Ended) and order[0].outcome == "diagnosed"
    assert isinstance(order[1], UserMessage) and order[1].text == "who reads the flag?"
