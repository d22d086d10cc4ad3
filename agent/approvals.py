"""Bind an approval to one exact plan: single use, expiring, checked again right before acting.

The store (`agent/approvals_store.py`) holds what was decided, for all surfaces; the thread's transcript holds
what was asked and what the run took of it. A decision is in the store first: a death between the two asks
nobody twice. A run uses it after its intent to apply is in the transcript, by one atomic step from `approved`
to `used`: a death between the two runs nothing twice. Neither file alone lets anything run: a decision that
stands in the transcript only, or in the store under another digest, is no decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import ValidationError

from agent.approvals_decide import Decision, decide, stale, take_back
from agent.approvals_policy import policy_digest
from agent.approvals_record import ApprovalRecord, ApprovalRefused, State, id_of
from agent.approvals_store import ApprovalStore
from agent.config import in_force
from agent.errors import LeadlineError, UsageError
from agent.events import ApprovalAsked, ApprovalGiven, ApprovalVoided, Event
from agent.investigation import Investigation
from agent.roles import at_terminal, owner_of, refusal
from agent.spoken import SPOKE
from agent.state import Change, Record
from agent.trials import Trial
from tools.contract import ToolError
from tools.service_types import ChangePlan

__all__ = ["Approval", "ApprovalRefused"]

VOID = {"decision": "void", "digest": ""}


class Approval(Record):
    """Hold the decision of the person at the terminal on the plan with this digest."""

    change: str
    digest: str
    decision: Literal["approved", "denied"]
    by: str
    reason: str = ""


def decided(work: Investigation, interrupt: str) -> dict[str, str] | None:
    """Return the decision on the plan that waits, for its interrupt; ask for it when there is none yet."""
    trial = work.trials.open
    if trial is not None and trial.given is not None:
        return {"decision": trial.given.decision, "digest": trial.given.digest}
    if trial is None or trial.void is not None:
        return VOID
    if work.history.unheard:
        void(work, trial, SPOKE)
        return VOID
    try:
        _ask(work, trial, interrupt)
        record = _stored(work, trial)
    except ValidationError:
        void(work, trial, "the recorded plan is damaged")
        return VOID
    except (UsageError, ToolError) as error:  # no decision of ours, or nobody can say what is allowed now
        void(work, trial, str(error))
        return VOID
    if record.state in ("approved", "denied"):
        given = _take(work, record)
        return {"decision": given.decision, "digest": given.digest}
    state, why = record.state, record.reason or record.state
    if state == "waiting":
        if (end := _stale(work, record, datetime.now(UTC))) is None:
            return None
        state, why = end
    void(work, trial, "nobody decided before it expired" if state == "expired" else why)
    return VOID


def waiting(work: Investigation) -> ApprovalAsked | None:
    """Return what a person is asked for and has not answered."""
    trial = work.trials.open
    return trial.asked if trial and trial.given is None and trial.void is None else None


def approval_of(work: Investigation) -> str:
    """Return the id under which every surface knows the approval that waits."""
    trial = work.trials.open
    assert trial is not None  # the caller has seen what waits
    return _id(work, trial)


def open_elsewhere(work: Investigation) -> bool:
    """Tell whether what waits is still open; another process may have decided it."""
    trial = work.trials.open
    try:
        return trial is None or _stored(work, trial).state == "waiting"
    except ApprovalRefused:
        return False  # gone or not ours: going on asks anew
    except LeadlineError:
        return True  # a store that cannot be read says of nobody that they decided


def give(work: Investigation, approval: Approval, now: datetime | None = None) -> ApprovalGiven:
    """Take the decision of the person at the terminal; raise `ApprovalRefused` when it does not count."""
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
    decision = Decision(
        approval=_id(work, trial),
        digest=approval.digest,
        decision=approval.decision,
        by=at_terminal(approval.by),
        reason=approval.reason,
    )
    return _take(work, decide(work.settings, decision, now=now))


def problem(
    work: Investigation,
    trial: Trial,
    change: Change,
    host_key: str | None,
    approved: str,
    now: datetime | None = None,
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
    at = now or datetime.now(UTC)
    if at >= plan.expires_at:
        return "the plan has expired"
    if host_key != plan.host_key:
        return "the host shows another key than the plan was made for"
    if not _is_of(plan, change):
        return "the plan is for another change"
    try:
        return _unfit(work, trial, _stored(work, trial), at)
    except ApprovalRefused as error:
        return error.what


def claim(work: Investigation, trial: Trial) -> None:
    """Use the approval, once for all processes; raise `ToolError` when it may not be used any more."""
    with ApprovalStore(work.settings.state_dir).writing() as stored:
        try:
            record = stored.get(_id(work, trial))
        except ApprovalRefused as error:
            raise ToolError(error.what) from error
        if (why := _unfit(work, trial, record, datetime.now(UTC))) is not None:
            raise ToolError(why)
        stored.move(record.model_copy(update={"state": "used"}))


def void(work: Investigation, trial: Trial, why: str, before: Sequence[Event] = ()) -> None:
    """Record, in the store and then in the thread, that a plan and its approval do not hold any more.

    What led to it is written ``before`` that, in one piece with it.
    """
    _take_back(work, trial, why)
    event = ApprovalVoided(
        turn=work.history.last_turn, change=trial.made.change, digest=trial.made.digest, why=why
    )
    work.transcript.append_all([*before, event], durable=True)


def withdraw(work: Investigation, trial: Trial, why: str) -> None:
    """Take an approval back that waits, or was given and not used; the thread says why in its own way."""
    if _take_back(work, trial, why):
        work.audit.record(
            "approval_voided",
            thread=_thread(work),
            change=trial.made.change,
            digest=trial.made.digest,
            detail=why,
        )


def _take_back(work: Investigation, trial: Trial, why: str) -> bool:
    if trial.asked is None:
        return False
    state: State = "expired" if datetime.now(UTC) >= trial.asked.expires_at else "voided"
    return take_back(work.settings, _id(work, trial), why, state=state) is not None


def _ask(work: Investigation, trial: Trial, interrupt: str) -> None:
    """Record that the open plan waits for a person, once in the thread and once in the store."""
    plan = trial.plan
    valid = timedelta(seconds=work.settings.approvals.expires_s)
    if trial.asked is None or trial.asked.interrupt != interrupt:
        work.transcript.append(
            ApprovalAsked(
                turn=work.history.last_turn,
                change=trial.made.change,
                digest=trial.made.digest,
                interrupt=interrupt,
                expires_at=min(plan.expires_at, plan.created_at + valid),
            ),
            durable=True,
        )
    assert trial.asked is not None  # the fold has just taken it in
    started = work.history.started
    record = ApprovalRecord(
        id=_id(work, trial),
        thread=_thread(work),
        change=trial.made.change,
        digest=trial.made.digest,
        host=plan.host,
        host_key=plan.host_key,
        unit=plan.unit,
        setting=plan.setting,
        requester=(started.requester if started else None) or at_terminal(),
        risk=_risk(plan),
        policy_digest=policy_digest(in_force(work.settings)),
        created_at=datetime.now(UTC),
        expires_at=trial.asked.expires_at,
    )
    keep = timedelta(days=work.settings.approvals.keep_days)
    with ApprovalStore(work.settings.state_dir).writing() as stored:
        stored.add(record, keep=keep)


def _risk(plan: ChangePlan) -> list[str]:
    known = plan.running_requests is not None and plan.queued_requests is not None
    busy = (plan.running_requests or 0) + (plan.queued_requests or 0)
    rows = [f"{busy} requests in flight" if known else "how many requests are in flight is not known"]
    return [*plan.blast_radius, *rows, f"{plan.restarts_needed} restarts at most"]


def _take(work: Investigation, record: ApprovalRecord) -> ApprovalGiven:
    """Record in the thread what the store says was decided."""
    assert record.decided_by is not None  # approved or denied, so by somebody
    given = ApprovalGiven(
        turn=work.history.last_turn,
        change=record.change,
        digest=record.digest,
        decision="approved" if record.state == "approved" else "denied",
        by=record.decided_by.label(),
        reason=record.reason,
    )
    stored = work.transcript.append(given, durable=True)
    assert isinstance(stored, ApprovalGiven)  # what was appended, stamped
    return stored


def _unfit(work: Investigation, trial: Trial, record: ApprovalRecord, now: datetime) -> str | None:
    """Return why the stored approval does not let the plan of a trial run now."""
    wanted = (_thread(work), trial.made.change, trial.made.digest, trial.plan.digest(), trial.plan.host)
    if wanted != (record.thread, record.change, record.digest, record.digest, record.host):
        return "the plan is not the one that was approved"
    if record.state != "approved" or record.decided_by is None:
        return f"its approval is {record.state}{': ' + record.reason if record.reason else ''}"
    try:
        site = in_force(work.settings)
    except UsageError as error:
        return f"who may approve cannot be read now: {error}"
    if (end := stale(site, record, now)) is not None:
        return end[1]
    owner = owner_of(site.state_dir)
    return refusal(site.approvals, record.decided_by, record.requester, owner=owner, approves=True)


def _stale(work: Investigation, record: ApprovalRecord, now: datetime) -> tuple[State, str] | None:
    try:
        return stale(in_force(work.settings), record, now)
    except UsageError as error:
        return "voided", f"who may approve cannot be read now: {error}"


def _stored(work: Investigation, trial: Trial) -> ApprovalRecord:
    return ApprovalStore(work.settings.state_dir).get(_id(work, trial))


def _id(work: Investigation, trial: Trial) -> str:
    return id_of(_thread(work), trial.made.change, trial.made.digest)


def _thread(work: Investigation) -> str:
    assert work.history.started is not None  # a transcript begins with it
    return work.history.started.thread


def _is_of(plan: ChangePlan, change: Change) -> bool:
    wanted = (change.host, change.unit, change.setting, change.from_value, change.to_value)
    return wanted == (plan.host, plan.unit, plan.setting, plan.from_value, plan.to_value)
