"""Open the console that events and answers are printed on."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def open_console(file: IO[str]) -> Console:
    """Return a console on ``file``; under ``NO_COLOR`` it prints plain text, not even bold."""
    from rich.console import Console

    console = Console(file=file, highlight=False, emoji=False, soft_wrap=True)
    if not console.no_color:
        return console
    return Console(file=file, highlight=False, emoji=False, soft_wrap=True, color_system=None)
