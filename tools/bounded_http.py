"""Read answers of a server in bounded memory: one that sends without end is an error like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

_WHOLE: Final = 16 << 20
_LINE: Final = 1 << 20
_STREAM: Final = 16 << 20


async def chunks(response: Response, most: int = _WHOLE) -> AsyncIterator[bytes]:
    """Yield the body; raise `httpx2.ReadError` once it is longer than ``most`` bytes."""
    import httpx2

    total = 0
    async for chunk in response.aiter_bytes():
        total += len(chunk)
        if total > most:
            raise httpx2.ReadError(f"the server sent more than {most >> 20} MiB", request=response.request)
        yield chunk


async def get(client: AsyncClient, path: str, **options: Any) -> Response:
    """Return the answer to a GET, read whole; raise `httpx2.ReadError` when it has no end."""
    import httpx2

    async with client.stream("GET", path, **options) as response:
        body = b"".join([chunk async for chunk in chunks(response)])
        kind = response.headers.get("content-type", "text/plain; charset=utf-8")
        return httpx2.Response(
            response.status_code, headers={"content-type": kind}, content=body, request=response.request
        )


async def lines(response: Response) -> AsyncIterator[str]:
    """Yield the lines of a stream as they come; raise `httpx2.ReadError` when one, or all, have no end."""
    import httpx2

    rest = b""
    async for chunk in chunks(response, _STREAM):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace").rstrip("\r")
        if len(rest) > _LINE:
            raise httpx2.ReadError("the server sent a line without end", request=response.request)
    if rest:
        yield rest.decode("utf-8", "replace")
