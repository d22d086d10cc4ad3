"""Read and write HTTP/1.1 on one connection of the simulated engine. Standard library only."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from http import HTTPStatus

from evals.lab.simulator_openai import BadRequest

MAX_HEAD = 64 << 10
MAX_BODY = 32 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """Hold one parsed HTTP request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    client: str

    @property
    def path(self) -> str:
        """Return the target without its query."""
        return self.target.partition("?")[0]


class Connection:
    """Read requests from and write answers to one client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        peer = writer.get_extra_info("peername") or ("?", 0)
        self.client = f"{peer[0]}:{peer[1]}"
        self.close_after = False

    def gone(self) -> bool:
        """Tell whether the client has hung up."""
        return self._writer.is_closing() or self._reader.at_eof()

    async def next_call(self) -> Call | None:
        """Return the next request, or None at the end; raise `BadRequest` for what is not HTTP."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except asyncio.LimitOverrunError:
            raise BadRequest("request header is too large", 431) from None
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadRequest("Invalid HTTP request received.")
        headers = {
            k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)
        }
        self.close_after = headers.get("connection", "").lower() == "close" or words[2] == "HTTP/1.0"
        if "100-continue" in headers.get("expect", ""):
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return Call(words[0], words[1], headers, await self._body(headers), self.client)

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", ""):
            return await self._chunked()
        size = headers.get("content-length", "0")
        if not size.isdigit() or int(size) > MAX_BODY:
            raise BadRequest("content length is not usable", 413)
        try:
            return await self._reader.readexactly(int(size))
        except asyncio.IncompleteReadError:
            raise ConnectionResetError from None

    async def _chunked(self) -> bytes:
        body = b""
        while True:
            line = (await self._reader.readuntil(b"\r\n")).split(b";")[0].strip()
            try:
                size = int(line, 16)
            except ValueError:
                raise BadRequest("chunk size is not a number") from None
            if len(body) + size > MAX_BODY:
                raise BadRequest("request body is too large", 413)
            body += (await self._reader.readexactly(size + 2))[:-2]
            if not size:
                return body

    def send(self, status: int, body: bytes, kind: str) -> None:
        """Write a whole answer."""
        self._head(status, kind, f"content-length: {len(body)}\r\n", body)

    def begin(self, kind: str) -> None:
        """Begin an answer that comes in pieces."""
        self._head(200, kind, "transfer-encoding: chunked\r\ncache-control: no-cache\r\n")

    def piece(self, data: bytes) -> None:
        """Write one piece of an answer."""
        if not self._writer.is_closing():
            self._writer.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """End an answer that came in pieces."""
        if not self._writer.is_closing():
            self._writer.write(b"0\r\n\r\n")

    async def flush(self) -> None:
        """Wait until the client has taken what was written."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def close(self) -> None:
        """Close the connection when all is sent."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()

    def _head(self, status: int, kind: str, more: str, body: bytes = b"") -> None:
        reason = HTTPStatus(status).phrase
        mark = "server: uvicorn\r\nx-leadline-lab: simulated\r\n"
        close = "connection: close\r\n" if self.close_after else ""
        text = f"HTTP/1.1 {status} {reason}\r\n{mark}{close}content-type: {kind}\r\n{more}\r\n"
        self._writer.write(text.encode("latin-1") + body)
