"""Let one investigation at a time change a host, for as long as its process lives."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.errors import LeadlineError
from agent.whole_file import private_folder


class HostBusy(LeadlineError):
    """Report a host that another investigation is changing."""


@contextmanager
def host_lock(state_dir: Path, host: str, key: str | None) -> Iterator[None]:
    """Hold the lock of a host, known by its key where it has one; raise `HostBusy` when another does."""
    folder = state_dir / "hosts"
    private_folder(folder)
    name = hashlib.sha256((key or host).encode()).hexdigest()[:32]
    descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HostBusy(
                f"another investigation is changing {host}", do="wait until it is done, then resume"
            ) from error
        yield
    finally:
        os.close(descriptor)
