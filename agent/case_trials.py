"""Tell for a case file what was done about each change: plan, approval, steps, measurements, verdict."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean

from pydantic import Field

from agent.events import (
    ActionFinished,
    ActionStarted,
    ApprovalGiven,
    ApprovalVoided,
    Event,
    Judged,
    Measured,
    PlanMade,
)
from agent.plots import Bar, Group, Tone
from agent.state import Comparison, Level, Measurement, Record


class PlanView(Record):
    """What a person sees of a plan; empty texts where an older plan lacks a field."""

    digest: str
    diff: str
    dropin_path: str
    rollback_after_s: float | None


class StepRow(Record):
    """One thing that happened to a change: an approval, or a step on the host."""

    at: datetime
    what: str
    text: str
    good: bool | None = None


class Trial(Record):
    """A change as it was tried."""

    change: str
    plan: PlanView | None = None
    steps: list[StepRow] = Field(default_factory=list)
    before: Measurement | None = None
    after: Measurement | None = None
    comparison: Comparison | None = None
    predicted: str = ""
    measured: str = ""
    touched: bool = Field(default=False, description="A step on the host was begun.")


def trials(events: Sequence[Event]) -> dict[str, Trial]:
    """Return what was tried, by the id of the change, in order."""
    found: dict[str, Trial] = {}
    seen: list[Measurement] = []
    for event in events:
        if isinstance(event, PlanMade):
            found.setdefault(event.change, Trial(change=event.change)).plan = _plan(event)
        elif isinstance(event, Measured):
            trial = found.setdefault(event.change, Trial(change=event.change))
            setattr(trial, "before" if event.phase == "baseline" else "after", event.measurement)
            seen.append(event.measurement)
        elif isinstance(event, Judged):
            trial = found.setdefault(event.change, Trial(change=event.change))
            trial.comparison = event.comparison
            trial.predicted, trial.measured = event.predicted, event.measured
            trial.before = trial.before or _standing(event.comparison, seen)
        elif isinstance(event, ApprovalGiven | ApprovalVoided | ActionFinished | ActionStarted):
            _step(found.setdefault(event.change, Trial(change=event.change)), event)
    return found


def _standing(comparison: Comparison, seen: Sequence[Measurement]) -> Measurement | None:
    """Return the earlier measurement that a comparison took as its baseline, told by its means."""
    wanted = {level.concurrency: level.before for level in comparison.levels if level.before is not None}
    for one in reversed(seen):
        means = {level.concurrency: fmean(level.throughput) for level in one.levels if level.throughput}
        if wanted and all(abs(means.get(key, 0.0) - mean) <= 1e-3 * mean for key, mean in wanted.items()):
            return one
    return None


def _plan(event: PlanMade) -> PlanView:
    after = event.plan.get("rollback_after_s")
    return PlanView(
        digest=event.digest,
        diff=str(event.plan.get("diff") or ""),
        dropin_path=str(event.plan.get("dropin_path") or ""),
        rollback_after_s=float(after) if isinstance(after, int | float) else None,
    )


_GOOD = {"applied": True, "extended": True, "confirmed": True, "rolled_back": None, "none": None}


def _step(trial: Trial, event: ApprovalGiven | ApprovalVoided | ActionFinished | ActionStarted) -> None:
    if isinstance(event, ActionStarted):
        trial.touched = True
        return
    if isinstance(event, ApprovalGiven):
        text = f"by {event.by}{': ' + event.reason if event.reason else ''}"
        row = StepRow(at=event.at, what=event.decision, text=text, good=event.decision == "approved")
    elif isinstance(event, ApprovalVoided):
        row = StepRow(at=event.at, what="approval void", text=event.why, good=False)
    else:
        trial.touched = True
        good = _GOOD.get(event.outcome, False)
        what = event.outcome if good is not False else f"{event.step} {event.outcome}"
        row = StepRow(at=event.at, what=what.replace("_", " "), text=event.detail, good=good)
    if not trial.steps or (trial.steps[-1].what, trial.steps[-1].text) != (row.what, row.text):
        trial.steps.append(row)


def course(found: Sequence[Trial]) -> list[Group]:
    """Return the one picture of an experiment: throughput as found, then after each change."""
    measured = [trial for trial in found if trial.before and trial.after]
    if not measured or measured[0].before is None:
        return []
    groups: list[Group] = []
    for level in measured[0].before.levels:
        bars = [_bar("as found", level, "before")] if level.throughput else []
        for trial in measured:
            after = _at(trial.after, level.concurrency)
            if after is not None and after.throughput:
                kept = trial.comparison is not None and trial.comparison.kept
                bars.append(_bar(f"{trial.change} {'kept' if kept else 'undone'}", after, _tone(kept)))
        groups.append(Group(_heading(level.concurrency), bars))
    return [group for group in groups if group.bars]


def before_after(trial: Trial) -> list[Group]:
    """Return the bars of one trial: before and after at each concurrency."""
    groups: list[Group] = []
    for level in trial.before.levels if trial.before else []:
        after = _at(trial.after, level.concurrency)
        pairs = [("before", level), ("after", after)]
        bars = [_bar(name, one, _tone(name == "after")) for name, one in pairs if one and one.throughput]
        groups.append(Group(_heading(level.concurrency), bars))
    return [group for group in groups if group.bars]


def power(trial: Trial) -> list[Group]:
    """Return the mean power of a GPU before and after at each concurrency."""
    groups: list[Group] = []
    for level in trial.before.levels if trial.before else []:
        after = _at(trial.after, level.concurrency)
        pairs = [("before", level), ("after", after)]
        bars = [
            Bar(name, one.power_w, _tone(name == "after"))
            for name, one in pairs
            if one is not None and one.power_w is not None
        ]
        groups.append(Group(_heading(level.concurrency), bars))
    return [group for group in groups if group.bars]


def _at(measurement: Measurement | None, concurrency: int) -> Level | None:
    levels = measurement.levels if measurement else []
    return next((level for level in levels if level.concurrency == concurrency), None)


def _bar(label: str, level: Level, tone: Tone) -> Bar:
    values = level.throughput
    interval = (min(values), max(values)) if len(values) > 1 else None
    return Bar(label, fmean(values), tone, interval)


def _tone(good: bool) -> Tone:
    return "after" if good else "before"


def _heading(concurrency: int) -> str:
    return f"{concurrency} request{'' if concurrency == 1 else 's'} in flight"
