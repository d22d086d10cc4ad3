"""Show live events as lines on stderr: what is being done, what was found, where the ledger stands."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from statistics import fmean
from textwrap import indent
from time import monotonic
from typing import TYPE_CHECKING, assert_never

from agent.events import (
    ActionFinished,
    ActionStarted,
    ApprovalAsked,
    ApprovalGiven,
    ApprovalVoided,
    BudgetUsed,
    ChangeMoved,
    Compacted,
    ConclusionChecked,
    Ended,
    EvidenceAdded,
    Failed,
    Forked,
    HypothesisMoved,
    Judged,
    Live,
    Measured,
    ModelChosen,
    PlanMade,
    Progress,
    Resumed,
    Started,
    SystemNote,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnTaken,
    UndoAsked,
    UserMessage,
)
from agent.measuring import MEASURE
from agent.state import Change, Conclusion, HypothesisStatus, LevelComparison, TrialVerdict
from agent.surfaces.bars import before_after, sweep
from agent.surfaces.console import open_console
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
                self._line(*_change_line(event))
            case TurnTaken() | EvidenceAdded() | BudgetUsed() | Ended() | UserMessage():
                self.end_line()
            case ToolStarted() if event.tool in _OWN:
                self.end_line()
            case _:
                text, style = _one_line(event)
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
            self._line(f"  {event.call} not done: {_error(event.view)}", "yellow")
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


def seconds(spent: float) -> str:
    """Return a time as a person reads it."""
    if spent < 10:
        return f"{spent:.1f} s"
    return f"{spent:.0f} s" if spent < 120 else f"{spent // 60:.0f} min {spent % 60:.0f} s"


def level_line(level: LevelComparison) -> str:
    """Return one row of a comparison as a person reads it."""
    head = f"concurrency {level.concurrency}: "
    if level.ratio is None or level.before is None or level.after is None:
        return f"{head}{level.verdict.replace('_', ' ')} ({level.why})"
    text = f"{head}{level.before:.1f} -> {level.after:.1f} tok/s, x{level.ratio:.2f}"
    if level.low is not None and level.high is not None:
        text += f" [{level.low:.2f}, {level.high:.2f}]"
    return f"{text}: {level.verdict.replace('_', ' ')}"


def _change_line(
    event: PlanMade
    | ApprovalAsked
    | ApprovalGiven
    | ApprovalVoided
    | ActionStarted
    | ActionFinished
    | Measured,
) -> tuple[str, str]:
    change = event.change
    match event:
        case PlanMade(digest=digest):
            return f"  {change} planned, digest {digest[:12]}", "magenta"
        case ApprovalAsked(expires_at=until):
            return f"  {change} waits for approval until {until:%H:%M:%S} UTC", "bold magenta"
        case ApprovalGiven(decision=decision, by=by, reason=reason):
            return f"  {change} {decision} by {by}{': ' + reason if reason else ''}", "bold magenta"
        case ApprovalVoided(why=why):
            return f"  {change} approval void: {why}", "yellow"
        case ActionStarted(step="extend") | ActionFinished(outcome="extended"):
            return f"  {change} rollback timer extended", "dim"
        case ActionStarted(step=step):
            return f"  {change} {step.replace('_', ' ')} ...", "magenta"
        case ActionFinished(outcome=outcome, detail=detail):
            return f"  {change} {outcome.replace('_', ' ')}: {detail}", "magenta"
        case Measured(phase=phase, measurement=found):
            means = [
                f"{fmean(level.throughput):.1f} tok/s at {level.concurrency}"
                for level in found.levels
                if level.throughput
            ]
            return f"  {change} measured {phase}: {', '.join(means) or 'nothing completed'}", "cyan"
        case _:
            assert_never(event)


def _one_line(
    event: Started
    | ToolStarted
    | ChangeMoved
    | SystemNote
    | Failed
    | Resumed
    | UndoAsked
    | ModelChosen
    | Compacted
    | Forked,
) -> tuple[str, str]:
    match event:
        case Started(thread=thread, hosts=hosts, mode=mode, recorded=recorded):
            where = ", ".join(hosts) or "no host"
            return f"Leadline · {where} · {mode} · {recorded} · session {thread}", "bold"
        case ToolStarted():
            return f"  {event.call} {_asked(event)}", "cyan"
        case ChangeMoved(change=change) if change.status in ("approved", "applied"):
            return "", ""  # the decision and the step have lines of their own
        case ChangeMoved(change=change):
            return f"  {change.id} {change.status}: {edit(change)}", "magenta"
        case SystemNote(text=text) | Failed(error=text):
            return f"  {text}", "yellow"
        case Resumed(process=process):
            return f"  resumed by {process}", "dim"
        case UndoAsked(thread=thread, change=change):
            return f"  {change} of {thread} is to be taken back", "magenta"
        case ModelChosen() | Compacted() | Forked():
            return _by_person(event), "dim"
        case _:
            assert_never(event)


def _by_person(event: ModelChosen | Compacted | Forked) -> str:
    match event:
        case ModelChosen(model=model):
            return f"  model from here on: {model}"
        case Compacted(tokens_before=before, tokens_after=after):
            return f"  older results folded: {before:,} -> {after:,} tokens"
        case Forked(thread=thread, at_turn=turn):
            return f"  goes on from turn {turn} of {thread}"
        case _:
            assert_never(event)


def _asked(event: ToolStarted) -> str:
    """Say what a call asks for: the command, or what is searched and where."""
    given = event.arguments
    match event.tool:
        case "run" if given.get("command"):
            return f"$ {given['command']}"
        case "grep" if given.get("pattern"):
            return f"grep {given['pattern']} in {given.get('path') or 'the installed package'}"
        case "journal" if given.get("pattern"):
            return f"journal of {given.get('unit') or 'the host'}: {given['pattern']}"
        case "benchmark":
            levels = given.get("concurrency") or [1, 8]
            return f"benchmark at concurrency {', '.join(str(level) for level in levels)}"
    return event.describe or event.tool


def _error(view: str) -> str:
    """Return the words of a refusal."""
    try:
        found = json.loads(view)
    except ValueError:
        return view
    return str(found["error"]) if isinstance(found, dict) and "error" in found else view


def edit(change: Change) -> str:
    """Return a change as a person would say it."""
    before, after = change.from_value, change.to_value
    if after is None:
        return f"take {change.setting}{_value(before)} out of {change.unit}"
    instead = f" instead of {before}" if before not in (None, "true") else ""
    return f"set {change.setting}{_value(after)}{instead} in {change.unit}"


def _value(value: str | None) -> str:
    return "" if value in (None, "true") else f" {value}"


def answer(
    conclusion: Conclusion,
    case_files: list[str],
    changes: Sequence[Change] = (),
    width: int | None = None,
) -> str:
    """Return the answer as a person reads it on stdout; ``width`` is that of a terminal, for its table."""
    parts = [f"{conclusion.outcome}: {conclusion.summary}"]
    if conclusion.table is not None:
        parts.append(indent(conclusion.table.text(width - 4 if width is not None else None).rstrip(), "    "))
    named = [change for change in changes if change.id in conclusion.changes]
    if named:
        rows = [
            f"- {change.id}: {edit(change)}\n  {change.reason}\n  Expected: {change.predicted_effect}"
            for change in named
        ]
        parts.append("Changes, in this order:\n" + "\n".join(rows))
    if conclusion.inherent:
        parts.append("Limits no setting changes:\n" + "\n".join(f"- {text}" for text in conclusion.inherent))
    if conclusion.next_step:
        parts.append(f"Next: {conclusion.next_step}")
    beside = [name.rpartition("/")[2] for name in case_files[1:]]
    more = f" (beside it: {', '.join(beside)})" if beside else ""
    parts.append(f"Case file: {case_files[0]}{more}" if case_files else "Case file: none")
    return printable("\n\n".join(parts)) + "\n"
