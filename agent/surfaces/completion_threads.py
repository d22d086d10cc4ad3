"""What a shell may complete of what is recorded here: investigations, and changes that were kept.

It runs at every press of Tab: transcripts are read as lines of JSON, and only those that can matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

Row = tuple[str, str]
"""A word and what it is."""

MOST_SESSIONS = 200
_SESSION = re.compile(r"[a-z0-9][a-z0-9-]{2,63}")
_MOVES = ("change_moved", "undo_asked", "ended")
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def sessions(state: Path) -> Iterator[Row]:
    """Yield investigations, the one last worked on first."""
    for path, begun in _threads(state):
        told = ""
        with suppress(*_UNREADABLE):
            told = f"{', '.join(begun['hosts'])}: {begun['symptom']}"
        yield path.parent.name, told


def changes(state: Path) -> list[Row]:
    """Return changes that were kept and not taken back since, the newest first, as THREAD/C1."""
    kept: dict[str, str] = {}
    gone: set[str] = set()
    for path, begun in _threads(state):
        if begun.get("mode") == "apply":
            with suppress(*_UNREADABLE):
                _fold(path, kept, gone)
    return [(ref, told) for ref, told in kept.items() if ref not in gone]


def _fold(path: Path, kept: dict[str, str], gone: set[str]) -> None:
    """Add the changes that a thread kept, or the one that it took back."""
    undone, fixed = "", False
    last: dict[str, dict[str, Any]] = {}
    for row in _moves(path):
        if row["type"] == "undo_asked":
            undone = f"{row['thread']}/{row['change']}"
        elif row["type"] == "ended":
            fixed = row["outcome"] == "fixed"
        else:
            last[row["change"]["id"]] = row["change"]
    if undone:
        gone.update([undone] if fixed else [])
        return
    for name, change in last.items():
        if change["status"] == "verified":
            told = f"{change['setting']} of {change['unit']} on {change['host']}"
            kept[f"{path.parent.name}/{name}"] = told


def _moves(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events that say what became of changes; others may quote the names of these."""
    marks = [f'"{kind}"'.encode() for kind in _MOVES]
    with path.open("rb") as file:
        for line in file:
            if any(mark in line for mark in marks):
                row: dict[str, Any] = json.loads(line)
                if row.get("type") in _MOVES:
                    yield row


def _threads(state: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield transcripts, the one last written first, with how each begins; nothing where that is no JSON."""
    paths = (state / "threads").glob("*/transcript.jsonl")
    found = [path for path in paths if _SESSION.fullmatch(path.parent.name)]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in islice(found, MOST_SESSIONS):
        begun: Any = None
        with suppress(ValueError), path.open("rb") as file:
            begun = json.loads(file.readline(1 << 16))
        yield path, begun if isinstance(begun, dict) else {}
