"""Write what ``leadline init`` asks and says on stderr, broken between words at a terminal."""

from __future__ import annotations

import sys

from agent.surfaces.console import terminal_size
from agent.surfaces.wrapping import wrapped


def told(text: str) -> None:
    """Write a text; what of it is indented, as the file is, stays as it is."""
    if sys.stderr.isatty():
        blank = text[len(text.rstrip(" ")) :]  # before what is typed
        text = wrapped(text.removesuffix(blank), terminal_size().columns - len(blank)) + blank
    sys.stderr.write(text)
    sys.stderr.flush()
