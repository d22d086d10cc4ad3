"""Kill a run before and after every write to the store of approvals, and resume it.

``python killed_approval.py FOLDER`` prints a JSON line a kill: how the processes ended and what is recorded.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import agent.driver  # noqa: F401 - imported once here, not in each fork
from agent.approvals_decide import decide
from agent.approvals_record import ApprovalRefused
from agent.approvals_store import ApprovalStore, Writing
from agent.session import Session
from agent.transcript import check_order, read_events
from tests.approval_parts import BO, ROLES, asked, by, settings, the_one
from tests.file_host import FakeService, FileHost
from tests.killed_run import in_fork
from tests.trial_parts import decision, moves, open_session

Side = Literal["before", "after"]
Way = Literal["terminal", "elsewhere", "message"]


def die_at(number: int, side: Side) -> None:
    """Let this process die at its n-th write to the store: before it is kept, or right after."""
    real = ApprovalStore.writing
    left = [number]

    @contextmanager
    def writing(store: ApprovalStore) -> Iterator[Writing]:
        with real(store) as stored:
            yield stored
            left[0] -= 1
            if left[0] == 0 and side == "before":
                os.kill(os.getpid(), 9)
        if left[0] == 0:
            os.kill(os.getpid(), 9)

    setattr(ApprovalStore, "writing", writing)  # noqa: B010 - its type is that of a method


async def to_the_end(root: Path, session: Session) -> None:
    """Go on to the end; count, in a file, how often a person answers."""
    async for _ in session.ask():
        pass
    while session.waiting is not None:
        with (root / "answers").open("a") as file:
            file.write("answer\n")
        async for _ in session.answer(decision(session)):
            pass
    await session.close()


def first(root: Path, way: Way, number: int, side: Side) -> None:
    """Start a thread, or take one up that was decided on elsewhere, and die at a write."""
    service = FakeService(FileHost(root / "host.json"))

    async def main() -> None:
        session = open_session(
            root, service, moves(outcome="inconclusive"), resume=way == "elsewhere", approvals=ROLES
        )
        if way == "message":
            async for _ in session.ask():
                pass
            async for _ in session.ask("look at the log first"):
                pass
        await to_the_end(root, session)

    die_at(number, side)
    asyncio.run(main())


def again(root: Path) -> None:
    """Take the thread up and bring it to its end."""
    service = FakeService(FileHost(root / "host.json"))
    session = open_session(root, service, moves(outcome="inconclusive"), resume=True, approvals=ROLES)
    asyncio.run(to_the_end(root, session))


def granted(root: Path) -> None:
    """Let a thread wait, and approve it from another process."""
    asyncio.run(asked(root))
    decide(settings(root), by(BO, the_one(root)))


def tell(root: Path, way: Way, number: int, side: Side, codes: list[int]) -> None:
    """Print what host, transcript and store hold in the end."""
    path = root / "threads" / "one" / "transcript.jsonl"
    events = read_events(path)
    check_order(events, path)
    kinds = Counter(event.type for event in events)
    answers = root / "answers"
    store = ApprovalStore(root)
    host = FileHost(root / "host.json").read()
    row = {
        "name": f"{way} {number} {side}",
        "codes": codes,
        "asked": kinds["approval_asked"],
        "planned": kinds["plan_made"],
        "given": kinds["approval_given"],
        "answers": len(answers.read_text().splitlines()) if answers.exists() else 0,
        "applied": sum(event.type == "action_started" and event.step == "apply" for event in events),
        "plans": len(host["plans"]),
        "restarts": host["restarts"],
        "runs": host["runs"],
        "states": [store.get(one).state for one in store.ids()],
        "ended": kinds["ended"],
    }
    os.write(1, (json.dumps(row) + "\n").encode())


def play(root: Path, way: Way, number: int, side: Side) -> bool:
    """Die, resume, tell; return whether there was a write to die at."""
    root.mkdir()
    if way == "elsewhere" and in_fork(granted, root):
        raise ApprovalRefused("nothing was granted")
    codes = [in_fork(first, root, way, number, side)]
    if codes[0]:
        codes.append(in_fork(again, root))
    tell(root, way, number, side, codes)
    return codes[0] != 0


def main(root: Path) -> None:
    """Die at every write of every way, until a run comes to its end undisturbed."""
    ways: tuple[Way, ...] = ("terminal", "elsewhere", "message")
    sides: tuple[Side, ...] = ("before", "after")
    for way in ways:
        for side in sides:
            number = 1
            while play(root / f"{way}-{side}-{number}", way, number, side):
                number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
