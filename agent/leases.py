"""Hold a host for the changes of one session: a lock among the processes here, a lease on the host itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.host_lock import HostBusy, host_lock
from tools.contract import Host, ToolError
from tools.lease import LEASE_S, Leased, Overtaken, give_back, take
from tools.service_types import ChangePlan

if TYPE_CHECKING:
    from agent.investigation import Investigation

_GIVE_BACK_S = 15.0


@dataclass(frozen=True, slots=True)
class HostLease:
    """Take, renew and give back the lease that a host keeps."""

    seconds: float = LEASE_S

    async def take(self, host: Host, plan: ChangePlan) -> int | None:
        """Return the token of the lease; raise `Leased` or `Overtaken` as `tools.lease.take` does."""
        return await take(host, plan, self.seconds)

    async def give_back(self, host: Host, plan: ChangePlan) -> None:
        """Let the next session in."""
        await give_back(host, plan)


@asynccontextmanager
async def leased(work: Investigation, host: Host, plan: ChangePlan, *, begun: bool) -> AsyncIterator[None]:
    """Hold a host for one plan; raise `HostBusy` when another session is changing it.

    Raise `Overtaken` when one was let in since the plan was made: the plan is void then.
    A plan that was begun is carried to its end whoever holds the lease: the host keeps others out while its
    transaction is open, and lets nothing but the way back happen after that.
    """
    with host_lock(work.settings.state_dir, plan.host, plan.host_key):
        lease = work.ports.lease
        if lease is None:
            yield
            return
        await _taken(work, lease, host, plan, begun=begun)
        renewing = asyncio.create_task(_renew(lease, host, plan))
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})
            with contextlib.suppress(ToolError, TimeoutError):
                async with asyncio.timeout(_GIVE_BACK_S):
                    await lease.give_back(host, plan)


async def _taken(work: Investigation, lease: HostLease, host: Host, plan: ChangePlan, *, begun: bool) -> None:
    try:
        token = await lease.take(host, plan)
    except Overtaken:
        if begun:
            return
        raise
    except Leased as error:
        if begun:
            return
        raise HostBusy(str(error), do="wait until it is done, then resume") from error
    except ToolError:
        return  # what keeps the lease from being taken keeps the change from being begun, and is told there
    work.audit.record(
        "lease_taken", thread=work.thread, host=plan.host, digest=plan.digest(), detail=f"token {token}"
    )


async def _renew(lease: HostLease, host: Host, plan: ChangePlan) -> None:
    """Renew until cancelled; a lease that was lost is found out by the host when the plan is begun."""
    while True:
        await asyncio.sleep(lease.seconds / 3)
        with contextlib.suppress(ToolError):
            await lease.take(host, plan)
