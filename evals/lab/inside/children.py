"""Start processes and learn how they end: process 1 of the sandbox also reaps what nobody waits for."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO


@dataclass(slots=True)
class Child:
    """Hold one process, the leader of its own session, and the future of its wait status."""

    pid: int
    done: asyncio.Future[int]
    stdin: IO[bytes] | None = None
    stdout: IO[bytes] | None = None
    stderr: IO[bytes] | None = None

    def signal_group(self, number: int) -> None:
        """Send a signal to the whole process group; one that is gone already is fine."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return


@dataclass(slots=True)
class Children:
    """Reap every child of this process; the only caller of ``waitpid`` in it."""

    waiting: dict[int, asyncio.Future[int]] = field(default_factory=dict)

    def install(self) -> None:
        """Reap whenever a child ends."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self.reap)

    def reap(self) -> None:
        """Collect every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            future = self.waiting.pop(pid, None)
            if future is not None and not future.done():
                future.set_result(status)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str = "/",
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        executable: str | None = None,
        controlling_tty: bool = False,
    ) -> Child:
        """Start ``argv`` in a session of its own; raise `OSError` when it cannot be started.

        With ``controlling_tty`` its standard input (a terminal) becomes the terminal of that session.
        """
        words = list(argv)
        if controlling_tty:
            words = ["/usr/bin/setsid", "--ctty", *words]
        process = subprocess.Popen(
            words,
            executable=None if controlling_tty else executable,
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=not controlling_tty,
        )
        # Signals are delivered by the loop, so a child that ended already is still unreaped here.
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiting[process.pid] = future
        process.returncode = 0  # this object must not wait for the process itself
        return Child(process.pid, future, process.stdin, process.stdout, process.stderr)
