"""A pseudo-terminal with a program in it, for tests that type and read."""

from __future__ import annotations

import contextlib
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

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>()][0-9A-Za-z]?)")
_COLUMNS, _ROWS = 160, 40

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"


class Terminal:
    """Type to a program and read what it shows; every wait is bounded."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], *, columns: int = _COLUMNS
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
        own = ["setsid", "--ctty", *argv]
        self.process = subprocess.Popen(own, stdin=slave, stdout=slave, stderr=slave, env=environment)
        self._path = os.ttyname(slave)
        os.close(slave)
        self.raw = ""
        self._seen = 0
        self._gone = False

    @property
    def text(self) -> str:
        """Return all that was shown, without what moves or colours it."""
        return _ESCAPES.sub("", self.raw).replace("\r", "")

    def type(self, text: str, *, enter: bool = True) -> None:
        """Press keys."""
        os.write(self._master, (text + (ENTER if enter else "")).encode())

    def expect(self, text: str, timeout_s: float = 30.0) -> str:
        """Wait until a text is shown, after the one that was waited for before; return all in between."""
        until = time.monotonic() + timeout_s
        while (place := self.text.find(text, self._seen)) < 0:
            left = until - time.monotonic()
            assert left > 0 and self._read(left), f"{text!r} was not shown:\n{self.text[self._seen :]}"
        between = self.text[self._seen : place]
        self._seen = place + len(text)
        return between

    def ends(self, timeout_s: float = 30.0) -> int:
        """Wait for the end of the program; return its exit code."""
        until = time.monotonic() + timeout_s
        while self._read(max(0.0, until - time.monotonic())):
            assert time.monotonic() < until, f"does not end:\n{self.text[-2000:]}"
        return self.process.wait(timeout_s)

    @property
    def echoes(self) -> bool:
        """Tell whether the terminal shows what is typed, as it did before the program."""
        slave = os.open(self._path, os.O_RDWR | os.O_NOCTTY)
        try:
            return bool(termios.tcgetattr(slave)[3] & termios.ECHO)
        finally:
            os.close(slave)

    def close(self) -> None:
        """Kill what still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if not self._gone:
            os.close(self._master)

    def hang_up(self) -> None:
        """Let the terminal go away, as when its window is closed; nothing more can be written to it."""
        self._gone = True
        os.close(self._master)

    def _read(self, timeout_s: float) -> bool:
        """Take in what is shown next; False at the end."""
        ready, _, _ = select.select([self._master], [], [], timeout_s)
        if not ready:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)


def environment(state: str, **more: str) -> dict[str, str]:
    """Return an environment for programs under test: a terminal that tells no position, state of its own."""
    own = {
        "TERM": "xterm-256color",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "LEADLINE_STATE_DIR": state,
        "PAGER": "cat",
    }
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}  # noqa: TID251
    return {**kept, **own, **more}


@contextlib.contextmanager
def typing(argv: Sequence[str], environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Run a program in a terminal for the time of the block."""
    terminal = Terminal(argv, environment)
    try:
        yield terminal
    finally:
        terminal.close()
