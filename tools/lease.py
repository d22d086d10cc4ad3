"""The lease of a host: one session at a time changes it, and who was overtaken is refused there.

The host keeps it (``transaction_enter.sh``), so that it holds between machines too. The token rises with
every session that is let in; a plan that holds an older one cannot be begun.
"""

from __future__ import annotations

from tools.contract import Host, ToolError
from tools.service_types import ChangePlan
from tools.transaction import call, no_answer

LEASE_S = 120.0
"""How long a session that died keeps others out, before its change was begun."""


class Leased(ToolError):
    """Report that another session is changing the host: to be waited for."""


class Overtaken(ToolError):
    """Report that another session was let in since the plan was made: waiting does not help that plan."""


async def take(host: Host, plan: ChangePlan, seconds: float = LEASE_S) -> int | None:
    """Take, or renew, the lease for a plan; return its token, None when the host gave no answer.

    Raise `Leased` when another session has it, `Overtaken` when one had it since this plan was made, another
    `ToolError` when the account may not change the host.
    """
    try:
        result = await call(host, "lease", plan.id, [f"{seconds:g}"], timeout_s=30.0)
    except ToolError as error:
        if "was let in" in str(error):
            raise Overtaken(f"{host.name}: {error}") from error
        if "another session" in str(error) or "is open" in str(error):
            raise Leased(f"{host.name}: {error}") from error
        raise
    said = result.stdout.data.decode("ascii", "replace").strip()
    if not result.ok or not said.startswith("token="):
        raise ToolError(f"the lease of {host.name} could not be taken: {no_answer(result).detail}")
    return int(said.removeprefix("token=")) if said.removeprefix("token=").isdigit() else None


async def give_back(host: Host, plan: ChangePlan) -> None:
    """Let the next session in; a lease that another one holds stays."""
    await call(host, "release", plan.id, timeout_s=10.0)
