"""Click fifty times at once, from several processes and threads, then let every process try to carry it out.

``python clicking.py FOLDER`` prints a JSON line a caller: what its click and its try came to.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path

import agent.driver  # noqa: F401 - imported once here, not in each fork
from agent.approvals_decide import decide
from agent.approvals_record import ApprovalRefused
from agent.errors import LeadlineError
from tests.approval_parts import BO, asked, by, resumed, settings, the_one
from tests.file_host import FakeService, FileHost

PROCESSES, THREADS = 10, 5


def told(**row: object) -> None:
    """Print one line in one piece, since several processes write."""
    os.write(1, (json.dumps(row) + "\n").encode())


def click(root: Path, name: str, start: threading.Barrier) -> None:
    """Approve what waits, as one of many."""
    record = the_one(root)
    start.wait()
    try:
        done = decide(settings(root), by(BO, record, click=("T0TEAM", "U0BO", name, "approve")))
        told(click=name, state=done.state)
    except ApprovalRefused as error:
        told(click=name, refused=error.what)


def carry_out(root: Path, name: str) -> None:
    """Resume the thread and go on; another process may be at it."""
    service = FakeService(FileHost(root / "host.json"))
    try:
        asyncio.run(resumed(root, service))
        told(run=name, applied=service.calls.count("apply"))
    except LeadlineError as error:
        told(run=name, busy=str(error))


def caller(root: Path, number: int) -> None:
    """Click from several threads, then try to carry out what was approved."""
    start = threading.Barrier(THREADS)
    threads = [
        threading.Thread(target=click, args=(root, f"{number}.{place}", start)) for place in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    carry_out(root, str(number))


def main(root: Path) -> None:
    """Let one thread wait, then click."""
    asyncio.run(asked(root))
    children = []
    for number in range(PROCESSES):
        if (pid := os.fork()) == 0:
            code = 1
            try:
                caller(root, number)
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    if any([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]):
        raise SystemExit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
