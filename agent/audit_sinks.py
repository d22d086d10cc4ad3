"""Copies of the audit: a file elsewhere, brought up to date after an outage, and the system's log."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from agent.audit_files import files_of, last_line
from agent.audit_record import Broken, read
from agent.audit_settings import SOCKETS, AuditSettings, SystemLog

_TAG = "leadline-audit"
_PRIORITY = 13 * 8 + 6
"""Facility "log audit", severity "informational", as RFC 5424 counts them."""
_PATIENCE_S = 1.0


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
    return copies


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
            last, size = self._last(descriptor)
            data = b"".join(one + b"\n" for one in _between(self._folder, last, seq)) + line + b"\n"
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

    def _last(self, descriptor: int) -> tuple[int | None, int]:
        """Return the number of the last record that the copy holds, and its size; None: it holds none."""
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
            return None, 0
        if self._known is not None and self._known[:2] == (found.st_ino, found.st_size):
            return self._known[2], found.st_size
        line, torn = last_line(descriptor)
        try:
            record = read(line or b"")
        except Broken as error:
            raise OSError(22, f"holds something else at its end: it {error}", self.name) from error
        if torn:
            os.ftruncate(descriptor, found.st_size - len(torn))
        if record.installation != self._installation:
            raise OSError(22, "belongs to another installation", self.name)
        return record.seq, found.st_size


def _between(folder: Path, last: int | None, seq: int) -> Iterator[bytes]:
    """Return the lines of the chain after one record and before another; none where the copy is new."""
    if last is None or last >= seq - 1:
        return
    for path in files_of(folder):
        for line in path.read_bytes().split(b"\n"):
            try:
                found = read(line).seq
            except Broken:
                continue
            if last < found < seq:
                yield line


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
