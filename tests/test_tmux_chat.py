"""A chat in a real tmux: typed, steered, held, decided, killed and resumed; screens of three widths."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from agent.events import ApprovalGiven, Ended, Event, ToolFinished, UserMessage
from agent.surfaces.wrapping import cells
from agent.transcript import read_events
from tests.chat_program import WORDS
from tests.terminal_fixtures import environment
from tests.test_chat import SYMPTOM, program
from tests.tmux_fixtures import Pane, need_tmux, pane

pytestmark = [need_tmux, pytest.mark.slow]


def plainly(root: Path, **more: str) -> dict[str, str]:
    """Return the environment of a terminal that answers where its cursor stands, with no pager named."""
    own = environment(str(root), **more)
    own.pop("PROMPT_TOOLKIT_NO_CPR")
    if "PAGER" not in more:
        own.pop("PAGER")
    return own


def events(root: Path) -> list[Event]:
    (path,) = (root / "threads").glob("*/transcript.jsonl")
    return read_events(path)


def said(root: Path) -> list[str]:
    return [event.text for event in events(root) if isinstance(event, UserMessage)]


def investigated(it: Pane) -> None:
    it.wait("what is wrong>")
    it.type(SYMPTOM)
    it.wait("ask on>")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_screen_of_any_width_shows_the_work_and_where_it_stands(tmp_path: Path, columns: int) -> None:
    with pane(tmp_path, program(tmp_path, "quick"), plainly(tmp_path), (columns, 24)) as it:
        it.wait("what is wrong>")
        assert it.wait("here · ready")[-1].startswith("here · ready")
        it.type(SYMPTOM)
        it.wait("ask on>")
        status = it.wait("here · ready")[-1]
        assert ("1 supported" in status or "0?1+0-" in status) and (columns < 80 or "scripted" in status)
        whole = it.screen(history=True)
        assert all(cells(row) <= columns for row in whole)
        assert any("/show t1" in row for row in whole), "\n".join(whole)
        assert any(row.startswith("diagnosed: Graphs are off.") for row in whole)
        it.type("/quit")
        it.wait("exit=0")


def test_a_long_text_is_paged_on_a_screen_of_its_own(tmp_path: Path) -> None:
    with pane(tmp_path, program(tmp_path, "quick"), plainly(tmp_path), (80, 12)) as it:
        investigated(it)
        before = [row for row in it.screen(history=True) if "done in" in row]
        it.type("/help")
        it.wait("q leaves, space pages")
        it.keys("x", "y", "Enter")
        it.wait("q leaves first: what is typed here goes nowhere")
        it.keys("Space", "G")
        it.wait("H 1?3+2-")
        it.keys("q")
        it.wait("ask on>")
        whole = it.screen(history=True)
        assert [row for row in whole if "done in" in row] == before, "the scrollback is as it was"
        assert not any("q leaves" in row for row in whole)
        it.keys("C-d")
        it.wait("exit=0")


def test_commands_and_what_they_take_are_completed(tmp_path: Path) -> None:
    with pane(tmp_path, program(tmp_path, "quick"), plainly(tmp_path)) as it:
        investigated(it)
        it.keys("/", "s", "h", "o", "Tab")
        it.wait("ask on> /show")
        it.keys("Space", "Tab")
        it.wait("t1")
        it.keys("C-u")
        it.type("/quit")
        it.wait("exit=0")


def test_a_message_of_several_lines_by_keys_and_by_the_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "written\\nelsewhere" >"$1"\n')
    editor.chmod(0o755)
    own = plainly(tmp_path, EDITOR=str(editor), VISUAL=str(editor))
    with pane(tmp_path, program(tmp_path, "quick"), own) as it:
        investigated(it)
        it.keys("o", "n", "e", "M-Enter", "t", "w", "o", "C-j", "3", "Enter")
        it.wait(WORDS)
        it.wait("ask on>")
        it.keys("C-x", "C-e")
        it.wait("elsewhere")
        it.keys("Enter")
        it.wait("> written")
        it.wait("ask on>")
        it.type("/quit")
        it.wait("exit=0")
    assert said(tmp_path) == ["one\ntwo\n3", "written\nelsewhere"]


def test_the_keys_of_vi(tmp_path: Path) -> None:
    with pane(tmp_path, program(tmp_path, "quick"), plainly(tmp_path, LEADLINE_CHAT__VI="1")) as it:
        investigated(it)
        it.keys("x", "w", "h", "y", "Escape")
        time.sleep(0.7)  # an Escape that is followed at once is Alt
        it.keys("0", "x", "Enter")
        it.wait("> why")
        it.wait("ask on>")
        it.keys("C-d")
        it.wait("exit=0")
    assert said(tmp_path) == ["why"]


def test_held_steered_and_decided_on(tmp_path: Path) -> None:
    with pane(tmp_path, program(tmp_path, "late"), plainly(tmp_path), (100, 40)) as it:
        it.wait("what is wrong>")
        it.type(SYMPTOM)
        it.wait("I look for long.")
        it.keys("C-c")
        it.wait("held: the model waits")
        it.wait("held>")
        it.wait("t3 done in 3.")
        it.type("go on, but mind the driver")
        it.wait("> go on, but mind the driver")
        it.wait("Apply it?")
        it.wait("needs you")
        rows = it.wait("Plan:")
        assert any("+engine" in row for row in rows) and any("Undo:" in row for row in rows)
        coloured = "\n".join(it.screen(colours=True))
        assert "\x1b[31m    -engine --disable-cuda-graph" in coloured
        it.type("y")
        it.wait("C1 kept: improved at 1")
        it.wait("ask on>")
        it.keys("C-d")
        it.wait("exit=0")
    look = [one for one in events(tmp_path) if isinstance(one, ToolFinished) and one.tool == "look"]
    assert [one.status for one in look] == ["ok"]
    assert [one.decision for one in events(tmp_path) if isinstance(one, ApprovalGiven)] == ["approved"]


def test_edited_in_the_editor_then_denied_with_a_reason(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf 4 >"$1"\n')
    editor.chmod(0o755)
    own = plainly(tmp_path, EDITOR=str(editor), VISUAL=str(editor))
    with pane(tmp_path, program(tmp_path, "apply"), own, (100, 50)) as it:
        it.wait("what is wrong>")
        it.type(SYMPTOM)
        it.wait("Apply it?")
        it.type("n")
        it.wait("C2: --pp-async-batch-depth")
        it.wait("Apply it?")
        it.type("e")
        it.wait("New value of --pp-async-batch-depth")
        it.keys("C-x", "C-e")
        it.wait("leave it out: 4")
        it.keys("Enter")
        it.wait("C2 is planned anew")
        it.wait("edited the value: 1 was proposed")
        it.wait("Apply it?")
        it.type("d")
        it.wait("Reason:")
        it.type("not on a Friday")
        it.wait("C2 denied by")
        it.wait("ask on>")
        it.keys("C-d")
        it.wait("exit=0")
    given = [one for one in events(tmp_path) if isinstance(one, ApprovalGiven)]
    assert [(one.decision, one.reason) for one in given] == [("denied", ""), ("denied", "not on a Friday")]


def test_killed_and_resumed(tmp_path: Path) -> None:
    with pane(tmp_path / "first", program(tmp_path, "slow"), plainly(tmp_path)) as it:
        it.wait("what is wrong>")
        it.type(SYMPTOM)
        it.wait("I look for long.")
        it.type("mind the driver")
        it.wait("> mind the driver")
        os.kill(it.process(), signal.SIGKILL)
        it.wait("exit=137")
    with pane(tmp_path / "again", program(tmp_path, "slow", "here", "one"), plainly(tmp_path)) as it:
        it.wait("ask on>")
        it.keys("C-d")
        it.wait("exit=0")
    assert said(tmp_path) == ["mind the driver"]
    ids = [event.tool_call_id for event in events(tmp_path) if isinstance(event, ToolFinished)]
    assert len(ids) == len(set(ids))
    assert [event.outcome for event in events(tmp_path) if isinstance(event, Ended)] == ["diagnosed"]


def test_another_size_in_the_middle_and_wide_and_right_to_left_words(tmp_path: Path) -> None:
    with pane(tmp_path, program(tmp_path, "slow"), plainly(tmp_path), (120, 30)) as it:
        it.wait("what is wrong>")
        it.type("慢了🐢 בעיה slow")
        it.wait("I look for long.")
        it.resize(44, 20)
        it.keys("慢")
        it.wait("working> 慢")
        rows = it.screen()
        assert all(cells(row) <= 44 for row in rows)
        it.resize(100, 30)
        it.keys("C-u")
        it.wait("ask on>")
        it.type("/quit")
        it.wait("exit=0")
    assert events(tmp_path)[0].model_dump()["symptom"] == "慢了🐢 בעיה slow"


def test_a_terminal_that_goes_away_loses_nothing(tmp_path: Path) -> None:
    with pane(tmp_path / "first", program(tmp_path, "slow"), plainly(tmp_path)) as it:
        it.wait("what is wrong>")
        it.type(SYMPTOM)
        it.wait("I look for long.")
        process = it.process()
    for _ in range(200):
        if not Path(f"/proc/{process}").exists():
            break
        time.sleep(0.05)
    assert not Path(f"/proc/{process}").exists(), "it ends by itself"
    with pane(tmp_path / "again", program(tmp_path, "slow", "here", "one"), plainly(tmp_path)) as it:
        it.wait("ask on>")
        it.keys("C-d")
        it.wait("exit=0")
    assert [event.outcome for event in events(tmp_path) if isinstance(event, Ended)] == ["diagnosed"]
