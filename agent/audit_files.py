"""The files of an audit: the chain of records, the head that says where it ends, and the lock on both."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.audit_record import FIRST, Broken, read
from agent.whole_file import put_whole

CURRENT = "audit.jsonl"
HEAD = "head"
INSTALLATION = "installation"
_LONGEST = 1 << 16
"""Bytes of a record at most: what is long in it is replaced by its digest before."""


@dataclass(frozen=True, slots=True)
class Tip:
    """Name the last record: its number and hash, and the last number that waited for the disk."""

    seq: int = 0
    hash: str = FIRST
    synced: int = 0


def files_of(folder: Path) -> list[Path]:
    """Return the files of a chain in their order; the one that is written to is the last."""
    current = folder / CURRENT
    return [*sorted(folder.glob("audit-*.jsonl")), *([current] if current.exists() else [])]


def read_head(folder: Path) -> Tip | None:
    """Return what the head says; None when there is none or it cannot be read."""
    try:
        seq, digest, synced = (folder / HEAD).read_text().split()
        return Tip(int(seq), digest, int(synced))
    except (OSError, ValueError):
        return None


def last_line(descriptor: int) -> tuple[bytes | None, bytes]:
    """Return the last whole line of a file, and the bytes after it that have no end."""
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, _LONGEST, max(0, size - _LONGEST))
    whole, newline, torn = tail.rpartition(b"\n")
    return (whole.rpartition(b"\n")[2] if newline else None), torn


class Chain:
    """Append lines to the file of a chain, whole or not at all; every call holds the lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / CURRENT
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._known: tuple[int, int] | None = None
        self.tip = Tip()
        self.torn = b""
        """What the last one who died left without an end; the next record tells of it."""
        with contextlib.ExitStack() as opened:  # what fails half way leaves no descriptor behind
            self._lock = self._kept(folder / "lock", opened)
            self._head = self._kept(folder / HEAD, opened)
            self._file = self._opened()
            opened.callback(lambda: os.close(self._file))
            if fresh:
                sync_folder(folder)
            with self.locked():
                self.installation = self._installation()
            opened.pop_all()

    @staticmethod
    def _kept(path: Path, opened: contextlib.ExitStack) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        opened.callback(os.close, descriptor)
        return descriptor

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the chain alone; what others wrote meanwhile is known inside."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self._catch_up()
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def append(self, line: bytes, digest: str, *, durable: bool) -> None:
        """Write the next line, and wait for the disk when it is ``durable``; raise `OSError`."""
        size = os.fstat(self._file).st_size
        start = b"\n" if self.torn else b""
        data = start + line + b"\n"
        try:
            if os.write(self._file, data) != len(data):
                raise OSError(28, "No space left on device")
            if durable:
                os.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
            self._known = None
            raise
        self.torn = b""
        seq = self.tip.seq + 1
        self.tip = Tip(seq, digest, seq if durable else self.tip.synced)
        self._known = (os.fstat(self._file).st_ino, size + len(data))
        with contextlib.suppress(OSError):  # it may lag: what stands in the file counts
            os.pwrite(self._head, b"%012d %s %012d\n" % (seq, digest.encode(), self.tip.synced), 0)

    def rotate(self, first: int) -> None:
        """Set the file aside under the number of its first record; the chain goes on in a new one."""
        os.fsync(self._file)
        self.path.rename(self.folder / f"audit-{first:012d}.jsonl")
        self._reopen()
        sync_folder(self.folder)

    def size(self) -> int:
        """Return how large the file is."""
        return os.fstat(self._file).st_size

    def first_seq(self) -> int:
        """Return the number of the first record in the file."""
        start = os.pread(self._file, _LONGEST, 0).partition(b"\n")[0]
        try:
            return read(start).seq
        except Broken:
            return self.tip.seq

    def close(self) -> None:
        """Close the files."""
        for descriptor in (self._file, self._head, self._lock):
            os.close(descriptor)

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _reopen(self) -> None:
        """Go on in the file that the name stands for now; where that fails, the old one is still ours."""
        old, self._file = self._file, self._opened()
        self._known = None
        os.close(old)

    def _catch_up(self) -> None:
        """Learn where the chain ends now, unless it ends where we left it."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            found = None
        if found is None or os.fstat(self._file).st_ino != found.st_ino:
            self._reopen()
            found = os.fstat(self._file)
        if self._known == (found.st_ino, found.st_size):
            return
        line, self.torn = last_line(self._file)
        tip = _tip_of(line) or self._tip_of_older()
        head = read_head(self.folder)
        # A head that is ahead tells that records are gone: the gap is kept, so that it is found.
        self.tip = head if head is not None and head.seq >= tip.seq else Tip(tip.seq, tip.hash, 0)
        self._known = (found.st_ino, found.st_size)

    def _tip_of_older(self) -> Tip:
        older = [path for path in files_of(self.folder) if path != self.path]
        if not older:
            return Tip()
        descriptor = os.open(older[-1], os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _tip_of(last_line(descriptor)[0]) or Tip()
        finally:
            os.close(descriptor)

    def _installation(self) -> str:
        path = self.folder / INSTALLATION
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            pass
        name = secrets.token_hex(16)
        put_whole(path, f"{name}\n".encode())
        return path.read_text().strip()  # another process may have been first


def _tip_of(line: bytes | None) -> Tip | None:
    if not line:
        return None
    try:
        record = read(line)
    except Broken:
        return None
    return Tip(record.seq, record.hash)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
