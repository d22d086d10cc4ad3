"""Find a quote again in stored output, and make a citation of it.

Text is compared with every run of white space and NUL collapsed to one space, and exactly otherwise. A quote
must begin and end where words and numbers do, so that ``--pp-size 8`` is not found in ``--pp-size 80``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, count, islice
from operator import add
from typing import NoReturn

from agent.state import Citation, Cite
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, ToolError
from tools.display import printable

_TOKEN = re.compile(r"[^\s\x00]+")
_GAP = r"[\s\x00]+"
_SHOWN = 120


def collapse(text: str) -> str:
    """Return ``text`` with runs of white space and NUL as one space, none at either end."""
    return " ".join(_TOKEN.findall(text))


def line_starts(text: str) -> list[int]:
    """Return where each line begins; only a line feed ends one."""
    lengths = accumulate(map(len, text.split("\n")[:-1]), initial=0)
    return list(map(add, lengths, count()))


def _word(char: str) -> bool:
    return char.isalnum() or char == "_"


def cuts_word(text: str, start: int, end: int) -> bool:
    """Tell whether ``text[start:end]`` begins or ends inside a word or a number."""
    before, first = text[max(0, start - 1) : start], text[start : start + 1]
    last, after = text[end - 1 : end], text[end : end + 2]
    if before and _word(before) and _word(first):
        return True
    if before and before in ".-" and first.isdigit() and not text[max(0, start - 2) : start - 1].isalpha():
        return True
    if after and _word(after[0]) and _word(last):
        return True
    return last.isdigit() and len(after) == 2 and after[0] == "." and after[1].isdigit()


@dataclass(frozen=True, slots=True)
class Found:
    """One place where a quote stands: its lines as the tool shows them, and the text on either side."""

    lines: tuple[int, int]
    text: str
    raw: str = field(repr=False)
    """The same span with its line breaks."""
    before: str = field(default="", repr=False)
    after: str = field(default="", repr=False)
    """What follows in the output, line breaks kept."""


class StoredText:
    """Hold the text of one artifact in a form that quotes can be looked up in."""

    def __init__(self, data: bytes, first_line: int = 1) -> None:
        self.raw = data.decode("utf-8", "replace")
        self.first_line = first_line

    @cached_property
    def _line_starts(self) -> list[int]:
        return line_starts(self.raw)

    @property
    def last_line(self) -> int:
        """Return the number of the last line kept."""
        count = len(self._line_starts) - (1 if self.raw.endswith("\n") else 0)
        return self.first_line + max(count, 1) - 1

    def line(self, number: int) -> str:
        """Return one line without its break; empty when there is none of that number."""
        return self.between(number, number).rstrip("\n")

    def between(self, first: int, last: int) -> str:
        """Return the lines from ``first`` to ``last``, both included, as far as they are kept."""
        return self.raw[slice(*self._extent(first, last))]

    def _extent(self, first: int, last: int) -> tuple[int, int]:
        """Return where lines begin and end in the text."""
        begin, end = first - self.first_line, last - self.first_line + 1
        if begin >= len(self._line_starts) or end <= 0:
            return 0, 0
        stop = self._line_starts[end] if end < len(self._line_starts) else len(self.raw)
        return self._line_starts[max(begin, 0)], stop

    def _line_of(self, position: int) -> int:
        return bisect_right(self._line_starts, position) - 1 + self.first_line

    def find(self, quote: str, lines: tuple[int, int] | None = None) -> Iterator[Found]:
        """Yield every place where ``quote`` stands, in order; with ``lines`` those that lie in them."""
        words = _TOKEN.findall(quote)
        if not words:
            return
        wanted = re.compile(_GAP.join(map(re.escape, words)))
        place, stop = self._extent(*lines) if lines is not None else (0, len(self.raw))
        while (match := wanted.search(self.raw, place, stop)) is not None:
            if not cuts_word(self.raw, *match.span()):
                yield self._found(*match.span())
            place = match.start() + 1

    def _found(self, begin: int, stop: int) -> Found:
        return Found(
            lines=(self._line_of(begin), self._line_of(stop - 1)),
            text=collapse(self.raw[begin:stop]),
            raw=self.raw[begin:stop],
            before=self.raw[max(0, begin - 400) : begin],
            after=self.raw[stop : stop + 400],
        )

    def nearest(self, quote: str) -> tuple[int, str] | None:
        """Return the line that shares most words with ``quote``, or None when none shares any."""
        wanted = set(re.findall(r"\w+", quote))
        best, at = 0, 0
        lines = self.raw.split("\n")
        for index, line in enumerate(lines):
            shared = len(wanted.intersection(re.findall(r"\w+", line)))
            if shared > best:
                best, at = shared, index
        return (at + self.first_line, _shown(lines[at])) if best else None


_KEPT_BYTES = 1 << 20
"""Larger texts are not kept for those who read them next."""


@dataclass(frozen=True, slots=True)
class _Read:
    """Stand for what was read and found to have its digest."""

    sha256: str
    first_line: int
    data: bytes = field(compare=False)


def _text(data: bytes, ref: ArtifactRef) -> StoredText:
    return (
        StoredText(data, ref.first_line)
        if len(data) > _KEPT_BYTES
        else _kept_text(_Read(ref.sha256, ref.first_line, data))
    )


@lru_cache(maxsize=8)
def _kept_text(read: _Read) -> StoredText:
    """Return the text of an artifact: the calls of an investigation cite the same few again and again."""
    return StoredText(read.data, read.first_line)


class StoredTexts:
    """Read artifacts as text, each once; a changed or missing one is a `ToolError`."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._texts: dict[tuple[str, int], StoredText] = {}

    def of(self, ref: ArtifactRef) -> StoredText:
        """Return the text behind ``ref``, its digest checked."""
        key = (ref.sha256, ref.first_line)
        if key not in self._texts:
            try:
                self._texts[key] = _text(self._store.get(ref.sha256), ref)
            except KeyError as error:
                raise ToolError(f"the output behind {ref.handle} is no longer stored") from error
            except ValueError as error:
                raise ToolError(f"the output behind {ref.handle} was changed on disk") from error
        return self._texts[key]

    def first(self, ref: ArtifactRef, cite: Cite) -> Found:
        """Return the first of the places of the quote."""
        return next(self.each(ref, cite))

    def places(self, ref: ArtifactRef, cite: Cite) -> list[Found]:
        """Return every place of the quote, inside the lines if given; `ToolError` when there is none."""
        return list(self.each(ref, cite))

    def each(self, ref: ArtifactRef, cite: Cite) -> Iterator[Found]:
        """Yield the places of the quote as they are found; raise `ToolError` when there is none."""
        found = self.of(ref).find(cite.quote, cite.lines)
        place = next(found, None)
        if place is None:
            self._refuse(ref, cite)
        yield place
        yield from found

    def _refuse(self, ref: ArtifactRef, cite: Cite) -> NoReturn:
        """Say why a quote is not where it should be."""
        if not collapse(cite.quote):
            raise ToolError("the quote is empty; cite some words of the output")
        text = self.of(ref)
        found = list(islice(text.find(cite.quote), 5))
        if not found:
            near = text.nearest(cite.quote)
            hint = f"; nearest is line {near[0]}: {near[1]}" if near else ""
            raise ToolError(f"the quote is not in {cite.artifact}{hint}")
        assert cite.lines is not None
        lines = ", ".join(_span(place.lines) for place in found)
        raise ToolError(f"the quote is in {cite.artifact}, but at line {lines}, not in {_span(cite.lines)}")


def _shown(line: str) -> str:
    return printable(collapse(line)[:_SHOWN])


def _span(lines: tuple[int, int]) -> str:
    return str(lines[0]) if lines[0] == lines[1] else f"{lines[0]}-{lines[1]}"


def citation(ref: ArtifactRef, place: Found) -> Citation:
    """Return the citation of a place in an artifact."""
    return Citation(
        artifact=ref.handle,
        sha256=ref.sha256,
        host=ref.host,
        path=ref.path,
        label=ref.label,
        version=ref.version,
        lines=place.lines,
        quote=place.text,
        taken_at=ref.taken_at,
    )
