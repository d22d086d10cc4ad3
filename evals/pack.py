"""Store values without the source they quote: copied lines become references, and come back byte for byte.

The packed form is JSON of the same shape, in which an object with one key that begins with ``$`` stands for
something else (documented for readers in ``transcripts/README.md``):

``{"$text": [SEGMENT, ...]}``   a string: literals, ``{"lines": REF}``, ``{"lines": REF, "numbered": true}``
                                and ``{"escaped": [SEGMENT, ...]}``, which is escaped as inside a JSON string
``{"$json": VALUE}``            a string of JSON, as ``json.dumps(VALUE, ensure_ascii=False)`` writes it
``{"$ascii": VALUE}``           the same in plain ASCII
``{"$items": [[KEY, VALUE]]}``  an object that itself has a key that begins with ``$``

A REF is ``PLACE:FIRST[.COLUMN]-LAST[.COLUMN]``: lines counted from 1, columns of characters from 0, the last
one excluded. What a place is, `Lookup` knows. No I/O.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.quotes import line_starts

SHORTEST = 30
"""Characters that have to be the same, from the beginning of a line, before a reference is made of them."""

_DEEPEST = 40
_DEEPEST_VALUE = 200
_STYLES: Mapping[str, bool] = {"$json": False, "$ascii": True}
_REF = re.compile(r"(.+):([1-9]\d*)(?:\.(\d+))?-([1-9]\d*)(?:\.(\d+))?")
_NUMBERED = re.compile(r"^(\d+): (.*)$", re.MULTILINE)
_STARTS = re.compile(r"(?<!\w)\S")
_BODY = re.compile(r'"((?:[^"\\]|\\.)+)(?="|\Z)')

Segment = str | dict[str, Any]


class PackError(ValueError):
    """Report a packed value that cannot be unpacked."""


class Text:
    """Hold a text whose parts can be referred to by line and column."""

    def __init__(self, place: str, text: str) -> None:
        self.place = place
        self.text = text
        self.starts = line_starts(text)

    def line(self, number: int) -> str | None:
        """Return a line without its end; None when there is no such line."""
        if not 1 <= number <= len(self.starts):
            return None
        return self.text[self.starts[number - 1] : self._end(number)]

    def ref(self, start: int, end: int) -> str:
        """Return the reference of ``text[start:end]``."""
        first, last = (bisect_right(self.starts, place) for place in (start, max(start, end - 1)))
        left, right = start - self.starts[first - 1], end - self.starts[last - 1]
        begin = f"{first}.{left}" if left else f"{first}"
        finish = f"{last}" if end == self._end(last) else f"{last}.{right}"
        return f"{self.place}:{begin}-{finish}"

    def cut(self, span: re.Match[str]) -> str:
        """Return what a reference names; raise `PackError` for lines that are not there."""
        first, last = int(span[2]), int(span[4])
        if last > len(self.starts) or first > last:
            raise PackError(f"{span[0]}: there are {len(self.starts)} lines")
        start = self.starts[first - 1] + int(span[3] or 0)
        end = self.starts[last - 1] + int(span[5]) if span[5] else self._end(last)
        return self.text[start:end]

    def _end(self, number: int) -> int:
        return self.starts[number] - 1 if number < len(self.starts) else len(self.text)


Lookup = Callable[[str], Text]
"""Return the text of a place; raise `PackError` when it is not to be had."""


@dataclass(slots=True)
class Index:
    """Find copies of texts in other strings; without any text in it, nothing is replaced."""

    texts: list[Text] = field(default_factory=list)
    _heads: dict[str, list[tuple[Text, int]]] = field(default_factory=dict)

    def add(self, text: Text) -> None:
        """Take in one more text."""
        self.texts.append(text)
        for match in re.finditer(r"^[^\S\n]*(\S)", text.text, re.MULTILINE):
            start = match.start(1)
            head = text.text[start : start + SHORTEST]
            if len(head) == SHORTEST:
                self._heads.setdefault(head, []).append((text, start))

    def longest(self, string: str, at: int, least: int) -> tuple[int, int, str] | None:
        """Return begin, end and reference of the longest copy around ``at``, from ``least`` on."""
        best: tuple[int, int, str] | None = None
        for text, start in self._heads.get(string[at : at + SHORTEST], ()):
            ahead = _same_ahead(string, at, text.text, start)
            behind = _same_behind(string, at, text.text, start, at - least)
            if best is None or ahead + behind > best[1] - best[0]:
                end = start + ahead
                if text.text[end - 1] == "\n":
                    ahead, end = ahead - 1, end - 1
                best = (at - behind, at + ahead, text.ref(start - behind, end))
        return best


def pack(value: Any, index: Index, depth: int = 0) -> Any:
    """Return the packed form of a JSON value."""
    if depth > _DEEPEST_VALUE:
        raise RecursionError("nested too deep to be packed")
    if isinstance(value, str):
        return pack_string(value, index, depth)
    if isinstance(value, list):
        return [pack(item, index, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    packed = {key: pack(item, index, depth + 1) for key, item in value.items()}
    return {"$items": [[*item] for item in packed.items()]} if any(k[:1] == "$" for k in packed) else packed


def pack_string(string: str, index: Index, depth: int = 0) -> Any:
    """Return the packed form of a string, which is the string itself when nothing in it was copied."""
    if depth < _DEEPEST and string[:1] in ("{", "["):
        try:
            value = json.loads(string, parse_constant=_refuse)
            for style, ascii_only in _STYLES.items():
                if json.dumps(value, ensure_ascii=ascii_only) == string:
                    return {style: pack(value, index, depth + 1)}
        except (ValueError, RecursionError):
            pass  # It is a text like any other.
    segments = _segments(string, index, depth)
    return string if all(isinstance(part, str) for part in segments) else {"$text": segments}


def unpack(packed: Any, lookup: Lookup) -> Any:
    """Return the value of a packed form."""
    return loads(json.dumps(packed), lookup)


def loads(text: str | bytes, lookup: Lookup) -> Any:
    """Read packed JSON; raise `PackError` for a reference that leads nowhere."""

    def restore(found: dict[str, Any]) -> Any:
        if len(found) == 1:
            ((key, value),) = found.items()
            if key == "$text":
                return "".join(_restored(value, lookup))
            if key in _STYLES:
                return json.dumps(value, ensure_ascii=_STYLES[key])
            if key == "$items":
                return dict(value)
        return found

    # Python code for each object takes most of the time, and few lines hold anything to restore.
    packed = b'"$' in text if isinstance(text, bytes) else '"$' in text
    return json.loads(text, object_hook=restore) if packed else json.loads(text)


def refs(packed: Any) -> Iterator[str]:
    """Yield every reference in a packed value."""
    if isinstance(packed, dict):
        if isinstance(packed.get("lines"), str) and _REF.fullmatch(packed["lines"]):
            yield packed["lines"]
        packed = list(packed.values())
    if isinstance(packed, list):
        for item in packed:
            yield from refs(item)


def place_of(ref: str) -> str:
    """Return the place that a reference leads to."""
    return _span(ref)[1]


def _restored(segments: Any, lookup: Lookup) -> Iterator[str]:
    if not isinstance(segments, list):
        raise PackError(f"$text holds {segments!r} where a list is due")
    for part in segments:
        if isinstance(part, str):
            yield part
        elif "escaped" in part:
            yield json.dumps("".join(_restored(part["escaped"], lookup)), ensure_ascii=False)[1:-1]
        else:
            span = _span(str(part.get("lines")))
            text = lookup(span[1]).cut(span)
            yield text if not part.get("numbered") else _numbered(text, int(span[2]))


def _span(ref: str) -> re.Match[str]:
    span = _REF.fullmatch(ref)
    if span is None:
        raise PackError(f"not a reference: {ref!r}")
    return span


def _numbered(text: str, first: int) -> str:
    return "\n".join(f"{number}: {line}" for number, line in enumerate(text.split("\n"), first))


def _segments(string: str, index: Index, depth: int) -> list[Segment]:
    """Return a string as literals and references; JSON that was cut off is looked into first."""
    if len(string) < SHORTEST or not index.texts:
        return [string]
    passes = [_copied, _escaped] if string[0] not in "{[" else [_escaped, _copied]
    segments: list[Segment] = [string]
    for find in (_numbered_runs, *passes):
        segments = [
            piece
            for part in segments
            for piece in (find(part, index, depth) if isinstance(part, str) else [part])
        ]
    return _joined(segments)


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    """Return segments without empty literals, and no literal next to another."""
    joined: list[Segment] = []
    for part in segments:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = last + part
        elif part != "":
            joined.append(part)
    return joined or [""]


def _numbered_runs(string: str, index: Index, depth: int) -> Iterator[Segment]:
    """Find lines that are shown with their numbers, as ``read_file`` does."""
    rows = [(match, int(match[1])) for match in _NUMBERED.finditer(string) if len(match[1]) < 8]
    done = place = 0
    while place < len(rows):
        text, count = max(
            ((text, _same_rows(rows[place:], text)) for text in index.texts),
            key=lambda found: found[1],
        )
        if count == 0:
            place += 1
            continue
        first, last = rows[place], rows[place + count - 1]
        start, end = first[0].start(), last[0].end()
        place += count
        if end - start >= SHORTEST:
            yield string[done:start]
            ref = f"{text.place}:{first[1]}-{last[1]}"
            yield {"lines": ref, "numbered": True}
            done = end
    yield string[done:]


def _same_rows(rows: Sequence[tuple[re.Match[str], int]], text: Text) -> int:
    """Count the rows from the first on that are lines of a text under their numbers, one after another."""
    count = 0
    for match, number in rows:
        follows = count == 0 or (
            number == rows[0][1] + count and match.start() == rows[count - 1][0].end() + 1
        )
        if not follows or f"{number}" != match[1] or text.line(number) != match[2]:
            break
        count += 1
    return count


def _copied(string: str, index: Index, depth: int) -> Iterator[Segment]:
    """Find what was copied from the texts as it stands there."""
    done = 0
    for match in _STARTS.finditer(string):
        at = match.start()
        if at < done:
            continue
        found = index.longest(string, at, done)
        if found is not None:
            start, end, ref = found
            yield string[done:start]
            yield {"lines": ref}
            done = end
    yield string[done:]


def _escaped(string: str, index: Index, depth: int) -> Iterator[Segment]:
    """Find what stands escaped in the JSON strings inside a text."""
    done = 0
    for match in _BODY.finditer(string) if "\\" in string and depth < _DEEPEST else ():
        body = match[1]
        try:
            inside = json.loads(f'"{body}"') if "\\" in body else ""
        except ValueError:
            continue
        if inside and json.dumps(inside, ensure_ascii=False)[1:-1] == body:
            parts = _segments(inside, index, depth + 1)
            if not all(isinstance(part, str) for part in parts):
                yield string[done : match.start(1)]
                yield {"escaped": parts}
                done = match.end(1)
    yield string[done:]


def _same_ahead(one: str, at: int, other: str, start: int) -> int:
    """Count equal characters from two places on, in steps that grow while they fit."""
    limit = min(len(one) - at, len(other) - start)
    count, step = 0, SHORTEST
    while step:
        end = count + step
        if end <= limit and one[at + count : at + end] == other[start + count : start + end]:
            count, step = end, step * 2
        else:
            step //= 2
    return count


def _same_behind(one: str, at: int, other: str, start: int, most: int) -> int:
    """Count equal characters before two places."""
    count = 0
    while count < min(most, start) and one[at - count - 1] == other[start - count - 1]:
        count += 1
    return count


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
