"""List the investigations of this machine in columns that fit where they are shown."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from agent import threads
from agent.config import load_settings
from agent.surfaces.ages import age, size_of
from agent.surfaces.console import write_fitted
from agent.surfaces.wrapping import cells, cut
from agent.threads import ThreadSummary
from tools.display import printable

NARROW = 72
"""Columns below which each investigation takes two lines."""

_LONGEST_HOSTS = 24
_LONGEST = 200
"""Columns of a line where no terminal says how many there are; ``--json`` has the whole symptom."""


def list_sessions(*, host: str | None, limit: int | None, as_json: bool) -> None:
    """Print a line for each investigation, newest first."""
    found = [one for one in threads.list_threads(load_settings()) if host is None or host in one.hosts]
    found = found[:limit]
    if as_json:
        for one in found:
            sys.stdout.write(json.dumps(_row(one)) + "\n")
        return
    if not found:
        write_fitted(
            f"No investigations of {printable(host)}.\n"
            if host is not None
            else "No investigations yet. Start one: leadline ask HOST SYMPTOM\n"
        )
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _LONGEST
    for line in lines_of(found, datetime.now(UTC), width):
        sys.stdout.write(f"{line}\n")


def _row(one: ThreadSummary) -> dict[str, object]:
    return {
        "session_id": one.thread,
        "started_at": one.started_at.isoformat(),
        "last_at": one.last_at.isoformat(),
        "hosts": one.hosts,
        "mode": one.mode,
        "turns": one.turns,
        "outcome": one.outcome,
        "at_work": threads.is_at_work(one.folder),
        "bytes": threads.size_of(one.folder),
        "symptom": one.symptom,
    }


def lines_of(found: Sequence[ThreadSummary], now: datetime, width: int) -> Iterator[str]:
    """Yield the lines, none of more than so many columns."""
    rows = [_cells(one, now) for one in found]
    widths = [max(cells(row[place]) for row in rows) for place in range(5)]
    for row in rows:
        if width < NARROW:
            yield cut(f"{row[0]}  {row[1]}  {row[2]}", width)
            yield cut(f"  {row[4]}: {row[5]}", width)
            continue
        head = "  ".join(
            _padded(cell, size, right=place in (2, 3))
            for place, (cell, size) in enumerate(zip(row[:5], widths, strict=True))
        )
        yield cut(f"{head}  {row[5]}".rstrip(), width)


def _cells(one: ThreadSummary, now: datetime) -> list[str]:
    state = "at work" if threads.is_at_work(one.folder) else one.outcome or "unfinished"
    hosts = cut(", ".join(one.hosts) or "no host", _LONGEST_HOSTS)
    size = size_of(threads.size_of(one.folder))
    texts = [one.thread, state, age(one.last_at, now), size, hosts, one.symptom]
    return [printable(" ".join(text.split())) for text in texts]


def _padded(text: str, width: int, *, right: bool) -> str:
    fill = " " * (width - cells(text))
    return fill + text if right else text + fill
