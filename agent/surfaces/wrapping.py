"""Break long lines between words: a terminal itself breaks them anywhere."""

from __future__ import annotations

import textwrap

_QUOTED = "    "


def wrapped(text: str, width: int) -> str:
    """Return ``text`` in lines of ``width`` where words allow; a quote, indented by four, stays as it is."""
    return "\n".join(_wrapped(line, width) for line in text.split("\n"))


def _wrapped(line: str, width: int) -> str:
    if len(line) <= width or line.startswith(_QUOTED):
        return line
    indent = " " * (len(line) - len(line.lstrip(" ")))
    rows = textwrap.wrap(
        line,
        width,
        subsequent_indent=f"{indent}  ",
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=False,  # a path or a command is copied whole
        break_on_hyphens=False,
    )
    return "\n".join(rows) or line
