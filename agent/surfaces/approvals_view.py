"""List, show, grant and deny approvals from any terminal; a run that waits takes it up by itself."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agent import threads
from agent.approvals_record import ApprovalForged, ApprovalRecord, ApprovalRefused, State
from agent.config import Settings, load_settings
from agent.errors import UsageError
from agent.surfaces.console import write_fitted
from tools.display import printable, visible_json

if TYPE_CHECKING:
    from agent.state import Change
    from tools.service_types import ChangePlan

TYPED = 8
"""Characters of the plan's digest that a person types; it stands at the end of what they have to read."""

BOUND = 12
"""Characters that --digest needs at least."""


def list_approvals(*, everything: bool, as_json: bool) -> None:
    """Print a line for each approval that is open, or for all of them."""
    from agent.approvals_store import ApprovalStore

    settings = load_settings()
    now = datetime.now(UTC)
    shown = 0
    store = ApprovalStore(settings.state_dir)
    for name in store.ids():
        try:
            record: ApprovalRecord | None = store.get(name)
        except ApprovalForged:
            record = None
        state = state_of(record, now) if record else "forged"
        if not everything and state not in ("waiting", "approved", "forged"):
            continue
        shown += 1
        sys.stdout.write(_row(name, record, state, as_json=as_json))
    if not shown and not as_json:
        write_fitted("Nothing waits. Changes are tried with: leadline ask HOST SYMPTOM --mode apply\n")


def show_approval(approval: str, *, as_json: bool) -> None:
    """Print all that is approved, or was: the diff, the plan field by field, who asked, who decided."""
    settings = load_settings()
    record = _record(settings, approval)
    plan, change = _planned(settings, record)
    if as_json:
        whole = {"approval": record.model_dump(mode="json"), "plan": plan.model_dump(mode="json")}
        sys.stdout.write(json.dumps(whole) + "\n")
        return
    sys.stdout.write(_text(record, plan, change))


def decide_approval(approval: str, *, grants: bool, digest: str | None, reason: str, as_json: bool) -> None:
    """Store the decision of the person at this terminal, bound to the plan that they saw."""
    from agent.approvals_decide import Decision, decide
    from agent.roles import at_terminal

    settings = load_settings()
    record = _record(settings, approval)
    if grants:
        _bind(settings, record, digest)
    elif digest is not None:
        _same(record, digest)
    decision = Decision(
        approval=approval,
        digest=record.digest,
        decision="approved" if grants else "denied",
        by=at_terminal(),
        reason=reason,
    )
    done = decide(settings, decision)
    if as_json:
        sys.stdout.write(visible_json(done.model_dump_json()) + "\n")
        return
    sys.stdout.write(f"{_said(done)}\n{_next(done)}\n")


def _bind(settings: Settings, record: ApprovalRecord, digest: str | None) -> None:
    """Make sure that the plan to be approved is the one that was seen."""
    plan, change = _planned(settings, record)
    if digest is not None:
        _same(record, digest)
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "no terminal to show the plan at",
            do=f"read `leadline approvals show {record.id}`, then add --digest with the plan's digest",
        )
    sys.stderr.write(_text(record, plan, change))
    sys.stderr.write(f"To approve it, type the first {TYPED} characters of the plan's digest: ")
    sys.stderr.flush()
    typed = sys.stdin.readline().strip().lower()
    if len(typed) < TYPED or not record.digest.startswith(typed):
        raise ApprovalRefused(f"{typed!r} is not how the digest begins; nothing was decided")


def _same(record: ApprovalRecord, digest: str) -> None:
    if len(digest) < BOUND:
        raise UsageError(f"--digest {digest}: too short", do=f"give at least {BOUND} characters of it")
    if not record.digest.startswith(digest.lower()):
        raise ApprovalRefused(
            f"approval {record.id} is for another plan ({record.digest[:BOUND]}, not {digest[:BOUND]})",
            do=f"see `leadline approvals show {record.id}`",
        )


def _record(settings: Settings, approval: str) -> ApprovalRecord:
    from agent.approvals_store import ApprovalStore

    return ApprovalStore(settings.state_dir).get(approval)


def _planned(settings: Settings, record: ApprovalRecord) -> tuple[ChangePlan, Change]:
    """Return the plan and the change from the transcript; refuse a plan that is not the one asked for."""
    from agent.events import ChangeMoved, PlanMade
    from agent.transcript import peek_events
    from tools.service_types import ChangePlan

    plan: ChangePlan | None = None
    change: Change | None = None
    for event in peek_events(threads.find(settings, record.thread) / "transcript.jsonl"):
        if isinstance(event, PlanMade) and event.digest == record.digest:
            with suppress(ValueError):
                plan = ChangePlan.model_validate(event.plan)
        elif isinstance(event, ChangeMoved) and event.change.id == record.change:
            change = event.change
    if plan is None or change is None or plan.digest() != record.digest:
        raise ApprovalRefused(
            f"the transcript of {record.thread} does not hold the plan of approval {record.id}",
            do="deny it; nothing can run by it",
        )
    return plan, change


def _text(record: ApprovalRecord, plan: ChangePlan, change: Change) -> str:
    from agent.surfaces.approving import plan_text

    fields = plan.model_dump(mode="json", exclude={"diff"})
    state = state_of(record, datetime.now(UTC))
    head = f"approval {record.id}: {state}, asked for by {record.requester.label()}"
    return "".join(
        [
            f"{printable(head)} in {record.thread}\n",
            f"{_said(record)}\n" if record.state != "waiting" else "",
            plan_text(plan, change),
            "Everything that is approved:\n",
            *(f"  {name}: {_value(value)}\n" for name, value in fields.items()),
            f"\nplan digest {record.digest}\n",
        ]
    )


def _value(value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return "".join(f"\n    | {printable(line)}" for line in value.split("\n"))
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _row(name: str, record: ApprovalRecord | None, state: str, *, as_json: bool) -> str:
    if record is None:
        told = "its record does not carry this installation's seal; it lets nothing run"
        return (json.dumps({"id": name, "state": state}) if as_json else f"{name}  {state:<8} {told}") + "\n"
    if as_json:
        return json.dumps(record.model_dump(mode="json") | {"state": state}) + "\n"
    until = f"until {record.expires_at:%H:%M:%S} UTC" if state in ("waiting", "approved") else record.reason
    what = f"{record.change} {record.setting} of {record.unit} on {record.host}"
    who = f"asked for by {record.requester.label()} in {record.thread}"
    return printable(f"{name}  {state:<8} {what}; {who}{'; ' + until if until else ''}") + "\n"


def state_of(record: ApprovalRecord, now: datetime) -> State:
    """Return the state as it is now: what is open and past its time is expired, whoever writes that down."""
    open_ = record.state in ("waiting", "approved")
    return "expired" if open_ and now >= record.expires_at else record.state


def _said(record: ApprovalRecord) -> str:
    who = f" by {record.decided_by.label()}" if record.decided_by else ""
    when = f" at {record.decided_at:%Y-%m-%d %H:%M:%S} UTC" if record.decided_at else ""
    why = f": {record.reason}" if record.reason else ""
    return printable(f"{record.change} {record.state}{who}{when}{why}")


def _next(record: ApprovalRecord) -> str:
    again = f"leadline ask {record.host} --resume {record.thread}"
    return printable(f"A run that waits goes on by itself; one that has ended: {again}")
