"""Serve the stand-ins: one request per connection on a unix socket, answered in frames."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

SOCKET = "/run/lab/control"
_HEADER = struct.Struct("!cI")


class Output(Protocol):
    """Take what a command prints."""

    def out(self, text: str) -> None:
        """Write to its standard output."""
        ...

    def err(self, text: str) -> None:
        """Write a line to its standard error."""
        ...

    async def flush(self) -> None:
        """Wait until the reader has caught up; raise `ConnectionError` when it is gone."""
        ...


Command = Callable[[list[str], Output], Awaitable[int]]
"""Run a command with its arguments and return its exit code."""


@dataclass(slots=True)
class FrameOutput:
    """Send output as frames: one byte for the stream, four for the length, then the data."""

    writer: asyncio.StreamWriter

    def out(self, text: str) -> None:
        """Write to the command's standard output."""
        self._send(b"1", text.encode("utf-8", "surrogateescape"))

    def err(self, text: str) -> None:
        """Write a line to the command's standard error."""
        self._send(b"2", (text + "\n").encode("utf-8", "surrogateescape"))

    def exit(self, code: int) -> None:
        """End the command."""
        self._send(b"x", bytes([code & 0xFF]))

    async def flush(self) -> None:
        """Wait until the reader has caught up."""
        await self.writer.drain()

    def _send(self, kind: bytes, data: bytes) -> None:
        self.writer.write(_HEADER.pack(kind, len(data)) + data)


async def serve(commands: dict[str, Command]) -> asyncio.Server:
    """Listen for stand-ins; each sends a length, then its arguments joined by NUL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        output = FrameOutput(writer)
        try:
            size = int.from_bytes(await reader.readexactly(4), "big")
            words = (await reader.readexactly(size)).decode("utf-8", "surrogateescape")
            name, *argv = words.split("\0")
            output.exit(await _until_gone(commands[name](argv, output), reader))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the command was killed: nobody is left to tell
        finally:
            writer.close()

    return await asyncio.start_unix_server(answer, SOCKET, limit=1 << 20)


async def _until_gone(work: Awaitable[int], reader: asyncio.StreamReader) -> int:
    """Finish the command, or stop it when its process has gone."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(reader.read(1))
    await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        gone.cancel()
        return task.result()
    task.cancel()
    raise ConnectionError("the command was killed")
