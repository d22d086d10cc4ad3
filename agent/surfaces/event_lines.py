"""Say a live event in one line, with its style."""

from __future__ import annotations

import json
from statistics import fmean
from typing import assert_never

from agent.events import (
    ActionFinished,
    ActionStarted,
    ApprovalAsked,
    ApprovalGiven,
    ApprovalVoided,
    ChangeMoved,
    Compacted,
    Failed,
    Forked,
    Measured,
    ModelChosen,
    PlanMade,
    Resumed,
    Started,
    SystemNote,
    ToolStarted,
    UndoAsked,
)
from agent.surfaces.answer_text import edit


def change_line(
    event: PlanMade
    | ApprovalAsked
    | ApprovalGiven
    | ApprovalVoided
    | ActionStarted
    | ActionFinished
    | Measured,
) -> tuple[str, str]:
    """Return the line of a step of a change, and its style."""
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


def one_line(
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
    """Return the line of an event that has one, and its style; an empty line is not shown."""
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


def refusal(view: str) -> str:
    """Return the words of a refusal."""
    try:
        found = json.loads(view)
    except ValueError:
        return view
    return str(found["error"]) if isinstance(found, dict) and "error" in found else view
