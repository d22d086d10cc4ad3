"""A server that sends without end costs neither memory nor time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from tools import bounded_http
from tools.local import LocalHost
from tools.observe import observe


@asynccontextmanager
async def flooding(head: bytes, piece: bytes) -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + head)
            while piece:
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("piece", [b"x" * 65536, b"data: {}\n\n" * 6000])
async def test_a_flood_ends_as_an_error(piece: bytes) -> None:
    async with flooding(b"", piece) as port, httpx2.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx2.ReadError, match="more than 16 MiB"):
            await bounded_http.get(client, f"http://127.0.0.1:{port}/metrics")
        async with client.stream("GET", f"http://127.0.0.1:{port}/") as response:
            with pytest.raises(httpx2.ReadError, match=r"without end|more than 16 MiB"):
                async for _ in bounded_http.lines(response):
                    pass
        seen = await observe(LocalHost("here"), port)
        assert not seen.settings


async def test_whole_answers_come_as_they_are() -> None:
    async with flooding("a: é\r\n\nb".encode(), b"") as port, httpx2.AsyncClient(trust_env=False) as client:
        url = f"http://127.0.0.1:{port}/"
        assert (await bounded_http.get(client, url)).text == "a: é\r\n\nb"
        async with client.stream("GET", url) as response:
            assert [line async for line in bounded_http.lines(response)] == ["a: é", "", "b"]
