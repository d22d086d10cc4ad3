"""Change a service as one transaction on its host, with a rollback timer armed before anything changes.

Reads make a plan; a person approves its digest; then a program on the host (``transaction.sh``) does the
rest and holds the truth. Nothing here is retried blindly: after a lost link, `status` asks the host.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from tools.contract import Host, ToolError
from tools.service_plan import make_plan
from tools.service_standing import Holding, holding
from tools.service_types import (
    Applied,
    ChangePlan,
    ChangeRequest,
    ChangeState,
    ChangeStatus,
    EnvironmentChange,
    Finished,
    Progress,
)
from tools.service_undo import make_undo
from tools.transaction import call, is_preparing, no_answer, parse, program

__all__ = [
    "Applied",
    "ChangePlan",
    "ChangeRequest",
    "ChangeState",
    "ChangeStatus",
    "EnvironmentChange",
    "Finished",
    "Holding",
    "Progress",
    "apply",
    "confirm",
    "extend",
    "holding",
    "make_plan",
    "make_undo",
    "roll_back",
    "status",
]

_BEGIN_S = 180.0
_GRACE_S = 150.0
"""Beyond the limits of the plan: what stopping the old processes may take, twice."""
_ORDERS = 3
"""How often the way back is ordered whose order was lost; to be ordered twice does no harm."""
_NOTHING_S = 20.0
"""How long a host may know nothing of a plan that was sent before we stop looking for it."""


async def apply(host: Host, plan: ChangePlan, approved_digest: str, progress: Progress) -> Applied:
    """Do an approved plan; raise `ToolError` when it is refused, before anything was changed."""
    if plan.digest() != approved_digest:
        raise ToolError("this is not the plan that was approved; ask for an approval of this one")
    if datetime.now(UTC) >= plan.expires_at:
        raise ToolError("the plan has expired; make a new one and have it approved")
    if host.name != plan.host:
        raise ToolError(f"the plan is for {plan.host}, not for {host.name}")
    if host.key_fingerprint != plan.host_key:
        raise ToolError(f"{host.name} has another host key than the one that the plan was made on")
    clock = time.monotonic()
    result = await call(host, "begin", plan.id, plan=plan, sent=program(plan), timeout_s=_BEGIN_S)
    if not result.ok:
        progress(no_answer(result).detail)
    try:
        found = await _follow(host, plan, progress)
    except ToolError as error:  # it may have begun: a refusal to answer is no refusal to change
        found = ChangeStatus(state="unknown", detail=f"the host does not say how it stands: {error}")
    outcome = found.state if found.state in ("applied", "rolled_back", "failed") else "unknown"
    return Applied(
        outcome=outcome, plan_id=plan.id, detail=found.detail, status=found, seconds=time.monotonic() - clock
    )


async def _follow(host: Host, plan: ChangePlan, progress: Progress, *, undoing: bool = False) -> ChangeStatus:
    """Ask until the transaction has come to rest, or as long as it may take."""
    began = time.monotonic()
    limit = began + 2 * plan.readiness_s + plan.rollback_after_s + _GRACE_S
    told = gone = 0
    rest = {"rolled_back", "failed", "confirmed"} | (set() if undoing else {"applied"})
    while True:
        result = await call(host, "status", plan.id)
        found, ended = parse(result.stdout.data) if result.ok else (no_answer(result), False)
        for line in found.progress[told:]:
            progress(line)
        told = max(told, len(found.progress))
        gone = gone + 1 if ended else 0
        lost = found.state == "none" and time.monotonic() - began > _NOTHING_S
        if found.state in rest or lost or time.monotonic() > limit:
            return found
        if gone == 3 and not undoing:
            progress("the program on the host has ended; rolling back")
            return (await roll_back(host, plan)).status
        await asyncio.sleep(0.3 if time.monotonic() - began < 10 else 1.5)


async def status(host: Host, plan_id: str) -> ChangeStatus:
    """Ask the host where a plan stands; a lost link gives ``unknown``."""
    result = await call(host, "status", plan_id)
    return parse(result.stdout.data)[0] if result.ok else no_answer(result)


async def extend(host: Host, plan: ChangePlan, seconds: float) -> ChangeStatus:
    """Let the armed timer of an applied plan fire only so many seconds from now; return where it stands."""
    result = await call(host, "extend", plan.id, [f"{max(1.0, seconds):g}"])
    return parse(result.stdout.data)[0] if result.ok else await status(host, plan.id)


async def confirm(host: Host, plan: ChangePlan) -> Finished:
    """Keep an applied change: disarm its timer. Safe to call again.

    Raise `ToolError` when the process that was verified is not the one that runs any more.
    """
    result = await call(host, "confirm", plan.id, timeout_s=plan.readiness_s + _GRACE_S)
    found = parse(result.stdout.data)[0] if result.ok else await status(host, plan.id)
    return _finished(plan, found)


async def roll_back(host: Host, plan: ChangePlan) -> Finished:
    """Restore the state before the change and restart once. Safe to call again.

    A plan that the host knows nothing of is given up there: a call that is still on its way begins nothing.
    """
    found = await _begun(host, plan)
    if found.state == "none":
        detail = "nothing was changed"
        return Finished(outcome="rolled_back", plan_id=plan.id, detail=detail, status=found)
    if found.state not in ("rolled_back", "confirmed"):
        for _ in range(_ORDERS):
            if await _ordered(host, plan, found):
                break
            found = await status(host, plan.id)
            if found.state != "applied" and not found.stranded:
                break  # it was heard, though its answer was lost
        found = await _follow(host, plan, lambda text: None, undoing=True)
    return _finished(plan, found)


async def _ordered(host: Host, plan: ChangePlan, found: ChangeStatus) -> bool:
    """Order the way back once; tell whether the host answered."""
    if found.detail.startswith("this host was restarted"):
        limit = plan.readiness_s + _GRACE_S
        sent = program(plan)
        return (await call(host, "recover", plan.id, plan=plan, sent=sent, timeout_s=limit)).ok
    return (await call(host, "order", plan.id)).ok


async def _begun(host: Host, plan: ChangePlan) -> ChangeStatus:
    """Return where a plan stands once no call can begin it any more."""
    limit = time.monotonic() + _BEGIN_S
    while True:
        result = await call(host, "withdraw", plan.id)
        found = parse(result.stdout.data)[0] if result.ok else no_answer(result)
        if not is_preparing(found) or time.monotonic() > limit:
            return found
        await asyncio.sleep(0.3)


def _finished(plan: ChangePlan, found: ChangeStatus) -> Finished:
    outcome = found.state if found.state in ("confirmed", "rolled_back", "failed") else "unknown"
    return Finished(outcome=outcome, plan_id=plan.id, detail=found.detail, status=found)
