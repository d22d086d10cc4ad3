from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config import Settings
from agent.events import ActionStarted, ChangeMoved, Event, Judged, PlanMade
from agent.transcript import check_order, read_events
from evals.lab import hosts
from tests.lab_fixtures import need_sandbox

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timed]

TIMER_S = 60.0


async def leadline(root: Path, *argv: str, until: str = "") -> tuple[int, str]:
    """Run the command line; kill it with SIGKILL once a line of its progress holds ``until``."""
    env = {**os.environ, "LEADLINE_STATE_DIR": str(root), "LEADLINE_EXPERIMENT_TOKENS": "32"}  # noqa: TID251
    command = [str(Path(sys.executable).with_name("leadline")), *argv]
    child = await asyncio.create_subprocess_exec(*command, stdout=-3, stderr=-1, env=env)
    assert child.stderr is not None
    said = []
    try:
        async with asyncio.timeout(300):
            async for line in child.stderr:
                said.append(line.decode())
                if until and until in said[-1]:
                    child.send_signal(signal.SIGKILL)
                    break
            code = await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
    return code, "".join(said)


def trial(events: list[Event], change: str) -> list[str]:
    """Return the statuses that a change went through."""
    return [
        event.change.status
        for event in events
        if isinstance(event, ChangeMoved) and event.change.id == change
    ]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Give a folder for state, and end the labs that are left in it."""
    yield tmp_path
    settings = Settings(state_dir=tmp_path)
    for lab in hosts.list_labs(settings):
        hosts.down(lab.id, settings)


@pytest.mark.parametrize("fired", [False, True], ids=["timer armed", "timer fired"])
async def test_killed_while_the_change_is_measured(state: Path, fired: bool) -> None:
    need_sandbox()
    asked = ("ask", "lab:kimi-k26-pp8", "decode is slow: 24 tok/s, GPUs at 85 W of 600 W")
    code, said = await leadline(state, *asked, "--mode", "apply", "--approve", until="timer extended")
    assert code == -9, said
    (thread,) = (path.name for path in (state / "threads").iterdir())
    if fired:
        await asyncio.sleep(TIMER_S + 15)
    code, said = await leadline(state, "ask", asked[1], "--resume", thread, "--approve")
    assert code == 0, said
    path = state / "threads" / thread / "transcript.jsonl"
    events = read_events(path)
    check_order(events, path)
    applied = [event.digest for event in events if isinstance(event, ActionStarted) and event.step == "apply"]
    assert len(set(applied)) == len(applied), "a plan was applied twice"
    assert len(applied) <= sum(isinstance(event, PlanMade) for event in events)
    last = trial(events, "C1")[-1]
    judged = [event.change for event in events if isinstance(event, Judged)]
    if fired:
        assert last == "rolled_back" and "C1" not in judged, said
    else:
        assert last == "verified" and judged[0] == "C1", said
