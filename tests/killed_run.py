"""Run a story, killed with SIGKILL after its first, second, ... event, and resume it each time.

``python killed_run.py FOLDER`` prints a JSON line a kill: how each process ended, what the thread holds.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import agent.driver  # noqa: F401 - imported once here, not in each fork
from agent.events import Event, ToolFinished
from agent.session import Session
from agent.transcript import check_order, read_events
from tests.scripted_parts import STORY, Move, again, begin, call, conclusion, essence, run, turn


def in_fork(job: Callable[..., None], *args: object) -> int:
    """Run a job in a process of its own; return its exit code, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            job(*args)
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_after(session: Session, events: int) -> None:
    """Arrange that this process dies right after so many more events are written."""
    left = [events]

    def count(event: Event) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), 9)

    session._work.transcript.follow(count, replay=False)


def started(root: Path, moves: Sequence[Move], thread: str, events: int) -> None:
    """Start a thread and die after some events."""

    async def main() -> None:
        session = begin(root, moves, thread=thread)
        kill_after(session, events)
        await run(session)

    asyncio.run(main())


def resumed(root: Path, moves: Sequence[Move], thread: str, events: int = 0) -> None:
    """Resume a thread and, if so told, die again."""

    async def main() -> None:
        session = again(root, moves, thread)
        if events:
            kill_after(session, events)
        await run(session)

    asyncio.run(main())


def report(root: Path, thread: str, codes: list[int]) -> None:
    """Print what a thread holds in the end."""
    path = root / "threads" / thread / "transcript.jsonl"
    events = read_events(path)
    check_order(events, path)
    done = Counter(event.tool_call_id for event in events if isinstance(event, ToolFinished))
    held = sorted(json.dumps(item, sort_keys=True) for item in essence(events))
    sys.stdout.write(json.dumps({"codes": codes, "most": max(done.values()), "essence": held}) + "\n")


def every_boundary(root: Path) -> None:
    """Kill after each event of the story in turn, and some once more in the middle of the second try."""
    events = 0
    while True:
        events += 1
        thread = f"cut-{events}"
        codes = [in_fork(started, root, STORY, thread, events)]
        if codes[0] == 0:
            report(root, thread, codes)
            return
        if events % 3 == 0:
            codes.append(in_fork(resumed, root, STORY, thread, 3))
        codes.append(in_fork(resumed, root, STORY, thread))
        report(root, thread, codes)


def in_the_middle_of_a_write(root: Path) -> None:
    """Die inside a tool that changes something, after it did."""
    path = root / "touched"
    moves = [turn(call("touch", path=str(path), then_die=True)), turn(conclusion(outcome="inconclusive"))]
    codes = [in_fork(started, root, moves, "write", 1000)]
    codes.append(in_fork(resumed, root, moves, "write"))
    report(root, "write", codes)


if __name__ == "__main__":
    every_boundary(Path(sys.argv[1]))
    in_the_middle_of_a_write(Path(sys.argv[1]))
