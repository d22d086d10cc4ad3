"""Decide on an approval: the one door for the terminal, HTTP and Slack, whatever process they run in.

A surface says who decides, by ids that it has authenticated, on which plan, by its whole digest. Whether that
counts is judged here, under the store's write lock: of any number of decisions one is first. What was refused
is audited like what was not; an audit record that cannot be written lets nothing through.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from pydantic import Field

from agent.approvals_policy import policy_digest
from agent.approvals_record import ApprovalRecord, ApprovalRefused, State
from agent.approvals_store import ApprovalStore, Writing
from agent.audit import audit_of
from agent.audit_record import Kind
from agent.config import Settings, in_force
from agent.errors import LeadlineError
from agent.roles import Person, may_take_back, owner_of, refusal
from agent.state import Record
from tools.contract import ToolError
from tools.display import printable

Audit = Callable[[dict[str, Any]], None]
"""Take one record in, on the disk, or raise: then the decision does not count. Default: `agent.audit`."""

REASON_CHARS = 1000


class Decision(Record):
    """Say what a person decided on which plan."""

    approval: str
    digest: str = Field(description="Of the plan that the person saw, whole.")
    decision: Literal["approved", "denied"]
    by: Person
    reason: str = ""
    click: tuple[str, str, str, str] | None = Field(
        default=None,
        description="Team, user, action_ts, action_id: delivered again, it is the same click.",
    )


def decide(
    settings: Settings, decision: Decision, *, audit: Audit | None = None, now: datetime | None = None
) -> ApprovalRecord:
    """Store a decision and return the approval; raise `ApprovalRefused` when it does not count.

    A click that is delivered again gets the answer of the first time and changes nothing.
    """
    settings = in_force(settings)  # the roles of today, however long this process has run
    at = now or datetime.now(UTC)
    click = None if decision.click is None else json.dumps(decision.click)
    refused: ApprovalRefused | None = None
    with ApprovalStore(settings.state_dir).writing() as stored:
        said = None if click is None else stored.heard(click)
        if said:
            raise ApprovalRefused(said)
        if said is not None:
            return stored.get(decision.approval)
        before: ApprovalRecord | None = None
        try:
            before = stored.get(decision.approval)
            record = _decided(settings, stored, before, decision, at)
        except ApprovalRefused as error:
            refused = error
        if click is not None:
            stored.hear(click, decision.approval, str(refused or ""))
        (audit or partial(_write_down, settings))(_told(settings, decision, before, refused))
    if refused is not None:
        raise refused
    return record


def take_back(
    settings: Settings, approval: str, why: str, *, state: State = "voided"
) -> ApprovalRecord | None:
    """Void what waits or is approved, whatever was decided meanwhile; return None when nothing stood open."""
    with ApprovalStore(settings.state_dir).writing() as stored:
        try:
            record = stored.get(approval)
            return stored.move(record.model_copy(update={"state": state, "reason": printable(why)}))
        except ApprovalRefused:
            return None  # never asked, at its end already, or not ours: none of them lets anything run


def stale(settings: Settings, record: ApprovalRecord, now: datetime) -> tuple[State, str] | None:
    """Return the end that an open approval has come to by itself, and why; None while it holds."""
    if now >= record.expires_at:
        return "expired", f"the plan of {record.change} has expired"
    try:
        same = policy_digest(settings) == record.policy_digest
    except ToolError as error:
        return "voided", f"the command policy cannot be read now: {error}"
    return None if same else ("voided", "the command policy was changed since it was asked for")


def _decided(
    settings: Settings, stored: Writing, record: ApprovalRecord, decision: Decision, now: datetime
) -> ApprovalRecord:
    owner = owner_of(settings.state_dir)
    approves = decision.decision == "approved"
    why = refusal(settings.approvals, decision.by, record.requester, owner=owner, approves=approves)
    if why is not None:
        raise ApprovalRefused(f"{why}; nothing was decided", do="ask somebody who may (docs/approvals.md)")
    if decision.digest != record.digest:
        raise ApprovalRefused(
            f"the approval of {record.change} is for another plan ({decision.digest[:12]}, not "
            f"{record.digest[:12]})",
            do="look at the plan that waits now",
        )
    if record.state == "approved" and not approves and record.decided_by is not None:
        return _taken_back(settings, stored, record, decision, owner)
    if record.state != "waiting":
        raise ApprovalRefused(_answered(record))
    if (end := stale(settings, record, now)) is not None and (approves or end[0] != "expired"):
        stored.move(record.model_copy(update={"state": end[0], "reason": end[1]}))
        raise ApprovalRefused(end[1], do="go on: it is planned anew")
    given = {"state": decision.decision, "decided_by": decision.by, "decided_at": now}
    return stored.move(record.model_copy(update=given | {"reason": _clean(settings, decision.reason)}))


def _taken_back(
    settings: Settings, stored: Writing, record: ApprovalRecord, decision: Decision, owner: str
) -> ApprovalRecord:
    assert record.decided_by is not None  # it is approved
    if not may_take_back(settings.approvals, decision.by, record.decided_by, owner=owner):
        raise ApprovalRefused(
            f"{_answered(record)}; only they, or an admin, may take it back", do="ask one of them"
        )
    said = _clean(settings, decision.reason)
    why = f"{decision.by.label()} took the approval back{': ' + said if said else ''}"
    return stored.move(record.model_copy(update={"state": "voided", "reason": why}))


def _answered(record: ApprovalRecord) -> str:
    who = f" by {record.decided_by.label()}" if record.decided_by else ""
    match record.state:
        case "approved" | "denied":
            return f"{record.change} was answered already{who}: {record.state}"
        case "used":
            return f"{record.change} was answered already{who}, and the approval is used"
        case _:
            return f"{record.change} does not wait any more: {record.reason or record.state}"


def _clean(settings: Settings, reason: str) -> str:
    from agent.own_secrets import masking

    # Masked before the lines are joined: some secrets are told by the line that they stand in.
    told = masking(settings)(reason.encode("utf-8", "replace")).decode("utf-8", "replace")
    told = printable(" ".join(told.split()))
    return told if len(told) <= REASON_CHARS else told[:REASON_CHARS] + " [cut]"


def _told(
    settings: Settings, decision: Decision, record: ApprovalRecord | None, refused: ApprovalRefused | None
) -> dict[str, Any]:
    """Return what the audit is told; ``counts`` says whether it is what was decided."""
    known = record.model_dump(include={"thread", "host", "host_key", "change"}) if record else {}
    return {
        **known,
        "approval": decision.approval,
        "digest": decision.digest,
        "decision": decision.decision,
        "by": decision.by.model_dump(mode="json"),
        "counts": refused is None,
        "why": str(refused) if refused else _clean(settings, decision.reason),
    }


def _write_down(settings: Settings, told: dict[str, Any]) -> None:
    """Put a decision into the audit of this installation; one that counts waits until it is there."""
    kind: Kind = "approval_refused"
    if told["counts"]:
        kind = "approval_given" if told["decision"] == "approved" else "approval_denied"
    known = {name: told.get(name) for name in ("thread", "host", "host_key", "change")}
    by = Person.model_validate(told["by"])
    what = printable(f"approval {told['approval']}, by {by.label()} ({':'.join(by.key)})")
    try:
        audit_of(settings).record(
            kind,
            needed=told["counts"],
            **known,
            digest=told["digest"],
            what=what,
            outcome="decided" if told["counts"] else "refused",
            detail=printable(told["why"]),
        )
    except ToolError as error:
        raise LeadlineError(f"nothing was decided: {error}") from error
