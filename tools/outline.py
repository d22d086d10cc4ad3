"""Find the functions of a Python file in its text, so that a syntax tree can be built without most of them.

Building a tree costs in proportion to the file, and a search needs a few functions of it. What the text
does not tell with certainty is left to the parser: `outlined` says so with None.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

_DEF = re.compile(rb"\n( *)(?:async +)?def +(\w+)")
_OTHER_CODING = re.compile(rb"coding[:=][ \t]*(?!utf-?8\b)")
_TAB = re.compile(rb"^ *\t", re.MULTILINE)
_WORD = re.compile(
    rb"""[^#"'\n]+|\#[^\n]*|(?P<triple>\"{3}|'{3})|"(?:\\[^\n]|[^"\\\n])*"|'(?:\\[^\n]|[^'\\\n])*'""",
    re.VERBOSE,
)
_PLAIN_HEAD = re.compile(rb"""[^()\[\]{}:\#"'\n]*\([^()\[\]{}\#"'\n]*\)[^()\[\]{}:\#"'\n]*:""")
_HEAD_WORD = re.compile(
    rb"""[^()\[\]{}:\#"']+|\#[^\n]*|"(?:\\[^\n]|[^"\\\n])*"(?!")|'(?:\\[^\n]|[^'\\\n])*'(?!')|[()\[\]{}:]""",
)
_DEFAULT = re.compile(
    rb"""[ \t]*=[ \t]*(?:None|True|False|-?\d[\d_.]*|"[^"\\\n]*"|'[^'\\\n]*')[ \t]*(?=[,)\n])""",
)
_SHORT = 5
"""Functions of fewer lines are not worth leaving out."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold a function that was left out: its lines from 1, its indent, and its text (no decorators)."""

    first: int
    last: int
    indent: int
    name: bytes
    text: bytes
    bare: bool = True
    """True when its parameters were left out too."""

    def source(self) -> bytes:
        """Return a file in which only this function stands, at its own lines."""
        if not self.indent:
            return b"\n" * (self.first - 1) + self.text
        return b"\n" * (self.first - 2) + b"if 1:\n" + self.text


def outlined(data: bytes, *, heads: bool = False) -> tuple[bytes, list[Piece]] | None:
    """Return a file with the bodies of its functions left out, and these; None when its text does not tell.

    Every line keeps its number. Only functions within no other one are left out. With ``heads`` parameters
    stay where a default is no plain literal, and so do functions whose head the text does not tell.
    """
    strings = _strings(data)
    if strings is None or _is_unusual(data):
        return None
    kept: list[bytes] = []
    pieces: list[Piece] = []
    place = line = 0
    found = _DEF.search(data)
    while found is not None:
        start = found.start(1)
        inside = _string_end(strings, start) or (start if _continues(data, start) else 0)
        if inside:
            found = _DEF.search(data, inside - 1)
            continue
        stop = _end_of_body(data, strings, found)
        text = data[start:stop]
        lines = text.count(b"\n")
        head = _head(text) if heads else b""
        bare = not heads or _is_plain(head)
        if lines >= _SHORT and (bare or head):
            line += data.count(b"\n", place, start)
            piece = Piece(line + 1, line + lines, len(found[1]), found[2], text, bare)
            head = b"%sdef %s():" % (found[1], found[2]) if bare else head
            kept += (data[place:start], head, b" ...", b"\n" * (lines - head.count(b"\n")))
            pieces.append(piece)
            place, line = stop, line + lines
        found = _DEF.search(data, stop - 1)
    return b"".join((*kept, data[place:])), pieces


def _head(text: bytes) -> bytes:
    """Return what stands before the body of a function, its colon included; empty when that is not told."""
    plain = _PLAIN_HEAD.match(text)
    if plain is not None:
        return plain.group()
    depth = place = 0
    while (word := _HEAD_WORD.match(text, place)) is not None:
        place = word.end()
        first = text[word.start() : word.start() + 1]
        if first in b"([{":
            depth += 1
        elif first in b")]}":
            depth -= 1
        elif first == b":" and not depth:
            return text[:place]
    return b""


def _is_plain(head: bytes) -> bool:
    """Tell whether a head is known, and every default in it a literal."""
    return bool(head) and b"=" not in _DEFAULT.sub(b"", head)


def _is_unusual(data: bytes) -> bool:
    """Tell whether lines or columns are counted in another way than by line feeds and blanks."""
    if b"\r" in data or b"\f" in data or _OTHER_CODING.search(b"".join(data.split(b"\n", 2)[:2])):
        return True
    return data.startswith(b"\xef\xbb\xbf") or (b"\t" in data and _TAB.search(data) is not None)


def _end_of_body(data: bytes, strings: list[tuple[int, int]], found: re.Match[bytes]) -> int:
    """Return where the first statement begins that is not of a function, or the end of the file."""
    ending = _outside(len(found[1]))
    place = found.end()
    while (after := ending.search(data, place)) is not None:
        start = after.start() + 1
        inside = _string_end(strings, start)
        if not inside and not _continues(data, start):
            return start
        place = inside - 1 if inside else start
    return len(data)


@lru_cache(maxsize=64)
def _outside(indent: int) -> re.Pattern[bytes]:
    """Return the pattern of a statement so far in at most: neither bracket nor comment begins one."""
    return re.compile(rb"\n {0,%d}[^\s#)\]}]" % indent)


def _continues(data: bytes, start: int) -> bool:
    """Tell whether the line before one that begins here goes on in it."""
    return data[max(0, start - 2) : start] == b"\\\n"


def _string_end(strings: list[tuple[int, int]], place: int) -> int:
    """Return the end of the string of several lines that a place lies in, or 0."""
    index = bisect_right(strings, (place, place)) - 1
    return strings[index][1] if index >= 0 and place < strings[index][1] else 0


def _strings(data: bytes) -> list[tuple[int, int]] | None:
    """Return start and end of each string in triple quotes; None where quotes cannot be paired."""
    found: list[tuple[int, int]] = []
    place = 0
    while (quotes := _next_quotes(data, place)) >= 0:
        line = max(place, data.rfind(b"\n", 0, quotes) + 1)
        if line > place and _continues(data, line):
            return None
        word = _WORD.match(data, line)
        while word is not None and word["triple"] is None and word.end() <= quotes:
            word = _WORD.match(data, word.end())
        if word is None:
            return None
        place = word.end()
        if word["triple"] is not None:
            place = _closed(data, word["triple"], place)
            if not place:
                return None
            found.append((word.start(), place))
    return found


def _next_quotes(data: bytes, place: int) -> int:
    double = data.find(b'"""', place)
    single = data.find(b"'''", place, double if double >= 0 else len(data))
    return single if single >= 0 else double


def _closed(data: bytes, quotes: bytes, place: int) -> int:
    """Return where a string in triple quotes ends, or 0; a quote behind a backslash ends none."""
    while (end := data.find(quotes, place)) >= 0:
        slashes = len(data[place:end]) - len(data[place:end].rstrip(b"\\"))
        if slashes % 2 == 0:
            return end + 3
        place = end + 1
    return 0
