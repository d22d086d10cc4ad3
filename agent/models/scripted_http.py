"""The little of HTTP/1.1 that the scripted server needs: one request a connection, then it closes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

MAX_HEAD = 64 << 10
MAX_BODY = 64 << 20
READ_S = 60.0


class BadRequest(Exception):
    """Refuse what is not a request this server understands."""


@dataclass(frozen=True, slots=True)
class Request:
    """Hold one request; ``body`` is the parsed JSON, None without one."""

    method: str
    path: str
    body: Any


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Read one request; raise `BadRequest` when it is none, `ConnectionError` when the client is gone."""
    async with asyncio.timeout(READ_S):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            words = lines[0].split(" ")
            if len(words) != 3 or not words[2].startswith("HTTP/1."):
                raise BadRequest("not an HTTP/1 request")
            fields = dict(line.lower().split(":", 1) for line in lines[1:] if ":" in line)
            size = fields.get("content-length", "0").strip()
            if not size.isdecimal() or int(size) > MAX_BODY:
                raise BadRequest("content-length is not usable")
            data = await reader.readexactly(int(size))
        except asyncio.LimitOverrunError as error:
            raise BadRequest("the head is too long") from error
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError from error
    try:
        body = json.loads(data) if data else None
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body is not JSON") from error
    return Request(words[0], words[1].partition("?")[0], body)


class Reply:
    """Write one answer; the connection closes behind it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def json(self, value: Any, status: int = 200, **headers: str) -> None:
        """Send a whole answer as JSON."""
        await self.whole(json.dumps(value).encode(), "application/json", status, headers)

    async def error(self, status: int, message: str, code: str | None = None, **headers: str) -> None:
        """Send an error in OpenAI's form."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        await self.json({"error": {"message": message, "type": kind, "code": code}}, status, **headers)

    async def whole(
        self, data: bytes, kind: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer of any kind."""
        self._head(status, kind, {"content-length": str(len(data)), **(headers or {})})
        self._writer.write(data)
        await self._writer.drain()

    def begin_stream(self) -> None:
        """Begin an answer of server-sent events."""
        self._head(200, "text/event-stream", {"transfer-encoding": "chunked", "cache-control": "no-cache"})

    async def event(self, data: str) -> None:
        """Send one event."""
        line = f"data: {data}\n\n".encode()
        self._writer.write(b"%x\r\n%s\r\n" % (len(line), line))
        await self._writer.drain()

    async def end_stream(self) -> None:
        """End the events."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def cut(self) -> None:
        """End the connection at once, in the middle of whatever was being sent."""
        self._writer.transport.abort()

    def _head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        fields = {"content-type": kind, "connection": "close", **headers}
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        self._writer.write(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode("latin-1"))
