"""Put placeholders in the place of secrets, and remember which secrets they stand for while asked to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final

from tools import redact_own

MASKED: Final = re.compile(rb"<masked:[a-z0-9_]+:[0-9a-f]{6}>")
MASKED_OPEN: Final = b"<masked:"

_FOUND: ContextVar[set[bytes] | None] = ContextVar("found", default=None)


def placeholder(kind: str, value: bytes) -> bytes:
    """Return what stands for a secret: what gave it away, and a digest by the key of this installation."""
    if (found := _FOUND.get()) is not None:
        found.update(part.strip() for part in value.split(b"\n") if b"PRIVATE KEY-----" not in part)
    return b"<masked:%s:%s>" % (kind.encode(), redact_own.digest(value).encode())


@contextmanager
def collecting() -> Iterator[set[bytes]]:
    """Give a set that every secret is added to, a line each, that is masked inside."""
    found: set[bytes] = set()
    token = _FOUND.set(found)
    try:
        yield found
    finally:
        _FOUND.reset(token)


def over_lines(kind: str, value: bytes) -> bytes:
    """Return what stands for a secret of several lines: as many lines."""
    return placeholder(kind, value) + b"\n" * value.count(b"\n")


def options() -> Any:
    """Return how RE2 reads patterns over bytes."""
    import re2

    chosen = re2.Options()
    chosen.encoding = re2.Options.Encoding.LATIN1
    chosen.log_errors = False
    return chosen


@lru_cache(maxsize=64)
def compiled(pattern: bytes) -> Any:
    """Return a pattern as RE2 has it, over bytes."""
    import re2

    return re2.compile(pattern, options())


def substitute(pattern: bytes, data: bytes, replace: Callable[[Any], bytes]) -> bytes:
    """Replace matches; unlike `re2.sub` it copies nothing when there is none."""
    out: list[bytes] = []
    position = 0
    for match in compiled(pattern).finditer(data):
        out += (data[position : match.start()], replace(match))
        position = match.end()
    return b"".join((*out, data[position:])) if out else data
