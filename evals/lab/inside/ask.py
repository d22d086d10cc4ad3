"""Ask process 1 from another process of the sandbox, as the stand-ins do."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

from evals.lab.inside.control import SOCKET

_HEADER = struct.Struct("!cI")


def ask(words: Sequence[str]) -> tuple[int, str, str]:
    """Run a command of process 1; return its exit code and what it printed."""
    said: dict[bytes, bytes] = {b"1": b"", b"2": b""}
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(SOCKET)
        request = "\0".join(words).encode("utf-8", "surrogateescape")
        link.sendall(len(request).to_bytes(4, "big") + request)
        with link.makefile("rb") as stream:
            while True:
                kind, size = _HEADER.unpack(stream.read(_HEADER.size))
                data = stream.read(size)
                if kind == b"x":
                    return data[0], said[b"1"].decode(), said[b"2"].decode()
                said[kind] += data


def described(invocation: str) -> dict[str, Any] | None:
    """Return what process 1 knows of the described service with this start; None when there is none."""
    if not invocation:
        return None
    code, out, _ = ask(["lab-described", invocation])
    facts: dict[str, Any] | None = json.loads(out) if not code else None
    return facts
