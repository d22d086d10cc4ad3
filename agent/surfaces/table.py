"""Lay rows out in columns for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tools.display import printable


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with its head; what came from outside is made inert, empty cells are a dash."""
    cells = [[printable(cell).replace("\n", " ") or "-" for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in [list(head), *cells]) for place in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in [list(head), *cells]
    ]
    return "".join(line.rstrip() + "\n" for line in lines)
