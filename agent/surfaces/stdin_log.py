"""Take a log from standard input, bounded, and never wait for one that does not come."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tools.contract import Capture

FIRST_S = 3.0
"""How long the first byte is waited for: a pipe that nobody writes to may stay open for ever."""

SILENT_S = 20.0
"""How long a log that has begun may be silent before what came is taken for all of it."""

LONGEST_S = 120.0
HEAD = TAIL = 4 << 20
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Log:
    """Hold what came, and why it is not all, where it is not."""

    captured: Capture
    why_cut: str = ""


@dataclass(slots=True)
class _Ends:
    """Keep the head and the tail of a stream."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def take(self, data: bytes) -> None:
        self.total += len(data)
        free = HEAD - len(self.head)
        self.head += data[:free]
        self.tail += data[free:]
        if len(self.tail) > TAIL + _CHUNK * 8:
            del self.tail[:-TAIL]

    def capture(self) -> Capture:
        return Capture(bytes(self.head), bytes(self.tail[-TAIL:]), self.total)


def may_hold_a_log() -> bool:
    """Tell whether standard input is something that a log can come through: no terminal, and no device."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def read_log(
    say: Callable[[str], None], descriptor: int | None = None, *, first_s: float = FIRST_S
) -> Log | None:
    """Return the log on standard input; None when nothing comes through it."""
    source = sys.stdin.fileno() if descriptor is None else descriptor
    ends = _Ends()
    until = time.monotonic() + LONGEST_S
    wait_s = first_s
    while True:
        ready, _, _ = select.select([source], [], [], wait_s)
        if not ready:
            if not ends.total:
                say(f"nothing came on standard input within {first_s:g} s; going on without a log")
                return None
            return _cut(ends, f"standard input was silent for {wait_s:g} s and is still open", say)
        data = os.read(source, _CHUNK)
        if not data:
            break
        ends.take(data)
        wait_s = SILENT_S
        if time.monotonic() > until:
            return _cut(ends, f"standard input had no end within {LONGEST_S:g} s", say)
    return Log(ends.capture()) if ends.total else None


def _cut(ends: _Ends, why: str, say: Callable[[str], None]) -> Log:
    say(f"{why}; going on with the {ends.total:,} bytes that came")
    return Log(ends.capture(), why)
