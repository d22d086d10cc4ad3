"""Copies of the audit: a file elsewhere, brought up to date after an outage, and the system's log."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent.audit_files import files_of, last_lines
from agent.audit_record import SEQ, AuditRecord, Broken, read
from agent.audit_settings import SOCKETS, AuditSettings, SystemLog

_TAG = "leadline-audit"
_PRIORITY = 13 * 8 + 6
"""Facility "log audit", severity "informational", as RFC 5424 counts them."""
_PATIENCE_S = 1.0
HANGS_S = 5.0
"""For how long a copy may take a record."""
_MOST_TORN = 8
"""Unfinished lines at the end of a copy that are passed over: one for each failure in a row."""


class Sink(Protocol):
    """Take a copy of every record."""

    name: str

    def write(self, seq: int, line: bytes, *, durable: bool) -> None:
        """Take one sealed line; raise `OSError` when it cannot be kept."""
        ...

    def close(self) -> None:
        """Let go of what is held open."""
        ...


def sinks_of(settings: AuditSettings, folder: Path, installation: str) -> list[Sink]:
    """Return the copies that a site asks for."""
    copies: list[Sink] = [CopyFile(path, folder, installation) for path in settings.copy_to]
    if settings.syslog != "off":
        path = settings.syslog_socket or SOCKETS[settings.syslog]
        copies.append(SystemLogSocket(path, settings.syslog))
    return [BoundedSink(copy) for copy in copies]


class BoundedSink:
    """Wait for a copy for a bounded time: a mount whose server is gone holds whoever writes to it for ever.

    The copy is written in a thread of its own, which a process that ends does not wait for. While that hangs,
    the copy counts as down at once; when it comes back, its next record brings it up to date.
    """

    def __init__(self, sink: Sink, patience_s: float = HANGS_S) -> None:
        self.name = sink.name
        self._sink = sink
        self._patience_s = patience_s
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: _Job | None = None

    def write(self, seq: int, line: bytes, *, durable: bool) -> None:
        """Take one sealed line; raise `OSError` when it is not kept in time."""
        if self._last is not None and not self._last.done.is_set():
            raise OSError(110, "has not answered yet", self.name)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name=f"audit {self.name}", daemon=True)
            self._thread.start()
        job = self._last = _Job(seq, line, durable)
        self._jobs.put(job)
        if not job.done.wait(self._patience_s):
            raise OSError(110, f"does not answer within {self._patience_s:g} s", self.name)
        if job.failed is not None:
            raise job.failed

    def close(self) -> None:
        """Close the copy; one that hangs is left to the end of the process."""
        if self._thread is not None:
            self._jobs.put(_Job(0, b"", durable=False, ends=True))
            if self._last is None or self._last.done.is_set():
                self._thread.join(self._patience_s)
            self._thread = None

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job.ends:
                self._sink.close()
                return
            try:
                self._sink.write(job.seq, job.line, durable=job.durable)
                job.failed = None
            except OSError as error:
                job.failed = error
            finally:
                job.done.set()


@dataclass(slots=True)
class _Job:
    """Hold one line on its way to a copy, and what became of it."""

    seq: int
    line: bytes
    durable: bool
    ends: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    failed: OSError | None = field(default_factory=lambda: OSError(5, "the line was not written"))


class CopyFile:
    """Append every record to a second file; its folder must be there already, since it may be a mount."""

    def __init__(self, path: Path, folder: Path, installation: str) -> None:
        self.name = str(path)
        self._path = path
        self._folder = folder
        self._installation = installation
        self._known: tuple[int, int, int] | None = None

    def write(self, seq: int, line: bytes, *, durable: bool) -> None:
        """Append the line, and before it those that were missed while the file could not be written."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        try:
            last, size, torn = self._last(descriptor)
            missed = b"".join(one + b"\n" for one in _between(self._folder, last, seq))
            data = (b"\n" if torn else b"") + missed + line + b"\n"
            if os.write(descriptor, data) != len(data):
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise OSError(28, "No space left on device", self.name)
            if durable and stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fsync(descriptor)
            found = os.fstat(descriptor)
            self._known = (found.st_ino, found.st_size, seq)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Do nothing: the file is opened for each record, so that a mount can go and come."""

    def _last(self, descriptor: int) -> tuple[int | None, int, bool]:
        """Return the number of the copy's last record, if any, its size, and whether a torn line stays."""
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
            return None, 0, False
        if self._known is not None and self._known[:2] == (found.st_ino, found.st_size):
            return self._known[2], found.st_size, False
        lines, torn = last_lines(descriptor)
        try:
            record = _last_record(lines)
        except Broken as error:
            raise OSError(22, f"holds something else at its end: it {error}", self.name) from error
        if record.installation != self._installation:
            raise OSError(22, "belongs to another installation", self.name)
        size = found.st_size
        if torn:
            try:
                os.ftruncate(descriptor, size - len(torn))
            except (
                PermissionError
            ):  # a file that can only be added to: the next line starts after the torn one
                return record.seq, size, True
            size -= len(torn)
        return record.seq, size, False


def _last_record(lines: Sequence[bytes]) -> AuditRecord:
    """Return the last record of some lines; beginnings of lines that were never finished are passed over."""
    for line in reversed(lines[-_MOST_TORN:]):
        if line.endswith(b"}") or not b'{"seq":'.startswith(line[:7]):
            return read(line)
    return read(b"")


def _between(folder: Path, last: int | None, seq: int) -> Iterator[bytes]:
    """Return the lines of the chain after one record and before another; none where the copy is new."""
    if last is None or last >= seq - 1:
        return
    files = files_of(folder)
    starts = [_first_seq(path) for path in files]
    first = max((at for at, start in enumerate(starts) if start is not None and start <= last + 1), default=0)
    for path in files[first:]:
        for line in path.read_bytes().split(b"\n"):
            found = SEQ.match(line)
            if found is None or not last < int(found[1]) < seq:
                continue
            with contextlib.suppress(Broken):
                read(line)
                yield line


def _first_seq(path: Path) -> int | None:
    with path.open("rb") as file:
        found = SEQ.match(file.read(40))
    return int(found[1]) if found else None


class SystemLogSocket:
    """Send every record to the socket of syslog or of journald."""

    def __init__(self, path: Path, kind: SystemLog) -> None:
        self.name = f"{kind} at {path}"
        self._path = path
        self._kind = kind
        self._socket: socket.socket | None = None

    def write(self, seq: int, line: bytes, *, durable: bool) -> None:
        """Send one record; a log that was started anew is connected to again."""
        message = self._message(seq, line)
        if self._socket is not None:
            try:
                self._socket.send(message)
            except OSError:
                self._socket.close()
                self._socket = None
            else:
                return
        link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            link.settimeout(_PATIENCE_S)
            link.connect(str(self._path))
            link.send(message)
        except OSError:
            link.close()
            raise
        self._socket = link

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _message(self, seq: int, line: bytes) -> bytes:
        if self._kind == "journald":
            head = f"PRIORITY=6\nSYSLOG_IDENTIFIER={_TAG}\nLEADLINE_SEQ={seq}\nMESSAGE="
            return head.encode() + line + b"\n"
        return f"<{_PRIORITY}>{_TAG}[{os.getpid()}]: ".encode() + line
