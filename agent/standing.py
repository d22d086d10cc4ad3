"""Ask a host how a plan stands, for as long as the answer may still become another one."""

from __future__ import annotations

import asyncio
import time

from agent.events import ActionOutcome
from agent.ports import Service
from tools.contract import Host, ToolError
from tools.service_types import ChangePlan, ChangeState, ChangeStatus, Progress

POLL_S = 1.0
"""How often a host is asked while a transaction is at work there."""
UNKNOWN_S = 300.0
"""For how long a host may give no usable answer: a restart of it, or of the network, takes minutes."""
STRANDED_S = 5.0
"""For how long it may say that nothing is at work and no timer armed: so it looks while one fires."""

OUTCOMES: dict[ChangeState, ActionOutcome] = {
    "none": "none",
    "armed": "unknown",
    "applied": "applied",
    "confirmed": "confirmed",
    "rolled_back": "rolled_back",
    "failed": "failed",
    "unknown": "unknown",
}
"""What is recorded of a step, by how its plan stands after it."""


async def at_rest(
    service: Service, host: Host, plan_id: str, at_work_s: float, progress: Progress
) -> ChangeStatus:
    """Return how a plan stands, waiting while the transaction is at work, for so many seconds.

    What cannot be told is ``unknown`` only after minutes in a row without an answer, not after some tries.
    """
    began = time.monotonic()
    until = began + at_work_s
    answered = sound = began
    while True:
        found = await asked(service, host, plan_id)
        now = time.monotonic()
        if found.state != "unknown" or found.stranded:
            answered = now
        if not found.stranded:
            sound = now
        if found.state not in ("armed", "unknown") or now - sound > STRANDED_S or now - answered > UNKNOWN_S:
            return found
        if found.state == "armed" and now > until:
            return found
        progress(f"the host is at work: {found.detail}" if found.state == "armed" else found.detail)
        await asyncio.sleep(POLL_S)


async def asked(service: Service, host: Host, plan_id: str) -> ChangeStatus:
    """Return how a plan stands, asked once; a host that refuses the question leaves it unknown."""
    try:
        return await service.status(host, plan_id)
    except ToolError as error:
        return ChangeStatus(state="unknown", detail=f"the host does not say how it stands: {error}")


async def given_up(service: Service, host: Host, plan: ChangePlan) -> ChangeStatus:
    """Return how a plan stands of which the host knew nothing, once it cannot be begun there any more."""
    try:
        return (await service.roll_back(host, plan)).status
    except ToolError as error:
        return ChangeStatus(state="unknown", detail=f"the host does not say how it stands: {error}")
