"""Before a host is changed again: how did every plan end that was begun there and has no known end?"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from agent.executions import Executions
from agent.standing import at_rest
from tools.contract import Host, ToolError
from tools.service_types import ChangePlan

if TYPE_CHECKING:
    from agent.investigation import Investigation


async def settle_open(work: Investigation, host: Host, plan: ChangePlan) -> str | None:
    """Close the executions that the host knows the end of; return why nothing else may be begun there."""
    ledger = Executions(work.settings.state_dir)
    try:
        for earlier in ledger.open_on(plan.host, plan.host_key):
            if earlier.digest == plan.digest():
                continue
            found = await at_rest(work.ports.service, host, earlier.plan, 0.0, lambda text: None)
            if found.state in ("armed", "applied", "unknown"):
                return (
                    f"plan {earlier.plan}, which thread {earlier.thread} began at {earlier.begun_at}, "
                    f"has no end yet: {found.detail}; resume that thread first"
                )
            ledger.ended(earlier.digest, f"{found.state}, as found on the host")
    except ToolError as error:
        return str(error)
    return None


def closed(work: Investigation, plan: ChangePlan, result: str) -> None:
    """Note how a plan ended; where that cannot be written, the host is read the next time."""
    if result != "needs_person":
        with contextlib.suppress(ToolError):
            Executions(work.settings.state_dir).ended(plan.digest(), result)
