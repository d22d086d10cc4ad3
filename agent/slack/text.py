"""Text on its way into Slack: secrets masked, nothing unseen, no foreign links, no markup of its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from agent.defang import defang
from tools.contract import Redactor
from tools.display import printable

MESSAGE_CHARS: Final = 3800
"""What one message holds here; Slack advises 4,000 characters and cuts at 40,000."""

STREAM_CHARS: Final = 11_000
"""What one streamed message holds here; Slack refuses more than 12,000."""

SECTION_CHARS: Final = 2900
"""What one block of a message holds here; Slack refuses more than 3,000."""

Markup = Literal["mrkdwn", "markdown"]
"""``mrkdwn`` is Slack's own, of messages and blocks; ``markdown`` that of streamed text."""

_MARKDOWN: Final = re.compile(r"[\\`*~\[\]]|(?<!\w)_|_(?!\w)|^#+(?=\s)")
_LEADING: Final = re.compile(r"^\s*(?:[>+-]|\d+[.)])(?=\s)")


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Make text fit to be shown in Slack; ``ours`` names hosts whose addresses may stay as they are."""

    redact: Redactor
    ours: Collection[str] = ()

    def exact(self, text: str) -> str:
        """Return text without secrets and with unseen characters made visible, else as it is."""
        masked = self.redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
        return printable(masked.replace("\r\n", "\n"))

    def plain(self, text: str) -> str:
        """Return text as `exact` does, with addresses of foreign hosts taken apart."""
        return defang(self.exact(text), self.ours)

    def line(self, text: str, most: int = 400) -> str:
        """Return text as one line of limited length."""
        # Masked before the lines are joined: some secrets are told by the line that they stand in.
        flat = defang(" ".join(self.exact(text).split()), self.ours)
        return flat if len(flat) <= most else f"{flat[: most - 1].rstrip()}…"


def escaped(text: str, markup: Markup = "mrkdwn") -> str:
    """Return text in which Slack finds no mention, no link and, in Markdown, no markup."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if markup == "mrkdwn":
        return safe
    rows = (_MARKDOWN.sub(lambda match: "\\" + match.group(), row) for row in safe.split("\n"))
    return "\n".join(
        _LEADING.sub(lambda match: "\u2022" if match.group().strip() in "+-" else match.group(), row)
        for row in rows
    )


def fenced(text: str) -> str:
    """Return text as a block of code; a run of backticks inside is spread so that it cannot end it."""
    inside = escaped(text).replace("```", "`\u00b4`")
    return f"```\n{inside}\n```"


def split(text: str, most: int = MESSAGE_CHARS) -> list[str]:
    """Return text in pieces of at most ``most`` characters, cut at line ends where there are any."""
    pieces: list[str] = []
    rest = text
    while len(rest) > most:
        cut = rest.rfind("\n", 1, most)
        cut = cut if cut > most // 2 else most
        # An escape such as &lt; must not be cut in two.
        start = rest.rfind("&", max(0, cut - 5), cut)
        if start > 0 and ";" not in rest[start:cut]:
            cut = start
        pieces.append(rest[:cut])
        rest = rest[cut:].removeprefix("\n")
    return [*pieces, rest] if rest or not pieces else pieces


def packed(parts: Iterable[str], most: int = MESSAGE_CHARS) -> list[str]:
    """Return parts joined into as few messages as hold them; a part is cut only where none holds it."""
    messages: list[str] = []
    for part in parts:
        for piece in split(part, most):
            if messages and len(messages[-1]) + 1 + len(piece) <= most:
                messages[-1] += f"\n{piece}"
            else:
                messages.append(piece)
    return messages
