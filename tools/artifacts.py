"""Keep raw outputs on disk by their sha256."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class ArtifactStore:
    """Store bytes once each, under their digest; safe for several processes at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str) -> Path:
        """Return where the bytes of a digest lie; refuse anything that is not a digest."""
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise ValueError(f"not a sha256: {sha256!r}")
        return self.root / sha256

    def put(self, data: bytes) -> str:
        """Write ``data`` unless it is there, and return its sha256."""
        digest = hashlib.sha256(data).hexdigest()
        target = self.path(digest)
        if target.exists():
            return digest
        new = self.root / f".new-{digest[:8]}-{os.getpid()}-{threading.get_ident()}"
        try:
            descriptor = os.open(new, _NEW, 0o600)
        except FileNotFoundError:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(new, _NEW, 0o600)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as out:
                view = memoryview(data)
                while view:
                    view = view[out.write(view) :]
            new.rename(target)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        return digest

    def get(self, sha256: str) -> bytes:
        """Return the bytes of a digest; raise `KeyError` when absent, `ValueError` when changed on disk."""
        try:
            data = self.path(sha256).read_bytes()
        except FileNotFoundError as error:
            raise KeyError(sha256) from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"artifact {sha256[:12]} was changed on disk")
        return data
