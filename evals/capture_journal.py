"""Turn the log lines that an investigation read into a scenario's history, bounded and dated by their age."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from evals.captured_host import HostRecord, Output

MOST_LINES: Final = 1200
MOST_CHARS: Final = 160_000
_OF_A_KIND: Final = 60
"""Lines that differ only in numbers: so many of the newest are kept, and a third as many of the oldest."""
_LONGEST: Final = 4000
_ORIGIN = r"([^\s:\[]+)(?:\[(\d+)\])?: (.*)"
_ISO = re.compile(rf"(\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,]\d+)?([+-]\d\d:?\d\d) \S+ {_ORIGIN}")
_SHORT = re.compile(rf"([A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d) \S+ {_ORIGIN}")
_BOOT = re.compile(r"-- Boot [0-9a-f]{32} --")
_UNIT = re.compile(r"-u (\S+)|--unit[= ](\S+)")
_HOLE = re.compile(r"\{(--?[\w-]+|\$\w+|[a-z][\w.]*)((?::[^{}]*)?)\}")


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold one line of a journal: when, whose, what."""

    at: float
    unit: str
    ident: str
    pid: int
    text: str

    @property
    def kernel(self) -> bool:
        """Tell whether the kernel wrote it."""
        return self.ident == "kernel"

    @property
    def kind(self) -> str:
        """Return the line without its numbers."""
        return f"{self.ident} {re.sub(r'[0-9]+', '#', self.text)[:200]}"


@dataclass(frozen=True, slots=True)
class Read:
    """Hold the lines that were read, oldest first and each once, and what they tell of boots."""

    entries: list[Entry]
    boots: list[float]
    """First line of each boot that was told apart."""
    current: float | None
    """First line that is known to be of the present boot."""


def read_of(record: HostRecord) -> Read:
    """Return the log lines that an investigation read."""
    found: dict[Entry, None] = {entry: None for entry in _kernel_line(record)}
    boots: set[float] = set()
    current = [entry.at for entry in found]
    for output in record.outputs:
        if output.tool == "journal" or re.match(r"(sudo )?journalctl\b", output.command):
            first = True
            for entry in _lines(output, record.started.at.year):
                if entry is None:
                    first = True
                    continue
                if first and " -b" in f"{output.ref.label} {output.command}":
                    current.append(entry.at)
                elif first:
                    boots.add(entry.at)
                first = False
                found[entry] = None
    ordered = sorted(found, key=lambda entry: entry.at)
    return Read(ordered, sorted(boots), min(current, default=None))


def _kernel_line(record: HostRecord) -> Iterator[Entry]:
    for line in record.facts.text("kernel_log").splitlines():
        entry = _entry(line, "", record.started.at.year)
        if entry is not None:
            yield entry


def _lines(output: Output, year: int) -> Iterator[Entry | None]:
    """Yield the lines of an output; None where another boot begins."""
    unit = _UNIT.search(output.command or output.ref.label)
    name = (unit[1] or unit[2]) if unit else ""
    name = name if not name or "." in name else f"{name}.service"
    for line in output.text.splitlines():
        if _BOOT.fullmatch(line):
            yield None
        elif (entry := _entry(line, name, year)) is not None:
            yield entry


def _entry(line: str, unit: str, year: int) -> Entry | None:
    if found := _ISO.fullmatch(line):
        at = datetime.fromisoformat(f"{found[1]}{found[2]}").timestamp()
        ident, pid, text = found[3], found[4], found[5]
    elif found := _SHORT.fullmatch(line):
        try:
            moment = datetime.strptime(f"{year} {found[1]}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            return None
        at, ident, pid, text = moment.timestamp(), found[2], found[3], found[4]
    else:
        return None
    if not text.strip() or not re.fullmatch(r"[\w.@()-]+", ident):
        return None
    kernel = ident == "kernel"
    return Entry(at, "" if kernel else unit, ident, min(int(pid or 0), 1 << 22), text[:_LONGEST])


def bounded(entries: Sequence[Entry]) -> list[Entry]:
    """Return as many lines as a scenario holds: of lines that repeat only the oldest and the newest."""
    total = Counter(entry.kind for entry in entries)
    seen: Counter[str] = Counter()
    kept = []
    for entry in entries:
        place = seen[entry.kind]
        seen[entry.kind] += 1
        if place < _OF_A_KIND // 3 or total[entry.kind] - place <= _OF_A_KIND:
            kept.append(entry)
    kept = kept[-MOST_LINES:]
    room = MOST_CHARS
    for place in range(len(kept) - 1, -1, -1):
        room -= len(kept[place].text)
        if room < 0:
            return kept[place + 1 :]
    return kept


def history(entries: Sequence[Entry], zero: float, sites: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return lines of before a moment as history; those of one second and origin are one item."""
    made: dict[str, dict[str, Any]] = {}
    last: Entry | None = None
    for entry in entries:
        if entry.at >= zero - 1:
            continue
        text = inert(_dated(entry), sites)
        same = last is not None and (last.at, last.unit, last.ident, last.pid) == (
            entry.at,
            entry.unit,
            entry.ident,
            entry.pid,
        )
        if same:
            made[next(reversed(made))]["text"] += f"\n{text}"
        else:
            made[f"line-{len(made) + 1:04d}"] = _item(entry, zero, text)
        last = entry
    return made


def _item(entry: Entry, zero: float, text: str) -> dict[str, Any]:
    item: dict[str, Any] = {"at": age(zero - entry.at)}
    if entry.kernel:
        return {**item, "kernel": True, "text": text}
    origin = {"unit": entry.unit, "ident": entry.ident, "pid": entry.pid}
    return {**item, **{key: value for key, value in origin.items() if value}, "text": text}


def _dated(entry: Entry) -> str:
    """Return the line's text with its own time, as engines print it first, left for the lab to fill in."""
    moment = datetime.fromtimestamp(entry.at, UTC)
    stamp = f"{moment:%Y-%m-%d %H:%M:%S}"
    return _HOLE.sub(lambda match: f"{{ {match[0][1:]}", entry.text).replace(stamp, "{time}")


def inert(text: str, sites: Sequence[str]) -> str:
    """Return a text in which the folder of the packages is left for the lab to fill in."""
    for site in sites:
        text = text.replace(f"{site}/", "{site}/")
    return text


def not_a_template(text: str) -> str:
    """Return a text in which nothing is filled in: what looks like a name in braces gets a blank."""
    return _HOLE.sub(lambda match: f"{{ {match[0][1:]}", text)


def boots(read: Read, booted: float | None, zero: float) -> list[dict[str, Any]]:
    """Return the boots that were seen: earlier ones by their first line, the present one by its start."""
    starts = [zero - 3600.0, *([booted] if booted else []), *([read.current - 1] if read.current else [])]
    current = min(starts[1:] or starts)
    made = []
    earlier = [first for first in read.boots if first < current - 60]
    for place, first in enumerate(earlier):
        end = earlier[place + 1] if place + 1 < len(earlier) else current
        made.append({"start": age(zero - first + 1), "end": age(zero - end + 1)})
    return [*made, {"start": age(zero - current)}]


def age(seconds: float) -> str:
    """Return a span such as ``-3d4h5m6s`` for so many seconds before the lab's start."""
    rest = max(1, round(seconds))
    parts = []
    for name, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        parts += [f"{count}{name}"] if count else []
    return f"-{''.join(parts)}"
