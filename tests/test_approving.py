"""The question at the terminal: what was typed before it decides nothing."""

from __future__ import annotations

import asyncio
import os
import pty
import sys

import pytest

from agent.surfaces import approving


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
