"""A small audit, its lines, and a process that dies at a chosen point of writing it."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.audit import Audit
from agent.audit_files import CURRENT
from agent.audit_settings import AuditSettings
from tools.contract import Capture, Result

SECRET = "sk-hunter2"
POINTS = ("flock", "write", "pwrite", "fsync")
"""What writing a record asks of the kernel; the tests die before and after each."""


def plain(data: bytes) -> bytes:
    """Mask the one secret of these tests."""
    return data.replace(SECRET.encode(), b"[masked]")


def audit_in(folder: Path, **settings: Any) -> Audit:
    """Return an audit in a folder."""
    return Audit(folder / "audit", AuditSettings(**settings), plain)


def filled(folder: Path, records: int = 12, **settings: Any) -> Audit:
    """Return an audit with some records, every third of them waited for."""
    audit = audit_in(folder, **settings)
    for number in range(records):
        audit.record("command_started", needed=number % 3 == 0, host="gpu1", command=f"echo {number}")
    return audit


def lines(folder: Path) -> list[bytes]:
    """Return the lines of an audit's file."""
    return (folder / "audit" / CURRENT).read_bytes().splitlines()


def rewrite(folder: Path, new: list[bytes]) -> None:
    """Replace the lines of an audit's file."""
    (folder / "audit" / CURRENT).write_bytes(b"".join(line + b"\n" for line in new))


def die_at(point: str, side: str, nth: int) -> None:
    """Let this process kill itself before or after the n-th call of a kind that the audit makes."""
    left = [nth]
    module: Any = fcntl if point == "flock" else os
    real: Callable[..., Any] = getattr(module, point)

    def call(*args: Any) -> Any:
        left[0] -= 1
        if not left[0] and side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(*args)
        if not left[0] and side == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(module, point, call)


class Machine:
    """A host that notes in a file what it ran."""

    def __init__(self, ran: Path) -> None:
        self.name = "gpu1"
        self.key_fingerprint: str | None = "SHA256:abc"
        self.ran = ran
        self.execs = 0

    async def exec(
        self,
        argv: Any,
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        from datetime import UTC, datetime

        self.execs += 1
        with self.ran.open("a") as file:
            file.write(f"{' '.join(argv)}\n")
        out = Capture(b"done\n", b"", 5)
        return Result(
            self.name, tuple(argv), "exited", 0, None, out, Capture(), False, datetime.now(UTC), 0.01
        )

    async def forward(self, port: int) -> int:
        return port

    async def close(self) -> None:
        pass

    def commands(self) -> list[str]:
        return self.ran.read_text().splitlines() if self.ran.exists() else []
