"""The question at the terminal: what was typed before it decides nothing."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from pathlib import Path

import pytest

from agent.surfaces import approving
from tests.lab_fixtures import need_sandbox
from tests.terminal_fixtures import CTRL_C, environment, typing


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


@pytest.mark.lab
def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    need_sandbox()
    leadline = str(Path(sys.executable).with_name("leadline"))
    with typing([leadline, "ask", "lab:kimi-k26-pp8", "slow"], environment(str(tmp_path))) as terminal:
        terminal.expect("session")
        terminal.expect("facts")
        terminal.type(CTRL_C, enter=False)
        assert terminal.ends() == 130
        (thread,) = (tmp_path / "threads").iterdir()
        terminal.expect(f"go on with: leadline ask lab:kimi-k26-pp8 --resume {thread.name}")
        again = [leadline, "lab", "down", next((tmp_path / "labs").iterdir()).name]
    with typing(again, environment(str(tmp_path))) as terminal:
        assert terminal.ends() == 0
