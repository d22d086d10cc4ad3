"""Rows of text in columns that stand below each other; where they do not fit, wrapped, or as records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tools.display import printable

WIDEST: Final = 60
"""Columns of one cell where nobody says how wide the screen is; a longer one is cut with a sign for that."""

_GAP: Final = "  "
_LEAST: Final = 8
"""Columns that a wrapped cell has at least."""

_WORDS: Final = re.compile(r"\S+\s*")


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None, *, widest: int = WIDEST
) -> str:
    """Return rows as columns that line up, whatever the width of their letters.

    With a ``width`` nothing is cut: cells are broken between words, the widest first; where even their words
    are too many, each row becomes a record with one field a line. A head may be empty.
    """
    cut = widest if width is None else None
    cells = [[_clean(text, cut) for text in head]]
    cells += [
        [_clean(text, cut) or ("-" if name else "") for name, text in zip(head, row, strict=True)]
        for row in rows
    ]
    widths = [max(_wide(row[at]) for row in cells) for at in range(len(head))]
    if width is not None:
        fitting = _fitting(cells, widths, width)
        if fitting is None:
            return _records(cells[0], cells[1:], width)
        widths = fitting
    lines = [line for row in cells for line in _row(row, widths)]
    return "\n".join(lines) + "\n"


def filled(text: str, width: int) -> list[str]:
    """Return a text in lines of at most so many columns, broken between words; a longer word stays whole."""
    lines, line = [], ""
    for word in _WORDS.findall(text):
        if line and _wide((line + word).rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += word
    return [*lines, line.rstrip()]


def hanging(before: str, text: str, width: int | None, *, more: str | None = None) -> str:
    """Return a text behind what stands before it, its further lines below itself, or behind ``more``."""
    if width is None:
        return before + text
    below = " " * _wide(before) if more is None else more
    first, *rest = filled(text, max(1, width - max(_wide(before), _wide(below))))
    return "\n".join([before + first, *(below + line for line in rest)])


def _fitting(cells: Sequence[Sequence[str]], natural: Sequence[int], width: int) -> list[int] | None:
    """Return widths of columns that fit together; None where words would have to be broken."""
    least = [min(size, max(_LEAST, *(_longest(row[at]) for row in cells))) for at, size in enumerate(natural)]
    room = width - len(_GAP) * (len(natural) - 1)
    if sum(least) > room:
        return None
    found = list(natural)
    while sum(found) > room:
        at = max((place for place in range(len(found)) if found[place] > least[place]), key=found.__getitem__)
        found[at] -= 1
    return found


def _row(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [filled(text, size) for text, size in zip(row, widths, strict=True)]
    height = max(map(len, columns))
    lines = []
    for number in range(height):
        parts = [column[number] if number < len(column) else "" for column in columns]
        lines.append(
            _GAP.join(text + " " * (size - _wide(text)) for text, size in zip(parts, widths, strict=True))
        )
    return [line.rstrip() for line in lines]


def _records(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    records = []
    for row in rows:
        lines = [row[0]]
        for name, text in zip(head[1:], row[1:], strict=True):
            if text not in ("-", ""):
                before = f"  {name}: " if name else "  "
                lines.append(hanging(before, text, width, more="    "))
        records.append("\n".join(lines))
    return "\n".join(records) + "\n"


def _clean(text: str, widest: int | None) -> str:
    from rich.cells import set_cell_size

    clean = printable(" ".join(str(text).split()))
    if widest is None or _wide(clean) <= widest:
        return clean
    return f"{set_cell_size(clean, widest - 1).rstrip()}…"


def _longest(text: str) -> int:
    return max((_wide(word) for word in text.split()), default=0)


def _wide(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
