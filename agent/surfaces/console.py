"""Open the console that events and answers are printed on."""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, TYPE_CHECKING

from agent.config import environment_without
from agent.surfaces.wrapping import wrapped

if TYPE_CHECKING:
    from rich.console import Console


def open_console(file: IO[str]) -> Console:
    """Return a console on ``file``; under ``NO_COLOR`` it prints plain text, not even bold."""
    from rich.console import Console

    # What a shell once exported does not follow a terminal that is resized, or nested in another.
    known = environment_without(*(("COLUMNS", "LINES") if _at_terminal() else ()))
    console = Console(file=file, highlight=False, emoji=False, soft_wrap=True, _environ=known)
    if not console.no_color:
        return console
    plain = Console(
        file=file, highlight=False, emoji=False, soft_wrap=True, color_system=None, _environ=known
    )
    return plain


def terminal_size() -> os.terminal_size:
    """Return the size of the terminal as it is now."""
    return _at_terminal() or shutil.get_terminal_size()


def screen_width() -> int | None:
    """Return how many columns an answer on stdout has; None where it goes into a file or a pipe."""
    return terminal_size().columns if sys.stdout.isatty() else None


def write_fitted(text: str, file: IO[str] | None = None) -> None:
    """Write text on stdout, or another stream, with lines broken between words where that is a terminal."""
    stream = file or sys.stdout
    if stream.isatty():
        blank = text[len(text.rstrip(" ")) :]  # before what is typed
        text = wrapped(text.removesuffix(blank), terminal_size().columns - len(blank)) + blank
    stream.write(text)
    stream.flush()


def _at_terminal() -> os.terminal_size | None:
    for descriptor in (1, 2, 0):
        try:
            size = os.get_terminal_size(descriptor)
        except OSError:
            continue
        if size.columns > 0:
            return size
    return None
