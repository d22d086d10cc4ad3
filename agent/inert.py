"""Put text of any origin into Markdown so that it stays text: no markup, no links, nothing unseen."""

from __future__ import annotations

import re

from agent.defang import defang
from tools.display import printable

_SPECIAL = re.compile(r"[\\`*\[\]<>|~$]|&(?=[#\w]+;)|(?<![^\W_])_|_(?![^\W_])")
_AUTOLINK = re.compile(r"(?i)(?<=[a-z])(:)(?=//)|(?<=www)(\.)|(?<=\w)(@)(?=\w)|(?<=mailto)(:)|(?<=xmpp)(:)")
_LEADING = re.compile(r"^(?:[#+=-]|\d+(?=[.)]))")


def line(text: str) -> str:
    """Return ``text`` as one line of plain words."""
    flat = defang(printable(" ".join(text.split())))
    flat = _SPECIAL.sub(lambda match: "\\" + match.group(), flat)
    flat = _AUTOLINK.sub(lambda match: "\\" + match.group(), flat)
    lead = _LEADING.match(flat)
    if lead is None:
        return flat
    head, rest = lead.group(), flat[lead.end() :]
    return f"{head}\\{rest}" if head.isdigit() else f"\\{head}{rest}"


def prose(text: str) -> str:
    """Return ``text`` as paragraphs of plain words, one a line of it."""
    return "\n\n".join(line(row) for row in text.splitlines() if row.strip())


def code(text: str) -> str:
    """Return ``text`` as inline code, for use outside tables."""
    flat = printable(" ".join(text.split())) or " "
    fence = "`" * (_longest_run(flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def cell(text: str) -> str:
    """Return ``text`` as inline code in a table, where a bar would end the cell even in code."""
    return code(text.replace("|", "\\|"))


def block(text: str, indent: str = "") -> str:
    """Return ``text`` in a fence longer than any run of backticks in it, each line indented."""
    shown = printable(text.replace("\r\n", "\n")).strip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return "\n".join(f"{indent}{row}" for row in (f"{fence}text", *shown.split("\n"), fence))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
