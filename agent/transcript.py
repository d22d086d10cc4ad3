"""Write and read transcripts: append-only JSONL, one event a line, the only truth about an investigation."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from agent.errors import ThreadGone, TranscriptError, UsageError
from agent.events import (
    SCHEMA_VERSION,
    BudgetUsed,
    ChangeMoved,
    ConclusionChecked,
    Event,
    EvidenceAdded,
    HypothesisMoved,
    Started,
    ToolFinished,
    ToolStarted,
    TurnTaken,
    event_adapter,
)
from tools.contract import Redactor
from tools.wrong_fields import first_wrong

OURS = frozenset(
    {"sha256", "at", "taken_at", "id", "tool_call_id", "call", "handle", "artifact", "prompts", "state"}
    | {"digest", "interrupt", "preimage_sha256", "host_key"}
)
"""Fields of our own making, which must not be mistaken for secrets: digests, ids, times."""

_NOTHING_NEW = (ToolStarted, BudgetUsed)
"""Events that repeat what stands in the turn before, where it is redacted already."""

_LEDGER_EVENTS = (EvidenceAdded, HypothesisMoved, ChangeMoved, ConclusionChecked)
"""What one call of the ledger writes together with its result."""


def as_it_is(data: bytes) -> bytes:
    """Redact nothing: for a transcript of what was redacted when it was recorded."""
    return data


class Transcript:
    """Append events to one file and feed them to followers; a torn end of the file is dropped on open."""

    def __init__(self, path: Path, redact: Redactor, *, lasting: bool = True) -> None:
        """Open a transcript; one that is not ``lasting`` never waits for the disk."""
        self.path = path
        self._redact = redact
        self._lasting = lasting
        self._events: list[Event] = []
        self._followers: list[Callable[[Event], None]] = []
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._load()
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def events(self) -> Sequence[Event]:
        """Return all events so far, in order."""
        return self._events

    def follow(self, follower: Callable[[Event], None], *, replay: bool = True) -> None:
        """Give ``follower`` every event from now on as it is written, and first those written so far."""
        for event in self._events if replay else ():
            follower(event)
        self._followers.append(follower)

    def append(self, event: Event, *, durable: bool = False) -> Event:
        """Stamp, redact and write one event; return it as stored."""
        return self.append_all([event], durable=durable)[0]

    def append_all(self, events: Iterable[Event], *, durable: bool = False) -> list[Event]:
        """Write events that belong together in one piece; ``durable`` waits for the disk."""
        stored: list[Event] = []
        lines = bytearray()
        for event in events:
            place = {"seq": len(self._events) + len(stored), "at": datetime.now(UTC)}
            clean, line = self._clean(event.model_copy(update=place))
            stored.append(clean)
            lines += line
        self._write(lines, durable=durable)
        self._events += stored
        for event in stored:
            for follower in self._followers:
                follower(event)
        return stored

    def _write(self, lines: bytearray, *, durable: bool) -> None:
        """Write lines whole or not at all: after half of one, none that follows could be read."""
        size = os.fstat(self._descriptor).st_size
        if self._lasting:
            self._still_there()
        try:
            _write_all(self._descriptor, lines)
            if durable:
                self.sync()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise TranscriptError(
                f"cannot write {self.path}: {error.strerror}", do="make room there, then resume the thread"
            ) from error

    def _still_there(self) -> None:
        """Raise `ThreadGone` when the file has lost its name: what is written then is gone with it."""
        try:
            there = os.path.samestat(self.path.stat(), os.fstat(self._descriptor))
        except OSError:
            there = False
        if not there:
            raise ThreadGone(
                f"{self.path} was removed while its thread was at work; nothing more is recorded",
                do="ask again; leave the folders of threads to `leadline sessions rm`",
            )

    def sync(self) -> None:
        """Wait until everything written is on the disk."""
        if self._lasting:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Wait for the disk and close the file."""
        self.sync()
        os.close(self._descriptor)

    def _clean(self, event: Event) -> tuple[Event, bytes]:
        if self._redact is as_it_is and (plain := _line(event)) is not None:
            return event, plain
        data = clean = event.model_dump(mode="json")
        if not isinstance(event, _NOTHING_NEW):
            clean = mask(data, self._redact, keep=OURS)
        if clean is not data:
            event = event_adapter.validate_python(clean)
        line = json.dumps(clean, ensure_ascii=False, separators=(",", ":")) + "\n"
        return event, line.encode("utf-8", "replace")

    def _load(self) -> None:
        raw = self.path.read_bytes()
        self._events, size = _whole(raw, self.path)
        if size != len(raw):
            os.ftruncate(self._descriptor, size)


def _line(event: Event) -> bytes | None:
    """Return an event as its line; None when it holds half a surrogate pair, which is replaced elsewhere."""
    try:
        return event.model_dump_json().encode() + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        return None


def mask(value: Any, redact: Redactor, *, keep: frozenset[str] = frozenset()) -> Any:
    """Return ``value`` with every string in it redacted on its own, except in fields named in ``keep``.

    The very same object comes back when there is nothing to redact, which one pass over all of it tells.
    """
    text = "\n".join(_strings(value, keep)).encode("utf-8", "replace")
    return value if redact(text) == text else _masked(value, redact, keep)


def _masked(value: Any, redact: Redactor, keep: frozenset[str], field: str = "") -> Any:
    if field in keep:
        return value
    if isinstance(value, dict):
        return {key: _masked(item, redact, keep, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, redact, keep, field) for item in value]
    if not isinstance(value, str):
        return value
    if field == "arguments" and (parsed := _object_in(value)) is not None:
        try:
            clean = _masked(parsed, redact, frozenset())
            value = value if clean == parsed else json.dumps(clean, ensure_ascii=False)
        except RecursionError:
            pass  # Nested beyond reason: it is no call that could be carried out, and is masked as one text.
    # As a whole too: only beside its name does a value such as that of "api_key" look like a secret.
    return redact(value.encode("utf-8", "replace")).decode("utf-8", "replace")


def read_events(path: Path) -> list[Event]:
    """Return the events of a finished transcript; raise `TranscriptError` naming line and field."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise TranscriptError(f"cannot read {path}: {error.strerror}", do="name a transcript file") from error
    if not raw.endswith(b"\n"):
        raise TranscriptError(f"{path}: the last line is torn", do="resume its thread, which mends it")
    with not_collecting():
        return list(parse_lines(raw.split(b"\n")[:-1], path))


@contextlib.contextmanager
def not_collecting() -> Iterator[None]:
    """Keep the garbage collector away while many objects without cycles come to be."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def peek_events(path: Path) -> list[Event]:
    """Return the whole events of a transcript that may still be written to; never change the file."""
    return _whole(path.read_bytes(), path)[0]


def check_order(events: Sequence[Event], path: Path) -> None:
    """Raise `TranscriptError` when calls were not asked for, finished twice, or finished before a start."""
    asked: set[str] = set()
    started: set[str] = set()
    finished: set[str] = set()
    for event in events:
        where = f"{path}:{event.seq + 1}"
        if isinstance(event, TurnTaken):
            asked.update(call.id for call in event.tool_calls)
        elif isinstance(event, ToolStarted):
            started.add(event.tool_call_id)
            if event.tool_call_id not in asked:
                raise TranscriptError(f"{where}: tool_call_id: no turn asked for {event.tool_call_id}")
        elif isinstance(event, ToolFinished):
            if event.tool_call_id not in started:
                raise TranscriptError(f"{where}: tool_call_id: {event.tool_call_id} ended before it started")
            if event.tool_call_id in finished:
                raise TranscriptError(f"{where}: tool_call_id: {event.tool_call_id} ended twice")
            finished.add(event.tool_call_id)


def json_schema() -> str:
    """Return the JSON schema of one line, as kept in ``transcripts/schema.json``."""
    schema = event_adapter.json_schema(mode="serialization")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Leadline transcript, one line",
        "version": SCHEMA_VERSION,
    }
    return json.dumps({**head, **schema}, indent=1) + "\n"


def main(argv: Sequence[str]) -> int:
    """Serve ``python -m agent.transcript validate FILE...`` and ``... schema``; return the exit code."""
    match list(argv):
        case ["schema"]:
            sys.stdout.write(json_schema())
            return 0
        case ["validate", *files] if files:
            return max(_validate(Path(name)) for name in files)
        case _:
            sys.stderr.write("usage: python -m agent.transcript validate FILE... | schema\n")
            return int(UsageError.exit_code)


def _validate(path: Path) -> int:
    try:
        events = read_events(path)
        check_order(events, path)
    except TranscriptError as error:
        sys.stdout.write(f"{error}\n")
        return int(error.exit_code)
    sys.stdout.write(f"{path}: {len(events)} events, schema {SCHEMA_VERSION}, valid\n")
    return 0


def _whole(raw: bytes, path: Path) -> tuple[list[Event], int]:
    """Return the events before a torn end, and how many bytes they take."""
    lines = raw.split(b"\n")[:-1]
    if lines and _object_in(lines[-1]) is None:
        lines.pop()
    events = list(parse_lines(lines, path))
    del events[len(events) - _unfinished_tail(events) :]
    return events, sum(len(line) + 1 for line in lines[: len(events)])


def parse_lines(lines: Iterable[bytes | dict[str, Any]], path: Path) -> Iterator[Event]:
    """Yield the events of whole lines, or of what stands in them; `TranscriptError` names line and field."""
    from_json, from_python = event_adapter.validator.validate_json, event_adapter.validator.validate_python
    for number, line in enumerate(lines, 1):
        if number == 1:
            _refuse_newer(line, f"{path}:1")
        try:
            event: Event = from_json(line) if isinstance(line, bytes) else from_python(line)
        except ValidationError as error:
            raise TranscriptError(f"{path}:{number}: {first_wrong(error, 'line', below=1).text}") from error
        if event.seq != number - 1:
            raise TranscriptError(f"{path}:{number}: seq: {event.seq} where {number - 1} was due")
        if isinstance(event, Started) != (number == 1):
            raise TranscriptError(f"{path}:{number}: type: a transcript has one `started`, on its first line")
        yield event


def _refuse_newer(line: bytes | dict[str, Any], where: str) -> None:
    first = line if isinstance(line, dict) else _object_in(line) or {}
    version = first.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise TranscriptError(
            f"{where}: schema_version: {version} is newer than {SCHEMA_VERSION}", do="use a newer leadline"
        )


def _unfinished_tail(events: Sequence[Event]) -> int:
    """Count the events at the end that a ledger call wrote before it was cut off; it is done again whole."""
    count = 0
    while count < len(events) and isinstance(events[-1 - count], _LEDGER_EVENTS):
        count += 1
    return count


def _strings(value: Any, keep: frozenset[str], field: str = "") -> Iterator[str]:
    if field in keep:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, keep, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item, keep, field)


def _object_in(text: str | bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _write_all(descriptor: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
