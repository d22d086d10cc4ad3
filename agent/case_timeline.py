"""Tell for a case file, turn by turn, what the model said and called, how long it took, and how it went."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from agent.events import (
    ActionFinished,
    ActionStarted,
    ApprovalGiven,
    ConclusionChecked,
    Event,
    Failed,
    HypothesisMoved,
    Judged,
    Resumed,
    SystemNote,
    ToolFinished,
    ToolStarted,
    TurnTaken,
    UserMessage,
)
from agent.plots import Span, Tone
from agent.state import Record

_MOST_TURNS = 200
_TEXT = 600
_SHOWN_ON_STRIP = 400


class CallRow(Record):
    """One tool call; ``seconds`` is None while it has not finished."""

    call: str
    tool: str
    describe: str
    seconds: float | None = None
    refused: str = ""
    kept: list[str] = Field(default_factory=list)


class Turn(Record):
    """One model turn (0: the facts that the program itself asks for), its calls, and what came of them."""

    number: int
    at: datetime
    text: str = ""
    calls: list[CallRow] = Field(default_factory=list)
    moves: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


def turns(events: Sequence[Event]) -> tuple[list[Turn], int]:
    """Return the turns and how many in the middle were left out."""
    found: dict[int, Turn] = {}
    calls: dict[str, CallRow] = {}
    for event in events:
        turn = found.get(event.turn)
        if turn is None:
            turn = found[event.turn] = Turn(number=event.turn, at=event.at)
        if isinstance(event, TurnTaken):
            turn.text = "\n".join(part for part in (turn.text, _cut(event.text)) if part)
        elif isinstance(event, ToolStarted):
            calls[event.call] = CallRow(call=event.call, tool=event.tool, describe=_told(event))
            turn.calls.append(calls[event.call])
        elif isinstance(event, ToolFinished):
            _finish(calls.get(event.call), event)
        elif isinstance(event, HypothesisMoved):
            turn.moves += _moved(event)
        else:
            note = _note(event) or _tried(event)
            turn.notes += [note] if note else []
    rows = list(found.values())
    left_out = max(0, len(rows) - _MOST_TURNS)
    half = _MOST_TURNS // 2
    return (rows if not left_out else [*rows[:half], *rows[-half:]]), left_out


def spans(events: Sequence[Event]) -> list[Span]:
    """Return what the strip shows: model turns, and calls from their start to their end."""
    start = events[0].at
    began: dict[str, float] = {}
    shown: list[Span] = []
    for event in events:
        at = (event.at - start).total_seconds()
        if isinstance(event, TurnTaken) and event.duration_s:
            shown.append(Span(max(0.0, at - event.duration_s), at, f"turn {event.turn}", "model"))
        elif isinstance(event, ToolStarted):
            began[event.call] = at
        elif isinstance(event, ActionStarted):
            began[event.action] = at
        elif isinstance(event, ActionFinished):
            label = f"{event.action} {event.step.replace('_', ' ')}"
            shown.append(Span(began.get(event.action, at), at, label, "step"))
        elif isinstance(event, ToolFinished):
            tone: Tone = "failed" if event.status == "tool_error" else "tool"
            label = f"{event.call} {event.tool}"
            shown.append(Span(began.get(event.call, at), at, label, tone))
    longest = sorted(shown, key=lambda span: span.start - span.end)[:_SHOWN_ON_STRIP]
    return sorted(longest, key=lambda span: span.start)


def _finish(call: CallRow | None, event: ToolFinished) -> None:
    if call is None:
        return
    call.seconds = event.duration_s
    call.kept = [ref.handle for ref in event.artifacts]
    if event.status == "tool_error":
        call.refused = _cut(event.view)


def _told(event: ToolStarted) -> str:
    told = event.describe or event.tool
    return _cut(told.removeprefix(event.tool).strip(), 300)


def _moved(event: HypothesisMoved) -> list[str]:
    moved = event.hypothesis
    if event.before == moved.status:
        return []
    return [f"{moved.id} {event.before} → {moved.status}" if event.before else f"{moved.id} {moved.status}"]


def _tried(event: Event) -> str:
    if isinstance(event, ApprovalGiven):
        return f"{event.change} {event.decision} by {_cut(event.by)}"
    if isinstance(event, ActionFinished):
        told = f"{event.change} {event.outcome.replace('_', ' ')}"
        return f"{told}: {_cut(event.detail)}" if event.detail else told
    if isinstance(event, Judged):
        return (
            f"{event.change} {'kept' if event.comparison.kept else 'not kept'}: {_cut(event.comparison.why)}"
        )
    return ""


def _note(event: Event) -> str:
    if isinstance(event, ConclusionChecked):
        verified = sum(check.status == "verified" for check in event.checks)
        verb = "accepted" if event.accepted else "sent back"
        return f"Conclusion {verb}: {verified} of {len(event.checks)} claims verified"
    if isinstance(event, Resumed):
        return f"Taken up again by {event.process}"
    if isinstance(event, UserMessage):
        return f"A person said: {_cut(event.text)}"
    if isinstance(event, SystemNote):
        return f"Note to the model: {_cut(event.text)}"
    if isinstance(event, Failed):
        return f"Stopped: {_cut(event.error)}"
    return ""


def _cut(text: str, most: int = _TEXT) -> str:
    return text if len(text) <= most else f"{text[:most]} … [{len(text) - most:,} more characters]"
