"""Read lines of stored outputs, each output once for as long as it is the same file on the disk.

Outputs are named by their digest, so what was read under one stays true; whether it is still there, and
unchanged, is looked at each time. What is kept is bounded, so that rating many runs needs no more memory.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef

KEPT_BYTES: Final = 16 << 20
_BREAK: Final = re.compile(rb"\n")


@dataclass(frozen=True, slots=True)
class _Text:
    data: bytes
    starts: list[int]


class Stored:
    """Read what one store holds."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    def whole(self, ref: ArtifactRef) -> bytes | None:
        """Return an output; None when it is missing, or not what its digest says."""
        text = self._text(ref.sha256)
        return None if text is None else text.data

    def between(self, ref: ArtifactRef, lines: tuple[int, int]) -> bytes | None:
        """Return the lines from the first to the last, as the file counts them; None when not there."""
        text = self._text(ref.sha256)
        first, last = lines[0] - ref.first_line, lines[1] - ref.first_line + 1
        if text is None or first < 0 or first >= len(text.starts) or last <= first:
            return None
        stop = text.starts[last] if last < len(text.starts) else len(text.data)
        return text.data[text.starts[first] : stop]

    def _text(self, sha256: str) -> _Text | None:
        try:
            signature = self._signature(sha256)
            key = (sha256, signature)
            if signature is not None and (kept := _cache.get(key)) is not None:
                return kept
            data = self._store.get(sha256)
        except (KeyError, ValueError, OSError):
            return None
        text = _Text(data, [0, *(match.end() for match in _BREAK.finditer(data))])
        if signature is not None:
            _cache.put(key, text)
        return text

    def _signature(self, sha256: str) -> tuple[str, int, int] | None:
        """Return what changes when the file does; None when it lies in no file of its own."""
        path = self._store.path(sha256)
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        return str(path), found.st_mtime_ns, found.st_size


class _Kept:
    """Keep texts up to a number of bytes; what was not used for longest goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._texts: OrderedDict[tuple[str, tuple[str, int, int] | None], _Text] = OrderedDict()

    def get(self, key: tuple[str, tuple[str, int, int] | None]) -> _Text | None:
        found = self._texts.get(key)
        if found is not None:
            self._texts.move_to_end(key)
        return found

    def put(self, key: tuple[str, tuple[str, int, int] | None], text: _Text) -> None:
        if key in self._texts or len(text.data) > self._limit:
            return
        self._texts[key] = text
        self._size += _cost(text)
        while self._size > self._limit:
            self._size -= _cost(self._texts.popitem(last=False)[1])


def _cost(text: _Text) -> int:
    return len(text.data) + 40 * len(text.starts)


_cache = _Kept(KEPT_BYTES)
