"""Look for source of released packages in files that are to be committed, however it is quoted there."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LONG = 60
"""A line of a package with so many characters, without the space around it, must not stand anywhere."""

RUN = 3
"""So many of its lines must not follow each other, if they say anything: `RUN_CHARS` together."""

RUN_CHARS = 30

_STARTS = re.compile(r"(?<!\w)\S")
_PREFIX = re.compile(r"^(?:\S*[:-])?\d+[:-] ?")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_QUOTE = re.compile(r'(?<!\\)"')
_MEANT = {"n": "\n", "t": "\t", "r": "\r"}
_ESCAPED = 3


@dataclass(frozen=True, slots=True)
class Leak:
    """Name a line of a package that a file still holds; ``lines`` follow each other from it on."""

    file: Path
    place: str
    line: int
    lines: int = 1

    def __str__(self) -> str:
        what = "a line" if self.lines == 1 else f"{self.lines} lines"
        return f"{self.file} holds {what} of {self.place} from line {self.line} on"


@dataclass(slots=True)
class _Seen:
    """Hold what stands in the files: beginnings of long texts, and lines that follow each other."""

    heads: set[int] = field(default_factory=set)
    runs: dict[int, Path] = field(default_factory=dict)
    texts: list[tuple[Path, str]] = field(default_factory=list)


def find_leaks(files: Iterable[Path], roots: Mapping[str, Path], *, first: int = 20) -> list[Leak]:
    """Return the first lines of the packages (``NAME@VERSION`` to folder) that stand in the files."""
    seen = _Seen()
    for file in files:
        for text in texts_of(file):
            for form in _forms(text):
                _take(seen, file, form)
    found: list[Leak] = []
    for name, root in roots.items():
        for path in sorted(root.rglob("*.py")):
            place = f"{name}/{path.relative_to(root)}"
            found += _in_source(seen, place, path.read_text("utf-8", "replace").split("\n"))
            if len(found) >= first:
                return found[:first]
    return found


def texts_of(file: Path) -> Iterator[str]:
    """Yield the strings that a file of recordings holds: of JSON each by itself, else the whole."""
    data = file.read_bytes()
    if file.suffix == ".gz":
        data = gzip.decompress(data)
    text = data.decode("utf-8", "replace")
    if file.suffix == ".jsonl":
        for line in text.splitlines():
            yield from _strings(json.loads(line))
    elif ".json" in file.suffixes:
        yield from _strings(json.loads(text))
    else:
        yield text


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _forms(text: str, depth: int = _ESCAPED) -> Iterator[str]:
    """Yield a text, and what stands escaped between the quotes in it."""
    yield text
    if depth and "\\" in text:
        for piece in _QUOTE.split(text):
            if "\\" in piece:
                plain = _ESCAPE.sub(lambda match: _MEANT.get(match[1], match[1]), piece)
                yield from _forms(plain, depth - 1)


def _take(seen: _Seen, file: Path, text: str) -> None:
    if len(text) >= LONG:
        seen.texts.append((file, text))
        seen.heads.update(
            hash(text[at : at + LONG])
            for match in _STARTS.finditer(text)
            if (at := match.start()) <= len(text) - LONG
        )
    rows = [row for line in text.split("\n") if (row := _PREFIX.sub("", line).strip())]
    for place in range(len(rows) - RUN + 1):
        if _says(run := rows[place : place + RUN]):
            seen.runs.setdefault(hash("\n".join(run)), file)


def _says(run: list[str]) -> bool:
    return sum(map(len, run)) >= RUN_CHARS


def _in_source(seen: _Seen, place: str, lines: list[str]) -> Iterator[Leak]:
    rows = [(number, row) for number, line in enumerate(lines, 1) if (row := line.strip())]
    for at, (number, row) in enumerate(rows):
        if len(row) >= LONG and hash(row[:LONG]) in seen.heads and any(char.isalnum() for char in row):
            yield from (Leak(file, place, number) for file in _holding(seen, row))
        run = [text for _, text in rows[at : at + RUN]]
        if len(run) == RUN and _says(run) and (holder := seen.runs.get(hash("\n".join(run)))):
            yield Leak(holder, place, number, RUN)


def _holding(seen: _Seen, row: str) -> list[Path]:
    return list(dict.fromkeys(file for file, text in seen.texts if row in text))[:1]
