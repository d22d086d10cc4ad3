"""Find earlier investigations by words and host: an index over the case files of the state folder.

The index is made and renewed when it is asked, holds nothing that the case files do not, and may be removed
at any time. What it says was found then; it is no evidence now.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from agent.casefile import CaseFile, build
from agent.config import Settings
from agent.errors import TranscriptError
from agent.events import Event, ToolFinished
from agent.models.views import parse_view
from agent.models.views import rows as rows_of
from agent.transcript import read_events
from agent.untrusted import wrapped
from agent.whole_file import private_folder
from prompts.render import render
from tools.artifacts import ArtifactStore
from tools.display import printable

NAMED, SHOWN = 3, 20
AT_START: Final = 40
"""How many cases are read anew at most before an investigation begins; a search reads all."""
_VERSION: Final = 1
_NAME: Final = "cases.sqlite"
_SUMMARY: Final = 400
_WORDS: Final = 32
_SCHEMA: Final = (
    "CREATE TABLE cases (thread TEXT PRIMARY KEY, stamp TEXT NOT NULL, case_row TEXT)",
    "CREATE VIRTUAL TABLE words USING fts5 (thread UNINDEXED, symptom, summary, more)",
    f"PRAGMA user_version = {_VERSION}",
)


class Earlier(BaseModel):
    """Hold what is told of one earlier investigation."""

    thread: str
    started_at: datetime
    symptom: str
    hosts: list[str]
    engines: list[str]
    outcome: str
    summary: str
    kept: list[str]
    simulated: bool
    took_back: bool


def search(settings: Settings, words: str, host: str | None = None, limit: int = SHOWN) -> list[Earlier]:
    """Return the cases that hold some of the words, best first; without words the newest."""
    with closing(_index(settings.state_dir)) as index:
        rows = {row.thread: row for row in _rows(index)}
        order = _ranked(index, words) if words.strip() else sorted(rows, reverse=True)
    found = [rows[thread] for thread in order if thread in rows]
    return [row for row in found if host is None or host in row.hosts][:limit]


def earlier(settings: Settings, hosts: Sequence[str], symptom: str) -> list[Earlier]:
    """Return at most three real cases of these hosts, or of the engine versions last seen there."""
    with closing(_index(settings.state_dir, AT_START)) as index:
        rows = [row for row in _rows(index) if not (row.simulated or row.took_back)]
        places = {thread: place for place, thread in enumerate(_ranked(index, symptom))}
    here = [row for row in rows if set(row.hosts) & set(hosts)]
    versions = {one for row in sorted(here, key=lambda row: row.started_at)[-1:] for one in row.engines}
    same = [row for row in rows if row in here or versions & set(row.engines)]
    last = len(places)

    def rank(row: Earlier) -> tuple[bool, int, float]:
        return row not in here, places.get(row.thread, last), -row.started_at.timestamp()

    return sorted(same, key=rank)[:NAMED]


def told(settings: Settings, hosts: Sequence[str], symptom: str) -> list[str]:
    """Return what the model is told of earlier cases; nothing where there are none, or none can be read."""
    if not settings.seen_before:
        return []
    try:
        found = earlier(settings, hosts, symptom)
    except (OSError, sqlite3.Error):
        return []  # an index is a comfort: no investigation waits for it
    if not found:
        return []
    # Summaries quote what hosts said, so they are no more to be trusted than it was.
    rows = wrapped("\n".join(printable(_line(row)) for row in found))
    return [render("note_seen_before", count=len(found), rows=rows)]


def _line(row: Earlier) -> str:
    kept = f"; kept: {', '.join(row.kept)}" if row.kept else ""
    engines = f" ({', '.join(row.engines)})" if row.engines else ""
    symptom, summary = (" ".join(text.split()) for text in (row.symptom, row.summary))
    where = f"{row.started_at:%Y-%m-%d} on {', '.join(row.hosts)}{engines}, case {row.thread}"
    return f"- {where}: {symptom[:200]!r} -> {row.outcome}{kept}. {summary[:_SUMMARY]}"


def _index(state_dir: Path, most: int | None = None) -> sqlite3.Connection:
    """Return the index, brought up to date; one that is damaged or of another version is made anew."""
    path = state_dir / _NAME
    try:
        index = _opened(path)
    except sqlite3.OperationalError:
        raise  # it is busy, or the disk fails: that is no damage
    except sqlite3.DatabaseError:
        path.unlink(missing_ok=True)
        index = _opened(path)
    try:
        _renew(index, state_dir / "threads", most)
    except BaseException:
        index.close()
        raise
    return index


def _opened(path: Path) -> sqlite3.Connection:
    private_folder(path.parent)
    path.touch(mode=0o600)
    index = sqlite3.connect(path, timeout=5.0)
    try:
        if _version(index) != _VERSION:
            index.execute("BEGIN IMMEDIATE")
            if _version(index) != _VERSION:  # another process was no faster
                for table in ("cases", "words"):
                    index.execute(f"DROP TABLE IF EXISTS {table}")
                for line in _SCHEMA:
                    index.execute(line)
            index.commit()
    except BaseException:
        index.close()
        raise
    return index


def _version(index: sqlite3.Connection) -> int:
    return int(index.execute("PRAGMA user_version").fetchone()[0])


def _renew(index: sqlite3.Connection, threads: Path, most: int | None) -> None:
    """Read again what changed since, the newest first, and forget what is gone."""
    known = dict(index.execute("SELECT thread, stamp FROM cases"))
    now = {}
    for path in threads.glob("*/transcript.jsonl"):
        try:
            seen = path.stat()
        except OSError:
            continue  # removed meanwhile
        now[path.parent.name] = f"{seen.st_mtime_ns}-{seen.st_size}"
    stale = sorted((thread for thread, stamp in now.items() if known.get(thread) != stamp), reverse=True)[
        :most
    ]
    gone = [thread for thread in known if thread not in now]
    if not (stale or gone):
        return
    with index:
        for thread in [*gone, *stale]:
            index.execute("DELETE FROM cases WHERE thread = ?", (thread,))
            index.execute("DELETE FROM words WHERE thread = ?", (thread,))
        for thread in stale:
            read = _read(threads / thread)
            text = read[1].model_dump_json() if read is not None else None
            index.execute("INSERT INTO cases VALUES (?, ?, ?)", (thread, now[thread], text))
            if read is not None:
                case, row = read
                values = (thread, case.symptom, case.summary, " ".join(_more(case, row)))
                index.execute("INSERT INTO words VALUES (?, ?, ?, ?)", values)


def _read(folder: Path) -> tuple[CaseFile, Earlier] | None:
    """Return a finished case, as its transcript tells it."""
    try:
        events = read_events(folder / "transcript.jsonl")
        case = build(events, ArtifactStore(folder / "artifacts"))
    except (OSError, TranscriptError, ValueError, IndexError):
        return None
    return (case, _earlier(case, _engines(events))) if case.outcome is not None else None


def _engines(events: Sequence[Event]) -> list[str]:
    """Return which engines of which versions were seen: by the facts, and by the source that was read."""
    found: dict[str, None] = {}
    for event in events:
        if not isinstance(event, ToolFinished) or event.status != "ok":
            continue
        if event.tool == "facts":
            view = parse_view(event.view)
            seen = [(row.get("engine"), row.get("version")) for row in rows_of(view, "engines")]
        else:
            seen = [(ref.package, ref.version) for ref in event.artifacts]
        found.update((f"{name} {version}", None) for name, version in seen if name and version)
    return list(found)


def _earlier(case: CaseFile, engines: list[str]) -> Earlier:
    kept = [
        f"{change.setting} {'left out' if change.to_value is None else change.to_value} ({change.unit})"
        for change in case.changes
        if change.status == "verified"
    ]
    return Earlier(
        thread=case.thread,
        started_at=case.started_at,
        symptom=case.symptom,
        hosts=case.hosts,
        engines=engines,
        outcome=str(case.outcome),
        summary=case.summary[: 2 * _SUMMARY],
        kept=kept,
        simulated=case.scenario is not None,
        took_back=case.recorded == "undo",
    )


def _more(case: CaseFile, row: Earlier) -> Iterator[str]:
    """Yield what else a person may remember a case by."""
    yield from (*row.hosts, *row.engines, *row.kept)
    for change in case.changes:
        yield f"{change.setting} {change.unit} {change.reason}"
    yield from (entry.hypothesis.statement for entry in case.ledger)


def _rows(index: sqlite3.Connection) -> list[Earlier]:
    found = index.execute("SELECT case_row FROM cases WHERE case_row IS NOT NULL")
    return [Earlier.model_validate(json.loads(row)) for (row,) in found]


def _ranked(index: sqlite3.Connection, text: str) -> list[str]:
    """Return the threads that hold some word of a text, best first."""
    words = list(dict.fromkeys(re.findall(r"\w{2,}", text)))[:_WORDS]
    if not words:
        return []
    query = " OR ".join(f'"{word}"' for word in words)
    rank = "bm25(words, 0, 4.0, 2.0, 1.0)"
    found = index.execute(
        f"SELECT thread FROM words WHERE words MATCH ? ORDER BY {rank}, thread DESC", (query,)
    )
    return [thread for (thread,) in found]
