"""Tell what happens in an investigation as lines of one growing message: few, and short."""

from __future__ import annotations

from typing import Final

from agent.events import (
    ActionFinished,
    ApprovalGiven,
    ApprovalVoided,
    ChangeMoved,
    ConclusionChecked,
    HypothesisMoved,
    Judged,
    Live,
    Measured,
    Resumed,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnTaken,
)
from agent.slack.stream import Growing
from agent.surfaces.answer_text import edit, level_line

_OWN: Final = frozenset({"hypothesis", "propose_change", "conclude"})
"""Calls on the investigation itself: what they change is told, not that they ran."""


_LOOKS: Final = 3
_LOOK_CHARS: Final = 60
"""Of each look; the whole of it stands in the case file."""


class Telling:
    """Turn events into lines."""

    def __init__(self, growing: Growing) -> None:
        self._growing = growing
        self._stated: set[str] = set()
        self._looks: list[str] = []
        self._looked_last = ""
        self.doing = ""
        """What is being done now, for whoever asks."""

    def show(self, event: Live) -> None:
        """Tell one event, if people want to know of it."""
        match event:
            case TextDelta(text=text):
                self._growing.text(text)
            case TurnTaken():
                self._growing.end_of_text()
                self.doing = "thinking"
            case ToolStarted() if event.tool not in _OWN:
                self._looks.append(event.describe or event.tool)
                self.doing = event.describe or event.tool
            case ToolFinished():
                self._looked()
            case HypothesisMoved():
                self._moved(event)
            case ConclusionChecked():
                self._checked(event)
            case _:
                self._of_change(event)

    def _looked(self) -> None:
        if self._looks:
            shown = [look if len(look) <= _LOOK_CHARS else f"{look[:_LOOK_CHARS]}…" for look in self._looks]
            more = f"; and {len(shown) - _LOOKS} more" if len(shown) > _LOOKS else ""
            line = "Looking: " + "; ".join(shown[:_LOOKS]) + more
            if line != self._looked_last:
                self._growing.line(line)
            self._looked_last = line
            self._looks.clear()

    def _moved(self, event: HypothesisMoved) -> None:
        item = event.hypothesis
        first = item.id not in self._stated
        self._stated.add(item.id)
        status = "" if item.status == "open" else f" {item.status}"
        if first or event.before != item.status:
            self._growing.line(f"{item.id}{status}: {item.statement}")

    def _checked(self, event: ConclusionChecked) -> None:
        verified = sum(check.status == "verified" for check in event.checks)
        claims = sum(check.status != "opinion" for check in event.checks)
        back = "" if event.accepted else "; sent back"
        self._growing.line(f"Verifier: {verified} of {claims} claims verified{back}")

    def _of_change(self, event: Live) -> None:
        line = self._growing.line
        match event:
            case ChangeMoved(change=change) if change.status in ("proposed", "rolled_back"):
                line(f"{change.id} {change.status.replace('_', ' ')}: {edit(change)}")
            case ApprovalGiven():
                line(f"{event.change} {event.decision} by {event.by}", bold=True)
            case ApprovalVoided():
                line(f"{event.change}: the approval is void: {event.why}")
            case ActionFinished() if event.outcome != "extended":
                line(f"{event.change} {event.outcome.replace('_', ' ')}: {event.detail}")
            case Measured():
                line(f"{event.change} measured {event.phase}")
            case Judged(comparison=found):
                for level in found.levels:
                    line(f"{event.change} {level_line(level)}")
                line(f"{event.change} {'kept' if found.kept else 'not kept'}: {found.why}", bold=True)
            case Resumed():
                line("Taken up again where it stood.")
            case _:
                pass
