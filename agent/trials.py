"""Fold events into the trials of changes: plan, decision, steps on the host, measurements, verdict."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import get_args

from agent.events import (
    ActionFinished,
    ActionStarted,
    ApprovalAsked,
    ApprovalGiven,
    ApprovalVoided,
    ChangeMoved,
    Event,
    Judged,
    Measured,
    Phase,
    PlanMade,
    ToolFinished,
    UndoAsked,
    UserMessage,
)
from tools.service_types import ChangePlan

_Told = ApprovalAsked | ApprovalGiven | ApprovalVoided | ActionStarted | ActionFinished | Measured | Judged
_TOLD = get_args(_Told)


@dataclass(slots=True)
class Action:
    """Hold one step on a host; without an end it is not known whether it was taken."""

    started: ActionStarted
    finished: ActionFinished | None = None


@dataclass(slots=True)
class Trial:
    """Hold what is recorded of trying one change out by one plan."""

    made: PlanMade
    asked: ApprovalAsked | None = None
    given: ApprovalGiven | None = None
    void: str | None = None
    """Why the plan no longer holds."""
    actions: list[Action] = field(default_factory=list)
    measured: dict[Phase, Measured] = field(default_factory=dict)
    judged: Judged | None = None
    closed: bool = False
    """The call that proposed the change has its result."""

    @property
    def plan(self) -> ChangePlan:
        """Return the recorded plan; raise `ValueError` when it is none."""
        return ChangePlan.model_validate(self.made.plan)

    @property
    def acting(self) -> bool:
        """Tell whether the host may be in the middle of this change."""
        return bool(self.actions) and not self.closed

    def unfinished(self) -> Action | None:
        """Return the step that was started and has no recorded end."""
        return next((action for action in self.actions if action.finished is None), None)


class Trials:
    """Know every trial by its change, the one that is open, and the measurement in force of each unit."""

    def __init__(self) -> None:
        self.by_change: dict[str, Trial] = {}
        self.plans: dict[str, int] = {}
        """How many plans were made for a change."""
        self.standing: dict[tuple[str, str], Measured] = {}
        """By host and unit: the last measurement of the state that the unit is in."""
        self.undo: UndoAsked | None = None
        """The kept change that this thread is to take back."""
        self.unsettled: dict[str, str] = {}
        """By host: the change of which nobody knows how it left the host."""

    @property
    def open(self) -> Trial | None:
        """Return the trial that waits for a decision or is under way."""
        return next((trial for trial in self.by_change.values() if not trial.closed), None)

    def feed(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case UndoAsked():
                self.undo = event
            case PlanMade():
                earlier = self.by_change.get(event.change)
                known = dict(earlier.measured) if earlier else {}
                self.by_change[event.change] = Trial(event, measured=known)
                self.plans[event.change] = self.plans.get(event.change, 0) + 1
            case ChangeMoved() if event.change.status in ("verified", "rolled_back"):
                self._settled(event)
            case ToolFinished() if event.tool == "propose_change":
                self._closed(event)
            case UserMessage():
                self.unsettled.clear()  # a person has looked, or takes it on themselves
            case _:
                if isinstance(event, _TOLD) and event.change in self.by_change:
                    self._feed_trial(self.by_change[event.change], event)

    def _feed_trial(self, trial: Trial, event: _Told) -> None:
        match event:
            case ApprovalAsked():
                trial.asked = event
            case ApprovalGiven():
                trial.given = event
            case ApprovalVoided(why=why):
                trial.void = why
            case ActionStarted():
                trial.actions.append(Action(event))
            case ActionFinished():
                open_ = (action for action in trial.actions if action.started.action == event.action)
                next(open_).finished = event
            case Measured():
                trial.measured[event.phase] = event
                if event.phase == "baseline":
                    self.standing[_unit(trial)] = event
            case Judged():
                trial.judged = event

    def _settled(self, event: ChangeMoved) -> None:
        trial = self.by_change.get(event.change.id)
        if trial is None:
            return
        after = trial.measured.get("after")
        if event.change.status == "verified" and after is not None:
            self.standing[_unit(trial)] = after

    def _closed(self, event: ToolFinished) -> None:
        for trial in self.by_change.values():
            if trial.made.tool_call_id != event.tool_call_id:
                continue
            trial.closed = True
            if trial.actions and _result(event.view) == "needs_person":
                self.unsettled[_unit(trial)[0]] = trial.made.change
                self.standing.pop(_unit(trial), None)


def _result(view: str) -> str:
    try:
        return str(json.loads(view).get("result"))
    except (ValueError, AttributeError):
        return "needs_person"  # a result that cannot be read settles nothing


def _unit(trial: Trial) -> tuple[str, str]:
    return str(trial.made.plan.get("host")), str(trial.made.plan.get("unit"))
