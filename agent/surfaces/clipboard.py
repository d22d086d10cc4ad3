"""Put a text on the clipboard of the person's own terminal by OSC 52, also through tmux and over SSH."""

from __future__ import annotations

import base64
import shutil
import subprocess
from typing import IO

MOST = 74_994
"""Characters of base64 that terminals take in one such sequence; several drop longer ones whole."""

_TMUX_S = 5.0


def fitting(text: str) -> tuple[str, bool]:
    """Return as much of a text as a terminal takes, and whether that is all of it."""
    data = text.encode("utf-8", "replace")
    most = MOST // 4 * 3
    return (text, True) if len(data) <= most else (data[:most].decode("utf-8", "ignore"), False)


def sequence(text: str) -> str:
    """Return what makes a terminal take the text."""
    return f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode()}\x07"


def through_tmux(text: str) -> str:
    """Return the same for the terminal that tmux runs in, where tmux lets that pass."""
    return f"\x1bPtmux;{sequence(text).replace(chr(27), chr(27) * 2)}\x1b\\"


def put(text: str, terminal: IO[str], *, tmux: bool) -> None:
    """Write it to the terminal; inside tmux, its own buffer gets the text whatever it lets pass."""
    if tmux and _in_buffer(text):
        return
    terminal.write((through_tmux(text) if tmux else "") + sequence(text))
    terminal.flush()


def _in_buffer(text: str) -> bool:
    """Give the text to tmux, which hands it on to the terminal around it; False where that fails."""
    program = shutil.which("tmux")
    if program is None:
        return False
    try:
        done = subprocess.run(
            [program, "load-buffer", "-w", "-"],
            input=text.encode("utf-8", "replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TMUX_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
