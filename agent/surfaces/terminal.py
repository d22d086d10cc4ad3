"""Show live events as lines on stderr: what is being done, what was found, where the ledger stands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from agent.events import (
    ActionFinished,
    ActionStarted,
    ApprovalAsked,
    ApprovalGiven,
    ApprovalVoided,
    BudgetUsed,
    ConclusionChecked,
    Ended,
    EvidenceAdded,
    HypothesisMoved,
    Judged,
    Live,
    Measured,
    PlanMade,
    Progress,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnTaken,
    UserMessage,
)
from agent.measuring import MEASURE
from agent.state import HypothesisStatus, TrialVerdict
from agent.surfaces.answer_text import level_line, seconds
from agent.surfaces.bars import before_after, sweep
from agent.surfaces.console import open_console
from agent.surfaces.event_lines import change_line, one_line, refusal
from agent.surfaces.progress import bar, share_of
from agent.surfaces.wrapping import Flow, cut, wrapped
from tools.display import printable

if TYPE_CHECKING:
    from rich.console import Console

_STYLES: dict[HypothesisStatus, str] = {
    "open": "yellow",
    "supported": "green",
    "confirmed": "bold green",
    "refuted": "dim",
}

_VERDICTS: dict[TrialVerdict, str] = {
    "improved": "green",
    "worse": "red",
    "no_effect": "yellow",
    "inconclusive": "yellow",
}


_OWN = frozenset({"hypothesis", "propose_change", "conclude"})
"""Calls on the investigation itself: what they change is shown, not that they ran."""

_PROGRESS_S = 3.0
_PLAIN_WIDTH = 140
_BAR = 16


class Terminal:
    """Render events inline; plain lines without colour where stderr is no terminal."""

    def __init__(self, console: Console, *, shows: bool = False) -> None:
        """Render on a console; with ``shows`` each result is told with the command that opens it."""
        self._console = console
        self._shows = shows
        self._flow = Flow()
        self._mid_line = False
        self._stated: set[str] = set()
        self._progress: tuple[str, float] = ("", 0.0)

    @classmethod
    def on_stderr(cls, *, shows: bool = False) -> Terminal:
        """Return a renderer on stderr; ``NO_COLOR`` and dumb terminals are respected."""
        return cls(open_console(sys.stderr), shows=shows)

    def show(self, event: Live) -> None:
        """Show one event."""
        match event:
            case TextDelta(text=text):
                self._stream(text)
            case Progress():
                self._told(event)
            case ToolFinished():
                self._finished(event)
            case HypothesisMoved():
                self._moved(event)
            case ConclusionChecked():
                self._checked(event)
            case Judged():
                self._judged(event)
            case (
                PlanMade()
                | ApprovalAsked()
                | ApprovalGiven()
                | ApprovalVoided()
                | ActionStarted()
                | ActionFinished()
                | Measured()
            ):
                self._line(*change_line(event))
            case TurnTaken() | EvidenceAdded() | BudgetUsed() | Ended() | UserMessage():
                self.end_line()
            case ToolStarted() if event.tool in _OWN:
                self.end_line()
            case _:
                text, style = one_line(event)
                self._line(self._short(text) if isinstance(event, ToolStarted) else text, style)

    def _stream(self, text: str) -> None:
        text = printable(text)
        if self._console.is_terminal:
            text = self._flow.feed(text, self._console.width)
            self._mid_line = self._flow.mid_line
        else:
            self._mid_line = not text.endswith("\n")
        self._console.print(text, end="", markup=False)

    def end_line(self) -> None:
        """Begin a new line where one is unfinished."""
        if self._mid_line:
            self._console.print(self._flow.end(self._console.width), markup=False)
            self._mid_line = False

    def _line(self, text: str, style: str = "") -> None:
        self.end_line()
        if not text:
            return
        text = printable(text)
        if self._console.is_terminal:
            text = wrapped(text, self._console.width, quotes=False)
        self._console.print(text, style=style or None, markup=False)

    def _short(self, text: str) -> str:
        """Cut a line of progress to the screen; the whole text stands in the case file."""
        return cut(text, self._width())

    def _told(self, event: Progress) -> None:
        """Show the progress of a call, but not more often than a person reads."""
        call, shown_at = self._progress
        if event.call != call or monotonic() - shown_at >= _PROGRESS_S:
            self._progress = (event.call, monotonic())
            share = share_of(event.text) if self._console.is_terminal else None
            drawn = f"{bar(share, _BAR, plain=self._plain())} " if share is not None else ""
            self._line(self._short(f"  {event.call} {drawn}{event.text}"), "dim")

    def _finished(self, event: ToolFinished) -> None:
        if event.status == "tool_error":
            self._line(f"  {event.call} not done: {refusal(event.view)}", "yellow")
        elif event.tool not in _OWN:
            self._line(self._short(self._result(event)), "dim")
            if event.tool == MEASURE:
                self._plot(sweep(event.view, self._width(), plain=self._plain()))

    def _plot(self, lines: Sequence[tuple[str, str]]) -> None:
        for text, style in lines:
            self._line(text, style)

    def _width(self) -> int:
        return self._console.width if self._console.is_terminal else _PLAIN_WIDTH

    def _plain(self) -> bool:
        """Tell whether the output may hold no block characters."""
        return not (self._console.encoding or "").lower().startswith("utf")

    def _result(self, event: ToolFinished) -> str:
        """Say how long a call took, how much it returned, and what opens that; short on a narrow screen."""
        spent, size = seconds(event.duration_s), f"{len(event.view):,}"
        opens = f", /show {event.call}" if self._shows else ""
        whole = f"  {event.call} done in {spent}, {size} characters{opens}"
        if not self._console.is_terminal or len(whole) <= self._console.width:
            return whole
        return f"  {event.call} {spent}, {size} chars{opens}"

    def _moved(self, event: HypothesisMoved) -> None:
        moved = event.hypothesis
        if moved.id in self._stated:
            self._line(self._short(f"  {moved.id} {moved.status}: {moved.statement}"), _STYLES[moved.status])
            return
        self._stated.add(moved.id)
        status = "" if moved.status == "open" else f" {moved.status}:"
        self._line(f"  {moved.id}{status} {moved.statement}", _STYLES[moved.status])

    def _judged(self, event: Judged) -> None:
        found = event.comparison
        for level in found.levels:
            self._line(f"  {event.change} {level_line(level)}", _VERDICTS[level.verdict])
        self._plot(before_after(found.levels, self._width(), plain=self._plain()))
        says = found.mechanism_says.removeprefix("mechanism ")
        self._line(f"  {event.change} mechanism: {says}", "dim")
        style = "bold green" if found.kept else "bold yellow"
        self._line(f"  {event.change} {'kept' if found.kept else 'not kept'}: {found.why}", style)

    def _checked(self, event: ConclusionChecked) -> None:
        verified = sum(check.status == "verified" for check in event.checks)
        opinions = sum(check.status == "opinion" for check in event.checks)
        claims = len(event.checks) - opinions
        self._line(f"  verifier: {verified} of {claims} claims verified, {opinions} opinions", "bold")
        for check in event.checks:
            if check.status == "unverified":
                self._line(f"    claim {check.index}: {check.why}", "yellow")
        for problem in event.problems:
            self._line(f"    {problem}", "yellow")
