"""Break long lines between words: a terminal itself breaks them anywhere. Widths are in cells."""

from __future__ import annotations

import re

_QUOTED = "    "
_WORDS = re.compile(r"\s*\S+")


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes: two for a Chinese character or an emoji."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int, mark: str = "...") -> str:
    """Return ``text`` in at most ``width`` cells, with a mark where it was cut."""
    if cells(text) <= width:
        return text
    room = max(0, width - len(mark))
    if text.isascii():
        kept = text[:room]
    else:
        from rich.cells import set_cell_size

        kept = set_cell_size(text, room)
    return kept.rstrip() + mark[: max(0, width)]


def wrapped(text: str, width: int) -> str:
    """Return ``text`` in lines of ``width`` where words allow; a quote, indented by four, stays as it is."""
    return "\n".join(_wrapped(line, width) for line in text.split("\n"))


def _wrapped(line: str, width: int) -> str:
    if cells(line) <= width or line.startswith(_QUOTED):
        return line
    indent = " " * (len(line) - len(line.lstrip(" ")))
    rows: list[str] = []
    row = ""
    for word in _WORDS.findall(line):
        if row and cells(row + word) > width:
            rows.append(row)
            row = f"{indent}  {word.lstrip()}"
        else:
            row += word  # a path or a command is copied whole, however long
    rows.append(row)
    return "\n".join(rows)
