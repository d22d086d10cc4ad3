"""The file of the table of configuration classes: an index read at once, and blocks read when asked for."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

_BLOCK = 128 << 10
"""Characters of a block."""
_SHORT = 80
"""What is known of a row stands in the index when it is shorter."""


def pack(text: str) -> bytes:
    """Return the file of a table: what its rows say at length lies in blocks, each compressed by itself."""
    first, *lines = text.splitlines()
    blocks: list[list[str]] = [[]]
    size = 0
    index = []
    for line in lines:
        *names, told = line.split("\t", 3)
        if len(told) >= _SHORT:
            if size and size + len(told) > _BLOCK:
                blocks.append([])
                size = 0
            blocks[-1].append(told)
            size += len(told)
            told = f"@{len(blocks) - 1}:{size - len(told)}:{size}"
        index.append("\t".join((*names, told)))
    packed = [gzip.compress("".join(block).encode(), 9, mtime=0) for block in blocks]
    sizes = " ".join(str(len(block)) for block in packed)
    return gzip.compress("\n".join((sizes, first, *index)).encode(), 9, mtime=0) + b"".join(packed)


class Blocks:
    """Read what rows say at length, a block when one of its rows is asked for."""

    def __init__(self, sizes: list[int], data: bytes) -> None:
        self._data = data
        self._starts = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
        self._read: dict[int, str] = {}

    def told(self, word: str) -> str:
        """Return what a row says: a word of the index, or what it points to."""
        if not word.startswith("@"):
            return word
        block, first, last = map(int, word[1:].split(":"))
        if block not in self._read:
            packed = self._data[self._starts[block] : self._starts[block + 1]]
            self._read[block] = gzip.decompress(packed).decode()
        return self._read[block][first:last]


def unpack(data: bytes) -> tuple[str, Blocks]:
    """Return the text of a table with words in place of what is long, and what these stand for."""
    reader = zlib.decompressobj(wbits=31)
    sizes, _, text = reader.decompress(data).decode().partition("\n")
    return text, Blocks([int(size) for size in sizes.split()], reader.unused_data)


def unpacked(data: bytes) -> Iterator[str]:
    """Yield the lines of a table as they were packed."""
    text, blocks = unpack(data)
    first, *lines = text.splitlines()
    yield first
    for line in lines:
        *names, word = line.split("\t", 3)
        yield "\t".join((*names, blocks.told(word)))
