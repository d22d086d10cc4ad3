"""Bind an approval to one exact plan: single use, expiring, checked again right before acting.

The digest covers every field of the plan, its expiry among them. A decision is on the disk before anything
goes on, so that a death between the two asks nobody twice and runs nothing twice.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import ValidationError

from agent.errors import UsageError
from agent.events import ApprovalAsked, ApprovalGiven
from agent.investigation import Investigation
from agent.state import Change, Record
from agent.trials import Trial
from tools.service_types import ChangePlan


class Approval(Record):
    """Hold a person's decision on the plan with this digest."""

    change: str
    digest: str
    decision: Literal["approved", "denied"]
    by: str
    reason: str = ""


class ApprovalRefused(UsageError):
    """Report a decision that fits no plan that waits for one."""


def ask(work: Investigation, interrupt: str) -> ApprovalAsked:
    """Record that the open plan waits for a person, once."""
    trial = work.trials.open
    assert trial is not None  # only the review of a plan interrupts
    if trial.asked is None or trial.asked.interrupt != interrupt:
        work.transcript.append(
            ApprovalAsked(
                turn=work.history.last_turn,
                change=trial.made.change,
                digest=trial.made.digest,
                interrupt=interrupt,
                expires_at=trial.plan.expires_at,
            ),
            durable=True,
        )
    assert trial.asked is not None  # the fold has just taken it in
    return trial.asked


def waiting(work: Investigation) -> ApprovalAsked | None:
    """Return what a person is asked for and has not answered."""
    trial = work.trials.open
    return trial.asked if trial and trial.given is None and trial.void is None else None


def give(work: Investigation, approval: Approval, now: datetime | None = None) -> ApprovalGiven:
    """Record a decision; raise `ApprovalRefused` when it is for another plan, late, or a second one."""
    trial = work.trials.by_change.get(approval.change)
    if trial is None or trial.closed:
        raise ApprovalRefused(f"nothing waits for an approval of {approval.change}", do="propose it first")
    if trial.given is not None:
        raise ApprovalRefused(f"{approval.change} was answered already by {trial.given.by}")
    if trial.asked is None or trial.void is not None:
        raise ApprovalRefused(f"{approval.change} does not wait for an approval", do="go on with the thread")
    if not approval.digest == trial.made.digest == trial.asked.digest:
        raise ApprovalRefused(
            f"the approval of {approval.change} is for another plan ({approval.digest[:12]}, not "
            f"{trial.made.digest[:12]})",
            do="look at the plan that waits now",
        )
    if approval.decision == "approved" and (now or datetime.now(UTC)) >= trial.asked.expires_at:
        raise ApprovalRefused(f"the plan of {approval.change} has expired", do="go on: it is planned anew")
    given = ApprovalGiven(turn=work.history.last_turn, **approval.model_dump())
    stored = work.transcript.append(given, durable=True)
    assert isinstance(stored, ApprovalGiven)  # what was appended, stamped
    return stored


def problem(
    trial: Trial, change: Change, host_key: str | None, approved: str, now: datetime | None = None
) -> str | None:
    """Return why an approved plan may not be carried out now; None when all of it still holds."""
    try:
        plan = trial.plan
    except ValidationError:
        return "the recorded plan is damaged"
    given = trial.given
    if given is None or given.decision != "approved":
        return "nobody approved it"
    if not plan.digest() == trial.made.digest == given.digest == approved:
        return "the plan is not the one that was approved"
    if trial.actions:
        return "the approval was used already"
    if (now or datetime.now(UTC)) >= plan.expires_at:
        return "the plan has expired"
    if host_key != plan.host_key:
        return "the host shows another key than the plan was made for"
    return None if _is_of(plan, change) else "the plan is for another change"


def _is_of(plan: ChangePlan, change: Change) -> bool:
    wanted = (change.host, change.unit, change.setting, change.from_value, change.to_value)
    return wanted == (plan.host, plan.unit, plan.setting, plan.from_value, plan.to_value)
