"""The machine Leadline itself runs on, under the same contract as any other host."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import cast

from tools.capture import Running
from tools.execution import CommandHost, NotStarted


class LocalHost(CommandHost):
    """Run commands as children of this process, each in a session of its own."""

    async def launch(self, argv: Sequence[str], running: Running, stdin: bytes | None) -> None:
        """Start ``argv`` as a subprocess; raise `NotStarted`."""
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: _Feed(running),
                *argv,
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise NotStarted(f"not started: {error}") from error
        if stdin is not None:
            pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
            pipe.write(stdin)
            pipe.write_eof()

    async def forward(self, port: int) -> int:
        """Return ``port``: it is on our loopback already."""
        return port

    async def disconnect(self) -> None:
        """Do nothing: there is no connection."""


class _Feed(asyncio.SubprocessProtocol):
    def __init__(self, running: Running) -> None:
        self._running = running
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._running.sent = True
        self._running.stop = self._stop
        self._running.release = self._transport.close

    def _stop(self, name: str) -> None:
        if self._transport is not None and self._transport.get_returncode() is None:
            self._transport.send_signal(signal.Signals[f"SIG{name}"])

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._running.feed(self._running.stderr if fd == 2 else self._running.stdout, data)

    def process_exited(self) -> None:
        code = self._transport.get_returncode() if self._transport is not None else None
        if code is not None and code < 0:
            self._running.end(None, signal.Signals(-code).name.removeprefix("SIG"))
        else:
            self._running.end(code)

    def connection_lost(self, exc: Exception | None) -> None:
        self._running.close()
