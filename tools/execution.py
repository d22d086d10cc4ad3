"""Run commands under one contract, whatever carries them: bounded, killed on timeout, never guessed at."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

from tools.capture import Running
from tools.contract import Outcome, Result
from tools.marker import kill_argv, started_with

T = TypeVar("T")

CHANNELS = 8
"""Commands at a time on one connection; OpenSSH's MaxSessions is 10, and killing needs its own."""

_KILLERS = 2
_QUIET_S = 1.0
_KILL_LIMIT_S = 15.0
_HUNG = "hung"
_LAUNCH_LIMIT_S = 5.0
_CLOSE_LIMIT_S = 2.0


class NotStarted(Exception):
    """Report that a command could not be started; the host did not run it."""


class CommandHost(ABC):
    """Carry out the run contract; a subclass only starts commands and feeds their `Running`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key_fingerprint: str | None = None
        self.execs = 0
        """Commands that callers started, each one round trip; retries count, kills do not."""
        self._slots = asyncio.Semaphore(CHANNELS)
        self._killers = asyncio.Semaphore(_KILLERS)
        self._active: dict[str, Running] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._closing = False

    @abstractmethod
    async def launch(self, argv: Sequence[str], running: Running, stdin: bytes | None) -> None:
        """Start ``argv`` and feed ``running`` from then on; raise `NotStarted`."""

    async def launch_killer(self, argv: Sequence[str], running: Running, *, fresh: bool) -> None:
        """Start a killer, by a ``fresh`` way when the usual one hung; raise `NotStarted`."""
        await self.launch(argv, running, None)

    @abstractmethod
    async def forward(self, port: int) -> int:
        """Return a port on our loopback that reaches ``127.0.0.1:port`` on the host."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Let go of the host; nothing runs there any more."""

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        """Run ``argv`` and return how it ended; with ``retry`` (reads only) once more when the link broke."""
        if not argv:
            raise ValueError("an empty argv runs nothing")
        run_id = uuid4().hex
        result = await self._attempt(run_id, argv, timeout_s, max_bytes, stdin)
        if retry and result.outcome == "connection_lost_unknown" and not self._closing:
            await self._kill(run_id)
            result = await self._attempt(uuid4().hex, argv, timeout_s, max_bytes, stdin)
        return result

    async def close(self) -> None:
        """Kill what still runs by its marker, then disconnect."""
        self._closing = True
        await asyncio.gather(*(self._end(run_id, running) for run_id, running in self._active.items()))
        if self._background:
            await asyncio.wait(self._background, timeout=_KILL_LIMIT_S)
        await self.disconnect()

    async def _attempt(
        self, run_id: str, argv: Sequence[str], timeout_s: float, max_bytes: int, stdin: bytes | None
    ) -> Result:
        running = Running(max_bytes)
        async with self._slots:
            started_at, clock = datetime.now(UTC), time.monotonic()
            self.execs += 1
            self._active[run_id] = running
            try:
                outcome, detail = await self._supervise(run_id, argv, running, timeout_s, stdin)
            finally:
                self._active.pop(run_id, None)
                running.release()
        exited = outcome == "exited"
        return Result(
            host=self.name,
            argv=tuple(argv),
            outcome=outcome,
            exit_code=running.exit_code if exited else None,
            signal=running.signal if outcome == "signaled" else None,
            stdout=running.stdout.capture(),
            stderr=running.stderr.capture(),
            truncated=running.over,
            started_at=started_at,
            duration_s=time.monotonic() - clock,
            detail=detail,
        )

    async def _supervise(
        self, run_id: str, argv: Sequence[str], running: Running, timeout_s: float, stdin: bytes | None
    ) -> tuple[Outcome, str]:
        if self._closing:
            return "refused", "the connection is being closed"
        # The launch is not cancelled half-way: only a command that was really sent can be found and killed.
        running.starting = self._background_task(
            self.launch(started_with(run_id, argv, timeout_s), running, stdin)
        )
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(running.starting)
                await running.settle(_QUIET_S)
        except NotStarted as error:
            return "refused", str(error)
        except TimeoutError:
            gone = await self._shielded(self._end(run_id, running))
            return self._after_timeout(running, timeout_s, gone)
        except asyncio.CancelledError:
            await self._shielded(self._end(run_id, running))
            raise
        return await self._settled(run_id, running)

    async def _settled(self, run_id: str, running: Running) -> tuple[Outcome, str]:
        detail = ""
        if not running.closed:
            ended = running.ended
            gone = await self._shielded(self._end(run_id, running))
            detail = "killed: more output than asked for" if running.over else "processes it left were killed"
            if not ended and not running.ended and not gone:
                return "timed_out_orphan", f"{detail}, but it may still run"
            if not ended and gone:
                # However it answered our TERM, an exit code of 0 included: it did not finish its work.
                running.signal = running.signal or "TERM"
                return "signaled", detail
        if running.exit_code is not None:
            return "exited", detail
        if running.signal is not None:
            return "signaled", detail
        return "connection_lost_unknown", running.lost or "the channel closed without an exit status"

    @staticmethod
    def _after_timeout(running: Running, timeout_s: float, gone: bool) -> tuple[Outcome, str]:
        if not running.sent:
            return "refused", f"not started within {timeout_s:g} s"
        if gone:
            return "timed_out_killed", f"killed after {timeout_s:g} s"
        if running.closed and not running.ended:
            return "connection_lost_unknown", running.lost or "the link broke while it was being killed"
        return "timed_out_orphan", f"not done after {timeout_s:g} s and could not be killed: it may still run"

    async def _end(self, run_id: str, running: Running) -> bool:
        """Kill every process of a run; return whether all are known to be gone."""
        running.abandoned = True
        if running.starting is not None and not running.starting.done():
            await asyncio.wait({running.starting}, timeout=_LAUNCH_LIMIT_S)
            running.starting.cancel()
        if not running.sent:
            return True
        running.stop("TERM")
        answer = ""
        for _ in range(2):
            answer = await self._kill(run_id, fresh=answer == _HUNG)
            # The marker finds only what we may read; a channel still open means that something holds it.
            if await running.wait_closed(_CLOSE_LIMIT_S):
                return answer == "gone" or (answer == "unknown" and running.ended)
            running.stop("KILL")
        return False

    async def _kill(self, run_id: str, *, fresh: bool = False) -> str:
        """Run the killer on a channel of its own; return its first word, `_HUNG`, or nothing."""
        killer = Running(4096)
        async with self._killers:
            try:
                async with asyncio.timeout(_KILL_LIMIT_S):
                    await self.launch_killer(kill_argv(run_id), killer, fresh=fresh)
                    await killer.settle(_QUIET_S)
            except NotStarted:
                return ""
            except TimeoutError:
                return _HUNG
            finally:
                killer.release()
        return killer.stdout.capture().data.decode("ascii", "replace").partition(" ")[0].strip()

    def _background_task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` in a task that a cancel of the caller does not stop."""
        return await asyncio.shield(self._background_task(work))
