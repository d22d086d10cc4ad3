"""A program in a real tmux, for tests that type and look at the screen; every wait is bounded."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

need_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is absent: apt-get install tmux")


class Pane:
    """Press keys in one pane and read what it shows."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]

    def begin(self, argv: Sequence[str], environment: Mapping[str, str], size: tuple[int, int]) -> None:
        """Start the program on a screen of so many columns and rows; what it exits with stays to be seen."""
        command = f"{shlex.join(argv)}; echo exit=$?; sleep 60"
        own = ["-x", str(size[0]), "-y", str(size[1])]
        env = {**environment, "TERM": "xterm-256color"}
        self._run("new-session", "-d", "-s", "it", *own, command, env=env)
        self._run("set-option", "-g", "history-limit", "5000")

    def keys(self, *names: str) -> None:
        """Press keys by their tmux names, such as ``Enter``, ``C-c`` or ``M-Enter``."""
        self._run("send-keys", "-t", "it", *names)

    def type(self, text: str) -> None:
        """Type a text and press Enter."""
        self._run("send-keys", "-t", "it", "-l", text)
        self.keys("Enter")

    def screen(self, *, history: bool = False, colours: bool = False) -> list[str]:
        """Return the rows that are shown, or all that can be scrolled back to."""
        more = [*(["-S", "-"] if history else []), *(["-e"] if colours else [])]
        return self._run("capture-pane", "-p", "-t", "it", *more).rstrip().splitlines()

    def wait(self, text: str, timeout_s: float = 30.0, *, history: bool = False) -> list[str]:
        """Wait until a text is shown; return the rows of that moment."""
        until = time.monotonic() + timeout_s
        while True:
            rows = self.screen(history=history)
            if any(text in row for row in rows):
                return rows
            if time.monotonic() > until:
                pytest.fail("\n".join([f"{text!r} is not on the screen:", *rows]))
            time.sleep(0.05)

    def resize(self, columns: int, rows: int) -> None:
        """Give the screen another size."""
        self._run("resize-window", "-t", "it", "-x", str(columns), "-y", str(rows))

    def process(self) -> int:
        """Return the id of the program."""
        shell = int(self._run("display-message", "-p", "-t", "it", "#{pane_pid}"))
        found = subprocess.run(
            ["pgrep", "-P", str(shell)], capture_output=True, text=True, check=True
        ).stdout.split()
        return int(found[0])

    def end(self) -> None:
        """End the terminal, as when its window is closed."""
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def _run(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], env=env, check=True, capture_output=True, text=True, timeout=30
        )
        return done.stdout


@contextlib.contextmanager
def pane(
    folder: Path, argv: Sequence[str], environment: Mapping[str, str], size: tuple[int, int] = (100, 30)
) -> Iterator[Pane]:
    """Run a program in a tmux of its own for the time of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    it = Pane(folder / "tmux")
    it.begin(argv, environment, size)
    try:
        yield it
    finally:
        it.end()
