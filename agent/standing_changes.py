"""Which changes of a thread stand on a host, or may: what would be lost with the thread's record."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass

from agent.config import Settings
from agent.errors import TranscriptError
from agent.events import ChangeMoved, Ended, Event
from agent.executions import Executions
from agent.state import Change
from agent.transcript import peek_events
from agent.trials import Trials
from tools.contract import ToolError


@dataclass(frozen=True, slots=True)
class Standing:
    """Name a change and say why its record is still needed."""

    change: str
    why: str
    undoable: bool
    """It was kept, so that `leadline undo` takes it back by its record."""


def kept_changes(settings: Settings, events: Sequence[Event]) -> dict[str, Change]:
    """Return the changes that were kept and that nobody has taken back here."""
    trials = _folded(events)
    last = {event.change.id: event.change for event in events if isinstance(event, ChangeMoved)}
    return {
        name: change
        for name, change in last.items()
        if change.status == "verified" and not _taken_back(settings, _plan(trials, name))
    }


def standing(settings: Settings, thread: str, events: Sequence[Event]) -> list[Standing]:
    """Return what of a thread stands on a host or is not settled, as the record and the ledger have it."""
    trials = _folded(events)
    found = []
    if trials.undo is None:  # what takes a change back leaves nothing that could be taken back
        for name, change in kept_changes(settings, events).items():
            where = f"{change.setting} of {change.unit} on {change.host}"
            why = f"{where} was kept; `leadline undo` needs its record"
            found.append(Standing(name, why, undoable=True))
    named = {one.change for one in found}
    for name, trial in trials.by_change.items():
        if name in named:
            continue
        if trial.acting or trial.unfinished() is not None or name in trials.unsettled.values():
            host = trial.made.plan.get("host")
            found.append(Standing(name, f"how it stands on {host} is not known", undoable=False))
        elif not trial.closed and trial.void is None and trial.asked is not None and trial.given is None:
            found.append(Standing(name, "it waits for a decision", undoable=False))
    return found + _in_ledger(settings, thread, {one.change for one in found}, trials)


def _in_ledger(settings: Settings, thread: str, known: set[str], trials: Trials) -> list[Standing]:
    """Return what the execution ledger has begun and not ended for the thread, besides what is ``known``."""
    if not (settings.state_dir / "executions.sqlite").is_file():
        return []
    by_digest = {trial.made.digest: name for name, trial in trials.by_change.items()}
    try:
        rows = Executions(settings.state_dir).all()
    except ToolError as error:
        return [Standing("?", str(error), undoable=False)]
    mine = [row for row in rows if row.thread == thread and row.outcome is None]
    named = [(by_digest.get(row.digest, row.plan), row.host) for row in mine]
    return [
        Standing(name, f"begun on {host}, with no known end", undoable=False)
        for name, host in named
        if name not in known
    ]


def _folded(events: Sequence[Event]) -> Trials:
    trials = Trials()
    for event in events:
        trials.feed(event)
    return trials


def _plan(trials: Trials, change: str) -> str:
    trial = trials.by_change.get(change)
    return str(trial.made.plan.get("id", "")) if trial is not None else ""


def _taken_back(settings: Settings, plan: str) -> bool:
    """Tell whether a kept change, named by its plan, was taken back here since."""
    if not plan:
        return False
    paths = (settings.state_dir / "threads").glob(f"undo-{glob.escape(plan)}*/transcript.jsonl")
    for path in paths:
        try:
            events = peek_events(path)
        except (TranscriptError, OSError):
            continue
        if any(isinstance(event, Ended) and event.outcome == "fixed" for event in events):
            return True
    return False
