"""Parse only the functions of a file that hold what is looked for: whole files would take most time."""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from tools.settings.trees import read_module
from tools.syntax import Module, Step, steps_to

_START = re.compile(rb"\n(?P<indent>[ \t]*)(?P<word>class|async def|def|@)(?=[ \w])")
_FIRST = re.compile(rb"(?P<indent>)(?P<word>class|async def|def|@)(?=[ \w])")
_CLASS = re.compile(rb"class\s+\w+\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_PART = re.compile(rb"\w")
_FEW: Final = 8
"""More words than these are looked for in one pass over all identifiers."""
_QUOTES: Final = (b'"""', b"'''")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Hold where a function, a method or the text between two of them lies; ``owner`` starts its class."""

    start: int
    owner: int | None


@dataclass(frozen=True, slots=True)
class Hit:
    """Hold one place where a word stands in code: its way from the module (see `syntax.steps_to`)."""

    word: str
    line: int
    column: int
    module: Module
    way: list[Step]


@dataclass(slots=True)
class Outline:
    """Cut one file into pieces that can be parsed by themselves; lines and columns stay those of the file."""

    data: bytes
    lines: list[bytes]
    _starts: list[int]
    _pieces: list[_Piece]
    _line_starts: list[int]
    _modules: dict[int, Module | None] = field(default_factory=dict)
    _whole: list[Module | None] = field(default_factory=list)

    def hits(self, words: Set[str], *, after: bytes = b"") -> Iterator[Hit]:
        """Yield every place in code where one of the words stands as a whole identifier.

        With ``after``, only those right behind that byte: ``.`` leaves out everything but attributes.
        """
        yield from self.hits_at(_places(self.data, words, after))

    def hits_at(self, spans: Iterable[tuple[int, int]]) -> Iterator[Hit]:
        """Yield what stands at offsets of the file, comments left out."""
        for start, end in spans:
            line = bisect_right(self._line_starts, start)
            column = start - self._line_starts[line - 1]
            before = self.lines[line - 1][:column]
            if before.lstrip().startswith(b"#"):
                continue
            module = self.module_at(start)
            if module is not None:
                yield Hit(self.data[start:end].decode(), line, column, module, steps_to(module, line, column))

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the first and last offset of every piece."""
        yield from zip(self._starts, [*self._starts[1:], len(self.data)], strict=True)

    def in_function(self, start: int) -> bool:
        """Tell whether the piece that starts at an offset is a function or a method."""
        return not self.data.startswith(b"class", start) and start > 0

    def module_at(self, offset: int) -> Module | None:
        """Return the syntax tree of the piece at an offset; None where the file cannot be read."""
        index = bisect_right(self._starts, offset) - 1
        if index not in self._modules:
            self._modules[index] = self._parse(index)
        return self._modules[index]

    def whole(self) -> Module | None:
        """Return the syntax tree of the file; None where it cannot be read."""
        if not self._whole:
            try:
                self._whole.append(read_module(self.data))
            except SyntaxError:
                self._whole.append(None)
        return self._whole[0]

    def _parse(self, index: int) -> Module | None:
        piece = self._pieces[index]
        end = self._starts[index + 1] if index + 1 < len(self._starts) else len(self.data)
        text = b"\n" * (bisect_right(self._line_starts, piece.start) - 1) + self.data[piece.start : end]
        if piece.owner is not None and piece.owner != piece.start:
            header = _CLASS.match(self.data, piece.owner)
            if header is None:
                return self.whole()
            before = bisect_right(self._line_starts, piece.owner) - 1
            gap = bisect_right(self._line_starts, piece.start) - 1 - before - header.group().count(b"\n")
            text = b"\n" * before + header.group() + b"\n" * gap + self.data[piece.start : end]
        tree = _tree(text)
        if tree is None and piece.owner is None and _CLASS.search(self.data, piece.start, end):
            tree = _tree(text + b"\n    ...")  # a class of nothing but methods
        return Module(self.data, self.lines, tree) if tree is not None else self.whole()


def _tree(text: bytes) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=2048)
def outline(data: bytes) -> Outline:
    """Return the pieces of a file, cut once per content."""
    lines = data.split(b"\n")
    starts = list(itertools.accumulate((len(line) + 1 for line in lines[:-1]), initial=0))
    pieces = list(_closed(data, list(_pieces(data))))
    return Outline(data, lines, [piece.start for piece in pieces], pieces, starts)


def _pieces(data: bytes) -> Iterator[_Piece]:
    """Yield the pieces of a file: what leads up to the first function, then one per function or method."""
    yield _Piece(0, None)
    first = _FIRST.match(data)
    found = [*([first] if first is not None else []), *_START.finditer(data)]
    marks = [(m.start("word"), len(m["indent"]), m["word"]) for m in found]
    top = [index for index, (_, indent, _) in enumerate(marks) if indent == 0]
    decorated = False
    for place, index in enumerate(top):
        start, _, word = marks[index]
        if not decorated and start:
            yield _Piece(start, None)
        decorated = word == b"@"
        last = top[place + 1] if place + 1 < len(top) else len(marks)
        if word == b"class":
            yield from _methods(marks[index + 1 : last], start, data)


def _methods(marks: list[tuple[int, int, bytes]], owner: int, data: bytes) -> Iterator[_Piece]:
    level = min((indent for _, indent, _ in marks), default=0)
    decorated = False
    for start, indent, word in marks:
        if indent != level:
            continue
        if not decorated:
            yield _Piece(data.rfind(b"\n", 0, start) + 1, owner)
        decorated = word == b"@"


def _closed(data: bytes, pieces: list[_Piece]) -> Iterator[_Piece]:
    """Join pieces whose border lies inside a text in triple quotes."""
    kept: _Piece | None = None
    for index, piece in enumerate(pieces):
        end = pieces[index + 1].start if index + 1 < len(pieces) else len(data)
        first = kept or piece
        if any(data.count(quotes, first.start, end) % 2 for quotes in _QUOTES) and end < len(data):
            kept = first
            continue
        kept = None
        yield first
    if kept is not None:
        yield kept


def _places(data: bytes, words: Set[str], after: bytes) -> Iterable[tuple[int, int]]:
    """Return where words stand as whole identifiers, by the cheaper of two ways."""
    if len(words) > _FEW:
        wanted = {word.encode() for word in words}
        found = (match.span() for match in _WORD.finditer(data) if match.group() in wanted)
        return [span for span in found if data.endswith(after, 0, span[0])]
    return sorted(span for word in words for span in _places_of(data, word.encode(), after))


def _places_of(data: bytes, word: bytes, after: bytes) -> Iterator[tuple[int, int]]:
    start = data.find(word)
    while start >= 0:
        end = start + len(word)
        inside = _PART.match(data, end) or (start > 0 and _PART.match(data, start - 1))
        if not inside and data.endswith(after, 0, start):
            yield start, end
        start = data.find(word, end)
