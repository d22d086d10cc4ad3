"""Keep threads on disk: one folder each, inside the state folder whatever the name, one owner at a time."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent.config import Settings
from agent.errors import TranscriptError, UsageError
from agent.events import Ended, Event, Forked, Started
from agent.state import Mode, Outcome
from agent.transcript import peek_events
from agent.whole_file import private_folder

_ID = re.compile(r"[a-z0-9][a-z0-9-]{2,63}")
_BEGUN = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_LEFT = "left-at"
"""File of a thread that says when it was last let go of."""

_NAMED = 5
"""How many of those that an ambiguous beginning fits are named."""


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """Say in a line what a thread is: for ``leadline sessions list``."""

    thread: str
    started_at: datetime
    symptom: str
    hosts: list[str]
    mode: Mode
    turns: int
    outcome: Outcome | None
    last_at: datetime
    folder: Path


def new_id() -> str:
    """Return an id that sorts by time, such as ``20260131-142530-9f3a``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def folder_of(settings: Settings, thread: str) -> Path:
    """Return the folder of a thread; refuse every id that is not one of ours by its form."""
    if not _ID.fullmatch(thread):
        raise UsageError(f"not a thread id: {thread!r}", do="see `leadline sessions list`")
    return settings.state_dir / "threads" / thread


def create(settings: Settings, thread: str | None = None) -> Path:
    """Make the folder of a new thread, readable by its owner alone; with no id it takes one that is free."""
    folder = folder_of(settings, thread or new_id())
    try:
        private_folder(folder.parent)
        folder.mkdir(mode=0o700)
    except FileExistsError as error:
        if thread is None:  # of many that begin within one second, two may draw the same
            return create(settings)
        raise UsageError(f"thread {thread} exists", do="resume it, or choose another id") from error
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", do="set LEADLINE_STATE_DIR") from error
    return folder


def find(settings: Settings, thread: str) -> Path:
    """Return the folder of a thread that exists."""
    folder = folder_of(settings, thread)
    if folder.is_symlink() or not (folder / "transcript.jsonl").is_file():
        raise UsageError(f"no thread {thread}", do="see `leadline sessions list`")
    return folder


def named(settings: Settings, word: str) -> str:
    """Return the thread that a person means by its id, or by the beginning of one that no other has."""
    if not _BEGUN.fullmatch(word):
        folder_of(settings, word)  # refuses it
    return chosen(word, [path.parent.name for path in all_transcripts(settings)])


def chosen(word: str, ids: Sequence[str], see: str = "`leadline sessions list`") -> str:
    """Return the id that is ``word``, or the only one that begins so; name several in a `UsageError`."""
    fits = [word] if word in ids else sorted(one for one in ids if one.startswith(word))
    if not fits:
        raise UsageError(f"no thread {word}", do=f"see {see}")
    if len(fits) > 1:
        more = f" and {len(fits) - _NAMED} more" if len(fits) > _NAMED else ""
        raise UsageError(
            f"{len(fits)} threads begin with {word}: {', '.join(fits[:_NAMED])}{more}",
            do="write more of the one you mean",
        )
    return fits[0]


def started(settings: Settings, thread: str) -> Started:
    """Return how a thread began: its symptom, the hosts it needs, its mode."""
    path = find(settings, thread) / "transcript.jsonl"
    events = peek_events(path)
    if not events or not isinstance(events[0], Started):
        raise TranscriptError(f"{path} is empty", do="start a new thread")
    return events[0]


def lock(folder: Path) -> int:
    """Take a thread for this process; return the descriptor that holds it until closed or death."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(
            f"thread {folder.name} is in use by another process", do="wait for it or end it, then resume"
        ) from error
    return descriptor


def note_left(folder: Path) -> None:
    """Keep when a process let go of a thread: it may have waited long after the last event."""
    with suppress(OSError):  # the folder may be gone
        (folder / _LEFT).write_text(datetime.now(UTC).isoformat())


def _left_at(folder: Path) -> datetime | None:
    try:
        at = datetime.fromisoformat((folder / _LEFT).read_text())
    except (OSError, ValueError):
        return None
    return at if at.tzinfo is not None else None


def begun_at(events: Sequence[Event]) -> datetime:
    """Return when a thread began: a fork, which holds the events of another one, when it was forked."""
    forks = [event.at for event in events if isinstance(event, Forked)]
    return forks[-1] if forks else events[0].at


def is_at_work(folder: Path) -> bool:
    """Tell whether a process holds a thread, without getting into its way; False where that is not told."""
    try:
        inode = folder.stat().st_ino
        held = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return False
    return any("FLOCK" in row and "WRITE" in row and row.split()[5].endswith(f":{inode}") for row in held)


def size_of(folder: Path) -> int:
    """Return how many bytes the files of a thread take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def chats(settings: Settings) -> list[ThreadSummary]:
    """Return the threads that can be talked to: those that take a change back belong to `leadline undo`."""
    return [one for one in list_threads(settings) if not one.thread.startswith("undo-")]


def latest(settings: Settings) -> str:
    """Return the thread that was last worked on."""
    found = chats(settings)
    if not found:
        raise UsageError("there is no investigation yet", do="start one: leadline ask HOST SYMPTOM")
    return max(found, key=lambda one: one.last_at).thread


def all_transcripts(settings: Settings) -> list[Path]:
    """Return the transcripts of all threads; a folder that is none by its name is passed over."""
    found = (settings.state_dir / "threads").glob("*/transcript.jsonl")
    return [path for path in found if _ID.fullmatch(path.parent.name)]


def list_threads(settings: Settings) -> list[ThreadSummary]:
    """Return what threads there are, newest first; a transcript that cannot be read is left out."""
    found = []
    for path in all_transcripts(settings):
        summary = _summary(path)
        if summary is not None:
            found.append(summary)
    return sorted(found, key=lambda summary: summary.started_at, reverse=True)


def _summary(path: Path) -> ThreadSummary | None:
    try:
        events = peek_events(path)
    except (TranscriptError, OSError):
        return None
    if not events or not isinstance(events[0], Started):
        return None
    first = events[0]
    ends = [event.outcome for event in events if isinstance(event, Ended)]
    return ThreadSummary(
        thread=path.parent.name,
        started_at=begun_at(events),
        symptom=first.symptom,
        hosts=first.hosts,
        mode=first.mode,
        turns=max(event.turn for event in events),
        outcome=ends[-1] if ends else None,
        last_at=max(events[-1].at, _left_at(path.parent) or events[-1].at),
        folder=path.parent,
    )
