"""Draw what running calls tell of their progress as bars: how much is done, of how much, since when."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from time import monotonic

from agent.events import ActionFinished, ActionStarted, Live, Progress, ToolFinished, ToolStarted, TurnTaken
from agent.surfaces.wrapping import cells, cut
from tools.display import printable

_SHARE = re.compile(r"(\d+(?:\.\d+)?)(?: ?(?:s|B|kB|MB|GB))? of (\d+(?:\.\d+)?)\b")
"""How tools say it: `3 of 16 requests done`, `30 s of 400 s`, `1.2 MB of 8.0 MB`."""

_WIDEST = 24
_NARROWEST = 6
_MOST = 4
"""Bars at once; what is left over is counted."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(slots=True)
class _Call:
    name: str
    text: str = ""
    share: float | None = None
    begun: float = field(default_factory=monotonic)
    told: bool = False


def share_of(text: str) -> float | None:
    """Return how much of the whole a line of progress says is done, 0 to 1; None when it says nothing."""
    found = _SHARE.findall(text)
    if not found:
        return None
    done, whole = (float(number) for number in found[-1])
    return min(done / whole, 1.0) if whole > 0 else None


def bar(share: float, width: int, *, plain: bool = False) -> str:
    """Return a bar of ``width`` cells; a plain one for terminals without block characters."""
    if plain:
        full = round(share * width)
        return "#" * full + "." * (width - full)
    full, part = divmod(round(share * width * 8), 8)
    drawn = "█" * full + (_EIGHTHS[part] if part else "")
    return drawn.ljust(width, "·")


class Bars:
    """Fold events into one line for each running call that tells of its progress."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}

    def feed(self, event: Live) -> None:
        """Take in one event."""
        match event:
            case ToolStarted(call=call):
                self._calls[call] = _Call(call)
            case Progress(call=call, text=text):
                row = self._calls.setdefault(call, _Call(call))
                row.text, row.share, row.told = text, share_of(text), True
            case ToolFinished(call=call):
                self._calls.pop(call, None)
            case ActionStarted() | ActionFinished():
                for row in self._calls.values():
                    row.share = None  # another step: what the one before said does not hold
            case TurnTaken():
                self._calls.clear()
            case _:
                pass

    def clear(self) -> None:
        """Forget what ran: it runs no more."""
        self._calls.clear()

    def lines(self, width: int, *, plain: bool = False) -> list[str]:
        """Return the lines, each at most ``width`` cells wide."""
        rows = [row for row in self._calls.values() if row.told]
        drawn = [_line(row, width, plain=plain) for row in rows[:_MOST]]
        more = len(rows) - _MOST
        return [*drawn, f"  and {more} more"] if more > 0 else drawn


def _line(row: _Call, width: int, *, plain: bool) -> str:
    head, end = f"  {row.name} ", f" {int(monotonic() - row.begun)} s"
    room = width - cells(head) - cells(end) - 1
    drawn = ""
    if row.share is not None and room > _NARROWEST + 8:
        size = max(_NARROWEST, min(_WIDEST, room // 3))
        drawn = f"{bar(row.share, size, plain=plain)} {row.share:>4.0%} "
    told = cut(printable(row.text), max(0, room - cells(drawn)))
    return f"{head}{drawn}{told}{end}"
