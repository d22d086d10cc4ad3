"""Keep what hosts were like: one file a host, known by its key, in which only changes are added.

A file holds JSON lines. ``full`` begins a state anew, ``set`` and ``unset`` change the one before, and
``seen`` says until when the state above was found unchanged; that line is written over in place, so a watch
that finds nothing new does not let the file grow. A line that cannot be read is told, and what follows it
counts again from the next ``full``.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tools.contract import Host, Redactor, ToolContext
from tools.facts_flat import Flat, part_of, settled

COMPACT_AT: Final = 512 << 10
"""Bytes of a host's file beyond which what is old is thinned out, and then dropped."""
KEEP_ALL_DAYS: Final = 30
"""Within so many days every change is kept; before, at most the last state of a day."""
MOST_HOSTS: Final = 512
"""Files that are kept; those of hosts that were not looked at for the longest time go first."""
_FULL_EVERY: Final = 64
STORE: Final = "history of hosts"
"""Under this name `ToolContext.cache` holds the store of an investigation, where looks are kept."""


@dataclass(frozen=True, slots=True)
class State:
    """Hold what a host was like from the first look that found it so to the last one."""

    host: str
    first: datetime
    last: datetime
    facts: Flat


@dataclass(slots=True)
class Past:
    """Hold all that is known of a host's past, oldest first, and what of it could not be read."""

    states: list[State] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    whole: bool = True
    """The file ends with a whole line and a state that is surely known, so that a change may be added."""

    def at(self, moment: datetime) -> State | None:
        """Return the state that a look found last before a moment, or None."""
        before = [state for state in self.states if state.first <= moment]
        return before[-1] if before else None


class HistoryStore:
    """Read and add states of hosts in one folder."""

    def __init__(self, folder: Path, redact: Redactor) -> None:
        self.folder = folder
        self._redact = redact

    def record(self, host: str, identity: str | None, facts: Flat, at: datetime) -> Past:
        """Add what was found at a moment; return the past before it.

        What another look asked for, and this one did not, stays as it was.
        """
        with self._locked():
            path = self._path(identity, host)
            past = read(path)
            last = past.states[-1] if past.states and past.whole else None
            clean = {self._clean(name): self._clean(value) for name, value in facts.items()}
            _write(path, last, clean, host, at, past)
            if path.stat().st_size > COMPACT_AT:
                _compact(path, at)
            self._drop_oldest()
        return past

    def past(self, host: str, identity: str | None) -> Past:
        """Return the past of a host: by its key, or by its name where the key is not known now."""
        path = self._path(identity, host)
        if identity is not None or path.is_file():
            return read(path)
        named = [found for found in (read(one) for one in self._files()) if _is_of(found, host)]
        return max(named, key=lambda found: found.states[-1].last, default=Past())

    def forget(self, host: str, identity: str | None) -> None:
        """Remove what is kept of a host."""
        with self._locked():
            self._path(identity, host).unlink(missing_ok=True)

    def _clean(self, text: str) -> str:
        return self._redact(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def _path(self, identity: str | None, host: str) -> Path:
        name = hashlib.sha256((identity or f"name:{host}").encode()).hexdigest()[:32]
        return self.folder / f"{name}.jsonl"

    def _files(self) -> list[Path]:
        return list(self.folder.glob("*.jsonl"))

    def _drop_oldest(self) -> None:
        files = self._files()
        for path in sorted(files, key=lambda one: one.stat().st_mtime)[: max(0, len(files) - MOST_HOSTS)]:
            path.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def keep_look(ctx: ToolContext, host: Host, facts: Flat, at: datetime) -> None:
    """Add a look to the history where one is kept; a disk that refuses it is told and stops nothing."""
    store: HistoryStore | None = ctx.cache.get(STORE)
    if store is None:
        return
    try:
        store.record(host.name, host.key_fingerprint, facts, at)
    except OSError as error:
        ctx.progress(f"the look at {host.name} is not kept: {error.strerror}")


def read(path: Path) -> Past:
    """Return what a file holds; a line that is damaged is told and ends the state above it."""
    past = Past()
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Past(whole=False)
    except OSError as error:
        return Past(problems=[f"{path}: cannot be read: {error.strerror}"], whole=False)
    state: State | None = None
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            state = _next(past, state, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            past.problems.append(f"{path}:{number}: the line is damaged; the next whole state counts again")
            state = None
    past.whole = state is not None and data.endswith(b"\n")
    return past


def _next(past: Past, state: State | None, line: dict[str, Any]) -> State | None:
    """Take one line in and return the state that stands after it."""
    if "full" in line:
        facts = {str(name): str(value) for name, value in line["full"].items()}
        return _added(past, State(str(line["host"]), _moment(line["at"]), _moment(line["at"]), facts))
    if state is None:
        return None  # what it would change is not known
    if "seen" in line:
        seen = max(state.last, _moment(line["seen"]))
        past.states[-1] = State(state.host, state.first, seen, state.facts)
        return past.states[-1]
    facts = dict(state.facts)
    for name in line["unset"]:
        facts.pop(name, None)
    facts |= {str(name): str(value) for name, value in line["set"].items()}
    return _added(past, State(state.host, _moment(line["at"]), _moment(line["at"]), facts))


def _added(past: Past, state: State) -> State:
    past.states.append(state)
    return state


def _is_of(past: Past, host: str) -> bool:
    return bool(past.states) and past.states[-1].host == host


def merged(before: Mapping[str, str], now: Flat) -> Flat:
    """Return the facts after a look: parts that it did not ask for stay, moments told otherwise too."""
    looked = {part_of(name) for name in now}
    kept = {name: value for name, value in before.items() if part_of(name) not in looked}
    return kept | {name: settled(name, before.get(name), value) for name, value in now.items()}


def _write(path: Path, last: State | None, facts: Flat, host: str, at: datetime, past: Past) -> None:
    if last is None:
        begin = b"\n" if path.exists() and not path.read_bytes().endswith(b"\n") else b""
        _append(path, begin + _full(host, at, facts))
        return
    now = merged(last.facts, facts)
    if now == last.facts and host == last.host:
        _mark_seen(path, at)
    elif host != last.host or len(past.states) % _FULL_EVERY == 0:
        _append(path, _full(host, at, now))
    else:
        _append(path, _delta(last.facts, now, at))


def _full(host: str, at: datetime, facts: Flat) -> bytes:
    return _line({"v": 1, "at": _text(at), "host": host, "full": facts})


def _delta(before: Flat, now: Flat, at: datetime) -> bytes:
    changed = {name: value for name, value in now.items() if before.get(name) != value}
    return _line({"at": _text(at), "set": changed, "unset": [name for name in before if name not in now]})


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace") + b"\n"


def _seen(at: datetime) -> bytes:
    return _line({"seen": _text(at)})


def _mark_seen(path: Path, at: datetime) -> None:
    """Add until when the last state held, over the last line where that says the same of an earlier look."""
    line = _seen(at)
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(line)))
        over = file.read().startswith(b'{"seen": ')
        file.seek(size - len(line) if over else size)
        file.write(line)


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _compact(path: Path, now: datetime) -> None:
    """Write the file anew: of old days one state each, and the oldest left out until it is half as large."""
    thinned: dict[object, State] = {}
    for number, state in enumerate(read(path).states):
        old = (now - state.first).days >= KEEP_ALL_DAYS
        thinned[state.first.date() if old else number] = state
    lines: list[bytes] = []
    size = 0
    newest_first = list(reversed(thinned.values()))
    for place, state in enumerate(newest_first):
        older = newest_first[place + 1] if place + 1 < len(newest_first) else None
        whole = _full(state.host, state.first, state.facts)
        small = older is not None and older.host == state.host and place % _FULL_EVERY != _FULL_EVERY - 1
        line = (_delta(older.facts, state.facts, state.first) if older and small else whole) + _seen(
            state.last
        )
        ends = size + len(line) + len(whole) > COMPACT_AT // 2 and place > 0
        lines.append(whole + _seen(state.last) if ends else line)
        size += len(line)
        if ends:
            break
    draft = path.with_suffix(".draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"".join(reversed(lines)))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _text(moment: datetime) -> str:
    """Return a moment as text of one length, so that one can be written over another."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
