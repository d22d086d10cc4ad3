"""Break long lines between words: a terminal itself breaks them anywhere. Widths are in cells."""

from __future__ import annotations

import re

_QUOTED = "    "
_WIDE = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
    "\U0001f300-\U0001faff\U00020000-\U0003fffd"
)
"""Characters that are words by themselves: such writing has no blanks, and breaks anywhere."""

_WORD = rf"(?:[{_WIDE}]|[^\s{_WIDE}]+)"
_WORDS = re.compile(rf"\s*{_WORD}")
_TOKENS = re.compile(rf"\n|[^\S\n]+|{_WORD}")
_ITEM = re.compile(r"[-*\u2022+]|\d{1,3}[.)]")
_FENCE = "```"


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


def wrapped(text: str, width: int, *, quotes: bool = True) -> str:
    """Return ``text`` in lines of ``width`` where words allow; a quote, indented by four, stays as it is.

    Without ``quotes`` there are none in it, and what is indented breaks like the rest.
    """
    return "\n".join(_wrapped(line, width, quotes=quotes) for line in text.split("\n"))


def _wrapped(line: str, width: int, *, quotes: bool) -> str:
    if cells(line) <= width or (quotes and line.startswith(_QUOTED)):
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


class Flow:
    """Break text between words as it comes; only the word under way is held back, till it is known to fit.

    What is indented by four, or stands between fences, is a quote and stays as it is.
    """

    def __init__(self) -> None:
        self._fenced = False
        self._begin()

    def _begin(self) -> None:
        self._column, self._below = 0, 0
        self._blank = self._word = ""
        self._first = True
        self._quoted = self._fenced
        self._glued = False

    @property
    def mid_line(self) -> bool:
        """Tell whether a line was begun, shown or not."""
        return bool(self._column or self._word)

    def feed(self, text: str, width: int) -> str:
        """Return what may be shown now that ``text`` came, on a screen that is ``width`` wide."""
        shown = []
        for token in _TOKENS.findall(text):
            if token == "\n":
                shown += [self._take(width), "\n"]
                self._begin()
            elif token.isspace():
                shown.append(self._take(width))
                self._blank += token
                self._glued = False
            elif cells(token[0]) == 2:
                shown.append(self._take(width))
                self._word = token
                shown.append(self._take(width))
                self._glued = False
            else:
                self._word += token
                if self._glued or cells(self._word) >= width:
                    shown.append(self._take(width))
                    self._glued = True  # what else comes of a word that is shown stands behind it
        return "".join(shown)

    def end(self, width: int) -> str:
        """Return what was held back, and begin anew."""
        shown = self._take(width)
        self._fenced = False
        self._begin()
        return shown

    def _take(self, width: int) -> str:
        """Return the word that is complete, on the line that it has room on."""
        if not self._word:
            return ""
        blank, word = self._blank, self._word
        self._blank = self._word = ""
        if self._first:
            self._starts(blank, word)
        size = cells(blank + word)
        if self._column and not self._glued and not self._quoted and self._column + size > width:
            self._column = self._below + cells(word)
            return f"\n{' ' * self._below}{word}"
        self._column += size
        return blank + word

    def _starts(self, blank: str, word: str) -> None:
        self._first = False
        if word.startswith(_FENCE):
            self._fenced = not self._fenced
            self._quoted = True
        self._quoted = self._quoted or blank.startswith(_QUOTED)
        self._below = cells(blank) + (len(word) + 1 if _ITEM.fullmatch(word) else 0)
