"""The files of an audit: the chain of records, the head that says where it ends, and the lock on both."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent.audit_record import FIRST, Broken, read
from agent.whole_file import private_folder, put_whole

CURRENT = "audit.jsonl"
HEAD = "head"
INSTALLATION = "installation"
LOCK_S = 5.0
"""For how long another process is waited for that holds the chain."""
_LONGEST = 1 << 16
"""Bytes of a record at most: what is long in it is replaced by its digest before."""


@dataclass(frozen=True, slots=True)
class Tip:
    """Name the last record: its number and hash, the last number that waited for the disk, and the boot."""

    seq: int = 0
    hash: str = FIRST
    synced: int = 0
    boot: str = ""


def files_of(folder: Path) -> list[Path]:
    """Return the files of a chain in their order; the one that is written to is the last."""
    current = folder / CURRENT
    return [*sorted(folder.glob("audit-*.jsonl")), *([current] if current.exists() else [])]


def read_head(folder: Path) -> Tip | None:
    """Return what the head says; None when there is none or it cannot be read."""
    try:
        seq, digest, synced, *boot = (folder / HEAD).read_text().split()
        return Tip(int(seq), digest, int(synced), "".join(boot))
    except (OSError, ValueError):
        return None


@lru_cache
def this_boot() -> str:
    """Return what names the time since this machine was started; empty where it cannot be told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def last_lines(descriptor: int) -> tuple[list[bytes], bytes]:
    """Return the last whole lines of a file, and the bytes after them that have no end."""
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, _LONGEST, max(0, size - _LONGEST))
    *lines, torn = tail.split(b"\n")
    return lines, torn


class Chain:
    """Append lines to the file of a chain, whole or not at all; every call holds the lock."""

    def __init__(self, folder: Path, wait_s: float = LOCK_S) -> None:
        self.folder = folder
        self.path = folder / CURRENT
        fresh = not folder.exists()
        private_folder(folder)
        self._known: tuple[int, int] | None = None
        self.tip = Tip()
        self.torn = b""
        """What the last one who died left without an end; the next record tells of it."""
        self.lost = ""
        """Which records a restart of the machine took, none of which had waited for the disk; told next."""
        with contextlib.ExitStack() as opened:  # what fails half way leaves no descriptor behind
            self._lock = self._kept(folder / "lock", opened)
            self._head = self._kept(folder / HEAD, opened)
            self._file = self._opened()
            opened.callback(lambda: os.close(self._file))
            if fresh:
                sync_folder(folder)
            with self.locked(wait_s):
                self.installation = self._installation()
            opened.pop_all()

    @staticmethod
    def _kept(path: Path, opened: contextlib.ExitStack) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        opened.callback(os.close, descriptor)
        return descriptor

    @contextmanager
    def locked(self, wait_s: float = LOCK_S) -> Iterator[None]:
        """Hold the chain alone; what others wrote meanwhile is known inside. Raise `OSError` after a while.

        Who holds it may hang, with a copy or stopped by somebody: nobody waits for that without end.
        """
        until, pause = time.monotonic() + wait_s, 0.0005
        while not self._is_taken():
            if time.monotonic() > until:
                raise OSError(110, f"another process has held the audit for {wait_s:g} s")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        try:
            self._catch_up()
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

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
        self.torn, self.lost = b"", ""
        seq = self.tip.seq + 1
        self.tip = Tip(seq, digest, seq if durable else self.tip.synced)
        self._known = (os.fstat(self._file).st_ino, size + len(data))
        with contextlib.suppress(OSError):  # it may lag: what stands in the file counts
            head = f"{seq:012d} {digest} {self.tip.synced:012d} {this_boot():36}\n"
            os.pwrite(self._head, head.encode(), 0)

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
        lines, self.torn = last_lines(self._file)
        tip = _tip_of(lines) or self._tip_of_older()
        head = read_head(self.folder)
        # A head that is ahead tells that records are gone: the gap is kept, so that it is found.
        self.tip = head if head is not None and head.seq >= tip.seq else Tip(tip.seq, tip.hash, 0)
        self.lost = lost_by_restart(head, tip.seq) if head is not None else ""
        self._known = (found.st_ino, found.st_size)

    def _tip_of_older(self) -> Tip:
        older = [path for path in files_of(self.folder) if path != self.path]
        if not older:
            return Tip()
        descriptor = os.open(older[-1], os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _tip_of(last_lines(descriptor)[0]) or Tip()
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


def lost_by_restart(head: Tip, last: int) -> str:
    """Return which records are gone after a file's last one, where a restart of the machine explains it all.

    It does when the head was written before this machine was started and nothing that is gone had waited for
    the disk. Empty when nothing is gone, or when somebody else has to explain it.
    """
    restarted = bool(head.boot) and bool(this_boot()) and head.boot != this_boot()
    return f"{last + 1} to {head.seq}" if head.seq > last >= head.synced and restarted else ""


def _tip_of(lines: Sequence[bytes]) -> Tip | None:
    try:
        record = read(lines[-1] if lines else b"")
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
