"""Columns of text that stand below each other, whatever the width of their letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tools.display import printable

WIDEST: Final = 60
"""Columns of one cell; what is longer is cut with a sign that says so."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as columns that line up, whatever the width of their letters."""
    from rich.cells import cell_len, set_cell_size

    cells = [[_cell(text) for text in row] for row in (head, *rows)]
    widths = [max(cell_len(row[at]) for row in cells) for at in range(len(head))]
    lines = [
        "  ".join(set_cell_size(text, width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    from rich.cells import cell_len, set_cell_size

    clean = printable(" ".join(str(text).split())) or "-"
    return clean if cell_len(clean) <= WIDEST else f"{set_cell_size(clean, WIDEST - 1).rstrip()}…"
