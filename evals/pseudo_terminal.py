"""A program in a pseudo-terminal, for measuring: what it shows, with the moment at which each piece came."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>()][0-9A-Za-z]?)")
_COLUMNS, _ROWS = 200, 50


class PseudoTerminal:
    """Type to a program and note when what it shows arrives."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        own = ["setsid", "--ctty", *argv]
        self._process = subprocess.Popen(own, stdin=slave, stdout=slave, stderr=slave, env=dict(environment))
        os.close(slave)
        self._pieces: list[tuple[float, str]] = []

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Kill what still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """Return all that was shown, without what moves or colours it."""
        return _ESCAPES.sub("", "".join(piece for _, piece in self._pieces)).replace("\r", "")

    @property
    def first_at(self) -> float:
        """Return when the first piece came."""
        return self._pieces[0][0]

    def arrivals(self) -> Iterator[tuple[float, str]]:
        """Yield, for each piece, when it came and the end of what was shown by then."""
        shown = ""
        for at, piece in self._pieces:
            shown = (shown + piece)[-4000:]
            yield at, _ESCAPES.sub("", shown).replace("\r", "")

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def echo_of(self, key: str, timeout_s: float = 10.0) -> float:
        """Press a key; return the seconds until it is shown."""
        began = time.monotonic()
        self.type(key)
        while self._read(began + timeout_s):
            if key in _ESCAPES.sub("", self._pieces[-1][1]) or key == " ":
                return self._pieces[-1][0] - began
        raise TimeoutError(f"{key!r} was not echoed")

    def until(self, text: str, timeout_s: float = 60.0) -> None:
        """Read until a text was shown."""
        end = time.monotonic() + timeout_s
        while text not in self.text:
            if not self._read(end):
                raise TimeoutError(f"{text!r} was not shown:\n{self.text[-2000:]}")

    def read_for(self, seconds: float) -> None:
        """Take in what comes in so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read(end)

    def wait(self, timeout_s: float = 30.0) -> int:
        """Read to the end of the program; return its exit code."""
        end = time.monotonic() + timeout_s
        while self._read(end):
            pass
        return self._process.wait(timeout_s)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            return False
        self._pieces.append((time.monotonic(), data.decode(errors="replace")))
        return bool(data)
