"""Find a change that was kept by its plan's id or by THREAD/CHANGE, with what was recorded of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from agent import threads
from agent.config import Settings
from agent.errors import TranscriptError, UsageError
from agent.events import ChangeMoved, Event, Judged, Measured, Phase
from agent.state import Change
from agent.transcript import read_events
from agent.trials import Trial, Trials
from tools.service_types import ChangePlan

_ID = re.compile(r"[a-z0-9][a-z0-9-]{1,63}")
_IN_THREAD = re.compile(r"([a-z0-9][a-z0-9-]{0,63})/(C\d{1,4})")
_HOW = "name THREAD/C1, or the id of its plan, as `leadline cases show THREAD` has them"


@dataclass(frozen=True, slots=True)
class Kept:
    """Hold a kept change: its thread, its plan, its measurements, and when it was kept."""

    thread: str
    change: Change
    plan: ChangePlan
    measured: dict[Phase, Measured]
    judged: Judged | None
    kept_at: datetime

    @property
    def ref(self) -> str:
        """Return the name of the change for people."""
        return f"{self.thread}/{self.change.id}"


def find_kept(settings: Settings, ref: str) -> Kept:
    """Return the kept change that is named; raise `UsageError` when there is none, or it was not kept."""
    if match := _IN_THREAD.fullmatch(ref):
        thread, change = threads.named(settings, match[1]), match[2]
        events = read_events(threads.find(settings, thread) / "transcript.jsonl")
        return _kept(thread, change, events)
    if not _ID.fullmatch(ref):
        raise UsageError(f"{ref!r} is no change", do=_HOW)
    for path in sorted((settings.state_dir / "threads").glob("*/transcript.jsonl"), reverse=True):
        if (found := _in_thread(path, ref)) is not None:
            return found
    folder = settings.state_dir / "threads" / ref
    if (folder / "transcript.jsonl").is_file():
        raise UsageError(f"{ref} is an investigation, not a change", do=_HOW)
    raise UsageError(
        f"no change with the plan {ref} is recorded here",
        do=f"{_HOW}; the record is on the machine that made it, and on the host its file is "
        "90-leadline-ID.conf",
    )


def _in_thread(path: Path, plan: str) -> Kept | None:
    needle = f'"{plan}"'.encode()
    if needle not in path.read_bytes():
        return None
    try:
        events = read_events(path)
    except TranscriptError:
        return None
    trials = _folded(events)
    for change, trial in trials.by_change.items():
        if trial.made.plan.get("id") == plan:
            return _kept(path.parent.name, change, events)
    return None


def _folded(events: list[Event]) -> Trials:
    trials = Trials()
    for event in events:
        trials.feed(event)
    return trials


def _kept(thread: str, change: str, events: list[Event]) -> Kept:
    trials = _folded(events)
    moved = [event for event in events if isinstance(event, ChangeMoved) and event.change.id == change]
    if not moved or change not in trials.by_change:
        raise UsageError(
            f"{thread} has no change {change} that was tried", do=f"see `leadline cases show {thread}`"
        )
    trial, last = trials.by_change[change], moved[-1]
    if last.change.status != "verified":
        status = last.change.status.replace("_", " ")
        raise UsageError(
            f"{thread}/{change} is {status}, not kept", do="only a kept change can be named here"
        )
    plan = _plan(thread, trial)
    if plan.undoes is not None:
        raise UsageError(
            f"{thread}/{change} took {plan.undoes} back; nothing of it stands on {plan.host}",
            do="propose the change anew where it is wanted again",
        )
    return Kept(thread, last.change, plan, dict(trial.measured), trial.judged, last.at)


def _plan(thread: str, trial: Trial) -> ChangePlan:
    try:
        plan = trial.plan
    except ValidationError as error:
        raise UsageError(
            f"the plan of {thread}/{trial.made.change} is damaged", do="take it back by hand"
        ) from error
    if plan.digest() != trial.made.digest:
        raise UsageError(
            f"the plan of {thread}/{trial.made.change} is not the one that was approved",
            do="take it back by hand",
        )
    return plan
