"""A process that takes a kept change back dies wherever it waits; the next one finds out how it stands."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.kept import find_kept
from agent.session import Session
from agent.surfaces.changes_kept import open_undo
from tests.file_host import FakeService, FileHost
from tests.killed_run import in_fork
from tests.scripted_parts import LocalHost, make_settings
from tests.trial_parts import go, moves, open_session, ports, redact, results, tools

pytestmark = [pytest.mark.slow, pytest.mark.threat(14), pytest.mark.threat(15)]

POINTS = ("make_undo", "lease", "apply", "confirm", "give_back")
Fault = Callable[[str, str], None]


def keep(root: Path) -> None:
    """Keep a change."""

    async def main() -> None:
        session = open_session(root, FakeService(FileHost(root / "host.json"), "graphs"), moves())
        await go(session)
        await session.close()

    asyncio.run(main())


def take_back(root: Path, fault: Fault = lambda point, when: None) -> None:
    """Take it back, or die on the way."""

    async def main() -> None:
        session = opened(root, fault)
        await go(session)
        await session.close()

    asyncio.run(main())


def opened(root: Path, fault: Fault = lambda point, when: None) -> Session:
    service = FakeService(FileHost(root / "host.json"), "old", fault)
    service.leased = True
    more: dict[str, Any] = {"tools": tools(service), "redact": redact, "ports": ports(service)}
    settings = make_settings(root)
    return open_undo(settings, find_kept(settings, "one/C1"), LocalHost(), **more)


def dies_at(point: str, when: str) -> Fault:
    def fault(at: str, side: str) -> None:
        if (at, side) == (point, when):
            os.kill(os.getpid(), 9)

    return fault


def result(root: Path) -> str:
    """Return what the thread recorded in the end."""
    from agent.transcript import read_events

    path = root / "threads"
    (thread,) = [folder for folder in path.iterdir() if folder.name.startswith("undo-")]
    session = type("Read", (), {"events": read_events(thread / "transcript.jsonl")})()
    (told,) = results(session)
    return str(told["result"])


@pytest.mark.parametrize("fire", [False, True], ids=["armed", "fired"])
@pytest.mark.parametrize(("point", "when"), list(itertools.product(POINTS, ("before", "after"))))
def test_a_death_takes_nothing_back_twice_and_loses_nothing(
    tmp_path: Path, point: str, when: str, fire: bool
) -> None:
    assert in_fork(keep, tmp_path) == 0
    assert in_fork(take_back, tmp_path, dies_at(point, when)) == -9
    host = FileHost(tmp_path / "host.json")
    if fire:
        host.fire()
    assert in_fork(take_back, tmp_path) == 0
    state = host.read()
    told = result(tmp_path)
    plans = [plan["state"] for plan in state["plans"].values()][1:]
    if told == "kept":
        assert state["runs"] == "old" and state["restarts"] == 2 and plans == ["confirmed"]
    elif told == "rolled_back":
        assert state["runs"] == "graphs" and state["restarts"] == 3 and plans == ["rolled_back"]
    else:
        assert told == "not_applied" and state["runs"] == "graphs" and state["restarts"] == 1 and not plans
