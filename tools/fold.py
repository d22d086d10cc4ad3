"""Fold log lines: one row for lines that differ only in numbers, ids and times; and read decode lines."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_STAMPED = re.compile(r"^(\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?) (\S+) (.*)$", re.DOTALL)
_SYSLOG = re.compile(r"^([A-Z][a-z]{2} [ \d]\d [\d:]{8}) (\S+) (.*)$", re.DOTALL)
_REMARK = re.compile(r"-- .* --$|-- (Boot|Journal|Logs) ")
_ENGINE_STAMP = re.compile(r"^\[?(\d{4}-\d\d-\d\d[ T][\d:.,]+)")
_VARIABLE = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+(?:[.:,/-]\d+)*",
    re.IGNORECASE,
)
_DECODE = (
    ("running", re.compile(r"#running-req: (\d+)")),
    ("graph", re.compile(r"cuda graph: (True|False)")),
    ("rate", re.compile(r"gen throughput \(token/s\): (\d+(?:\.\d+)?)")),
)
"""Parts of a decode line in their order; one pattern for all would look for ages through a hostile line."""

_DECODE_LINE = "Decode batch"
_STARTS = ("server_args=ServerArgs(", "systemd[1]: Started ", "non-default args: ")
_MAX_GROUPS = 60
_KEPT = 8192
"""Lines whose reading is kept: an investigation reads the log of the same unit several times."""

_JUMP = 1.6


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one log line: its number in the artifact, its time as printed, and the text after host name."""

    number: int
    at: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Log:
    """Hold what a log says whatever is looked for in it: its lines, its starts, its decode lines."""

    lines: Sequence[Line]
    starts: list[dict[str, Any]]
    decode: list[dict[str, Any]]


def read(text: str) -> list[Line]:
    """Return the lines of a log, without blank ones and journalctl's own remarks (``-- ... --``)."""
    return list(_lines(text))


def log(text: str) -> Log:
    """Read a log once for all that may be asked of it."""
    lines = read(text)
    return Log(lines, starts(lines), decode_rows(lines))


def is_empty(text: str) -> bool:
    """Tell whether a log has no line at all."""
    return next(_lines(text), None) is None


def _lines(text: str) -> Iterator[Line]:
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip("\r")
        if not line or line.isspace() or (line.startswith("-- ") and _REMARK.match(line)):
            continue
        if stamped := _STAMPED.match(line) or _SYSLOG.match(line):
            yield Line(number, stamped.group(1), stamped.group(3))
        else:
            own = _ENGINE_STAMP.match(line)
            yield Line(number, own.group(1) if own else None, line)


def _is_start(line: Line) -> bool:
    return any(start in line.text for start in _STARTS)


@lru_cache(maxsize=_KEPT)
def masked(text: str) -> str:
    """Return a line's template: numbers, ids and times replaced."""
    return _VARIABLE.sub("#", text)


def _groups(lines: Sequence[Line], key: Callable[[Line], str]) -> dict[str, list[Line]]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return groups


def fold(
    lines: Sequence[Line], span: Callable[[str], tuple[int, int] | None] | None = None
) -> list[list[Line]]:
    """Group lines by template, ordered by each group's last line.

    ``span`` finds what was searched for: lines whose searched part differs stay apart, unless that makes
    too many groups to read.
    """

    def searched(line: Line) -> str:
        found = span(line.text) if span is not None else None
        if found is None:
            return masked(line.text)
        start, end = found
        return f"{masked(line.text[:start])}{line.text[start:end]}{masked(line.text[end:])}"

    groups = _groups(lines, searched)
    if len(groups) > _MAX_GROUPS:
        groups = _groups(lines, lambda line: masked(line.text))
    return sorted(groups.values(), key=lambda group: group[-1].number)


def row(group: Sequence[Line], width: int, span: tuple[int, int] | None = None) -> dict[str, Any]:
    """Return a group as shown: its newest line, cut to ``width`` around ``span`` without any mark inside."""
    newest = group[-1]
    text = newest.text
    out: dict[str, Any] = {
        "line": newest.number,
        "count": len(group),
        "at": group[0].at,
        "last_at": newest.at,
    }
    if len(text) > width:
        start = 0 if span is None else max(0, min(span[0] - width // 8, len(text) - width))
        out |= {"text": text[start : start + width], "cut": f"{width} of {len(text)} characters"}
    else:
        out["text"] = text
    return out


def starts(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Return where a service or engine says that it starts, newest last."""
    found = [line for line in lines if _is_start(line)]
    return [{"line": line.number, "at": line.at, "text": line.text[:120]} for line in found[-4:]]


@lru_cache(maxsize=_KEPT)
def _decoded(text: str) -> dict[str, str] | None:
    """Return the values of a decode line, None when it is another line."""
    values: dict[str, str] = {}
    position = text.find(_DECODE_LINE)
    if position < 0:
        return None
    for name, pattern in _DECODE:
        found = pattern.search(text, position)
        if found is None:
            return None
        position = found.end()
        values[name] = found.group(1)
    return values


def decode_rows(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Return decode lines by requests running, graph use and level of throughput, newest start first.

    All lines of a row are of one run of the engine: ``after_start`` is the line of its last start.
    """
    seen: dict[tuple[int, int, bool], list[tuple[Line, float]]] = {}
    start = 0
    for line in lines:
        if _is_start(line):
            start = line.number
        elif found := _decoded(line.text):
            key = (start, int(found["running"]), found["graph"] == "True")
            seen.setdefault(key, []).append((line, float(found["rate"])))
    rows = []
    for (start, running, graph), hits in sorted(seen.items(), key=lambda item: (-item[0][0], *item[0][1:])):
        for cluster in sorted(_clusters(hits), key=len, reverse=True):
            rates = [rate for _, rate in cluster]
            median = statistics.median_low(rates)
            example = max((line for line, rate in cluster if rate == median), key=lambda line: line.number)
            rows.append(
                {
                    "running_req": running,
                    "cuda_graph": graph,
                    "count": len(cluster),
                    "throughput_min": min(rates),
                    "throughput_median": median,
                    "throughput_max": max(rates),
                    "after_start": start or None,
                    "line": example.number,
                    "text": example.text,
                }
            )
    return rows


def _clusters(hits: list[tuple[Line, float]]) -> list[list[tuple[Line, float]]]:
    """Split where throughput jumps: one and eight requests may both print ``#running-req: 1`` (pipelines)."""
    ordered = sorted(hits, key=lambda hit: hit[1])
    out = [ordered[:1]]
    for hit in ordered[1:]:
        if hit[1] > _JUMP * out[-1][-1][1]:
            out.append([])
        out[-1].append(hit)
    return out
