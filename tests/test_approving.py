"""The question at the terminal: what was typed before it decides nothing."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from pathlib import Path

import pytest

from agent.events import ApprovalGiven, PlanMade
from agent.surfaces import approving
from agent.transcript import read_events
from tests.lab_fixtures import need_sandbox
from tests.terminal_fixtures import CTRL_C, CTRL_D, environment, typing


@pytest.mark.parametrize("ahead", ["y\n", "y\ny\n"])
async def test_a_yes_that_was_typed_before_the_plan_was_shown_is_dropped(
    ahead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = pty.openpty()
    os.write(master, ahead.encode())
    with os.fdopen(slave) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        asking = asyncio.create_task(approving._answer("Apply it? "))
        await asyncio.sleep(0.1)
        assert not asking.done()
        os.write(master, b"no, not now\n")
        assert await asyncio.wait_for(asking, 10) == "no, not now"
    os.close(master)


def test_a_value_is_edited_and_what_comes_of_it_denied(tmp_path: Path) -> None:
    argv = [sys.executable, str(Path(__file__).with_name("deciding_program.py")), str(tmp_path)]
    with typing(argv, environment(str(tmp_path))) as terminal:
        head = terminal.expect("Touches:")
        terminal.type("y")
        plan = head + "Touches:" + terminal.expect("Apply it?")
        assert "Touches:" in plan and "edited" not in plan
        terminal.type("e")
        terminal.expect("Another value than 1 for --pp-async-batch-depth")
        terminal.type("2")
        assert "edited the value: 1 was proposed" in terminal.expect("Apply it?")
        for stray in ("yes please", "x"):
            terminal.type(stray)
            terminal.expect(f"'{stray}' is no answer. Deny with it as the reason?")
            terminal.type("n")
            terminal.expect("Apply it?")
        terminal.type("?")
        terminal.expect("d, deny")
        terminal.expect("Apply it?")
        terminal.type("d not today")
        assert terminal.ends() == 0
    assert "\x1b[31m" in terminal.raw and "\x07" in terminal.raw, "a diff in colour, and a bell"
    found = read_events(tmp_path / "threads" / "one" / "transcript.jsonl")
    given = [(one.decision, one.reason) for one in found if isinstance(one, ApprovalGiven)]
    plans = [one.plan["to_value"] for one in found if isinstance(one, PlanMade)]
    assert given == [("denied", "not today")] and plans == ["1", "2"]


def test_a_terminal_that_is_closed_decides_nothing(tmp_path: Path) -> None:
    argv = [sys.executable, str(Path(__file__).with_name("deciding_program.py")), str(tmp_path)]
    with typing(argv, environment(str(tmp_path))) as terminal:
        terminal.expect("Apply it?")
        terminal.type(CTRL_D, enter=False)
        assert terminal.ends() == 0
    found = read_events(tmp_path / "threads" / "one" / "transcript.jsonl")
    assert not any(isinstance(one, ApprovalGiven) for one in found), "it waits on"


@pytest.mark.lab
def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    need_sandbox()
    leadline = str(Path(sys.executable).with_name("leadline"))
    with typing([leadline, "ask", "lab:kimi-k26-pp8", "slow"], environment(str(tmp_path))) as terminal:
        terminal.expect("session")
        terminal.expect("facts")
        terminal.type(CTRL_C, enter=False)
        terminal.expect("held> ")
        terminal.type(CTRL_C, enter=False)
        assert terminal.ends() == 130
        (thread,) = (tmp_path / "threads").iterdir()
        terminal.expect(f"go on with: leadline ask lab:kimi-k26-pp8 --resume {thread.name}")
        again = [leadline, "lab", "down", next((tmp_path / "labs").iterdir()).name]
    with typing(again, environment(str(tmp_path))) as terminal:
        assert terminal.ends() == 0
