"""Kill a trial at every point where it waits for its host, on both sides of the timer, and resume it.

``python killed_trial.py FOLDER`` prints a JSON line a kill: how each process ended and what the host says.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import agent.driver  # noqa: F401 - imported once here, not in each fork
from agent.events import ActionStarted
from agent.session import Session
from agent.transcript import check_order, read_events
from tests.file_host import FakeService, FileHost
from tests.killed_run import in_fork, kill_after
from tests.trial_parts import TRIAL_POINTS, go, moves, open_session, results

Fault = Callable[[str, str], None]
AT_ONCE = 4

PLACES = [
    (point, when, nth)
    for point, when, nth in itertools.product(TRIAL_POINTS, ("before", "after"), (1, 2, 3))
    if point not in ("wait", "status", "make_undo") and nth <= {"measure": 2, "observe": 3}.get(point, 1)
]
"""Where a first process dies; `status` is asked only by one that resumes, `wait` is the bench's own, and
`make_undo` belongs to a thread of another kind (tests/test_undo_kill.py)."""


def dies_at(point: str, when: str, nth: int) -> Fault:
    """Return what kills this process at the n-th passing of a point."""
    left = [nth]

    def fault(at: str, side: str) -> None:
        left[0] -= (at, side) == (point, when)
        if not left[0]:
            os.kill(os.getpid(), 9)

    return fault


def first(root: Path, to: str, fault: Fault, events: int) -> None:
    """Run a trial until it dies, or to its end."""
    service = FakeService(FileHost(root / "host.json"), to, fault)
    service.leased = True

    async def main() -> None:
        session = open_session(root, service, moves(outcome="inconclusive"))
        if events:
            kill_after(session, events)
        await _to_the_end(session)

    asyncio.run(main())


def again(root: Path, to: str, fault: Fault) -> None:
    """Resume the trial."""
    service = FakeService(FileHost(root / "host.json"), to, fault)
    service.leased = True

    async def main() -> None:
        await _to_the_end(open_session(root, service, moves(outcome="inconclusive"), resume=True))

    asyncio.run(main())


async def _to_the_end(session: Session) -> None:
    try:
        await go(session)
    finally:
        await session.close()


def report(root: Path, name: str, codes: list[int]) -> None:
    """Print what the host and the transcript hold in the end."""
    path = root / "threads" / "one" / "transcript.jsonl"
    events = read_events(path)
    check_order(events, path)
    applied = [event.digest for event in events if isinstance(event, ActionStarted) and event.step == "apply"]
    host = FileHost(root / "host.json").read()

    async def told() -> list[dict[str, object]]:
        session = open_session(root, FakeService(FileHost(root / "host.json")), moves(), resume=True)
        await session.close()
        return results(session)

    (result,) = asyncio.run(told())
    row = {
        "name": name,
        "codes": codes,
        "result": result["result"],
        "status": result["status"],
        "why": result["why"],
        "runs": host["runs"],
        "restarts": host["restarts"],
        "plans": {plan: known["state"] for plan, known in host["plans"].items()},
        "applied": len(applied),
        "distinct": len(set(applied)),
        "orders": [event.type for event in events if event.type == "approval_asked"],
    }
    os.write(1, (json.dumps(row) + "\n").encode())  # one piece, since several processes write


@dataclass(frozen=True)
class Story:
    """Say where a first process dies, whether the timer fires then, and where a second one dies."""

    name: str
    fault: tuple[str, str, int] | None = None
    events: int = 0
    fire: bool = False
    to: str = "graphs"
    twice: tuple[str, str, int] | None = None

    def play(self, root: Path) -> None:
        """Die, let the timer fire or not, resume, and report."""
        root.mkdir()
        codes = [in_fork(first, root, self.to, _fault(self.fault), self.events)]
        if codes[0]:
            if self.fire:
                FileHost(root / "host.json").fire()
            codes.append(in_fork(again, root, self.to, _fault(self.twice)))
            if codes[-1]:
                codes.append(in_fork(again, root, self.to, _fault(None)))
        report(root, self.name, codes)


def _fault(place: tuple[str, str, int] | None) -> Fault:
    return dies_at(*place) if place else lambda point, when: None


def stories(first_event: int, events: int) -> list[Story]:
    """Return a story for every point, for every stored event of a trial, and for both sides of the timer."""
    found: list[Story] = []
    for fire in (False, True):
        side = "fired" if fire else "armed"
        for point, when, nth in PLACES:
            to = "useless" if point == "roll_back" else "graphs"
            found.append(Story(f"{point} {when} {nth} {side}", (point, when, nth), fire=fire, to=to))
        for when in ("before", "after"):
            name, twice = f"status {when} 1 {side}", ("status", when, 1)
            found.append(Story(name, ("apply", "after", 1), fire=fire, twice=twice))
        found += [
            Story(f"event {number} {side}", events=number, fire=fire)
            for number in range(first_event, events + 1)
        ]
    return found


def main(root: Path) -> None:
    """Run one trial that nobody disturbs, to count its events, then all stories, a few at a time."""
    whole = Story("whole")
    whole.play(root / "whole")
    events = read_events(root / "whole" / "threads" / "one" / "transcript.jsonl")
    planned = next(event.seq for event in events if event.type == "plan_made")
    # The last event is written when there is nothing left to resume.
    told = list(enumerate(stories(planned, sum(event.type != "resumed" for event in events) - 2)))

    def some(share: int) -> None:
        for number, one in told[share::AT_ONCE]:
            one.play(root / str(number))

    children = []
    for share in range(AT_ONCE):
        if (pid := os.fork()) == 0:
            code = 1
            try:
                some(share)
                code = 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    if any(codes):
        raise SystemExit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
