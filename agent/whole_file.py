"""Put a file into the state folder whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for its owner alone.

    `Path.mkdir` gives its mode to the last one only, so the state folder itself would be open to all.
    """
    missing = [folder, *folder.parents]
    for one in reversed([path for path in missing if not path.exists()]):
        one.mkdir(mode=0o700, exist_ok=True)


def put_whole(path: Path, data: bytes) -> None:
    """Put a file there that only its owner reads, whole at once, unless another process was first.

    It is closed before it has its name: closing a database's file lets go of the locks that this process
    holds on it, so it is never opened by hand under that name.
    """
    private_folder(path.parent)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
