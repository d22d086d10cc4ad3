"""The doors through which a change reaches its host: the transaction, and the engine's own word."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from agent.events import Event
from tools.contract import Host, ToolContext, ToolError
from tools.observe import Observation
from tools.service_types import Applied, ChangePlan, ChangeRequest, ChangeStatus, Finished, Progress

if TYPE_CHECKING:
    from agent.leases import HostLease


class Service(Protocol):
    """Change a service as one transaction on its host (see ``tools/service.py``)."""

    async def make_plan(
        self, host: Host, request: ChangeRequest, *, port: int, now: datetime, minimum_s: float = 60.0
    ) -> ChangePlan:
        """Read the unit and return the plan of one change; raise `ToolError` when it cannot be made."""
        ...

    async def apply(self, host: Host, plan: ChangePlan, approved_digest: str, progress: Progress) -> Applied:
        """Do an approved plan; raise `ToolError` when it is refused before anything was changed."""
        ...

    async def extend(self, host: Host, plan: ChangePlan, seconds: float) -> ChangeStatus:
        """Let the armed timer fire only so many seconds from now."""
        ...

    async def confirm(self, host: Host, plan: ChangePlan) -> Finished:
        """Keep an applied change."""
        ...

    async def roll_back(self, host: Host, plan: ChangePlan) -> Finished:
        """Restore the state before the change."""
        ...

    async def status(self, host: Host, plan_id: str) -> ChangeStatus:
        """Ask the host where a plan stands."""
        ...


Observe = Callable[[Host, int], Awaitable[Observation]]
MakeUndo = Callable[[Host, ChangePlan, datetime], Awaitable[ChangePlan]]
"""Return the plan that takes a kept one back; raise `ToolError` when that may not be done so."""

CheckLine = Callable[[ToolContext, Host, ChangePlan], Awaitable[Sequence[str]]]
"""Say what a person has to know of a plan's launch line; raise `ToolError` when it would be refused."""


async def _no_undo(host: Host, kept: ChangePlan, now: datetime) -> ChangePlan:
    raise ToolError("a kept change cannot be taken back here")


async def _unchecked(ctx: ToolContext, host: Host, plan: ChangePlan) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Ports:
    """Hold what a trial uses of the outside, apart from its measuring tool."""

    service: Service
    observe: Observe
    told: Callable[[str], Sequence[Event]] = lambda tool_call_id: ()
    """In a replay: what was recorded of trying the change of a call, which is then not tried again."""
    said: Callable[[int], Sequence[str]] = lambda turn: ()
    """In a replay: what a person said, while work went on, that this turn was the first to hear; once."""
    check_line: CheckLine = _unchecked
    make_undo: MakeUndo = _no_undo
    lease: HostLease | None = None
    """The lease that hosts keep; None where there is nothing but this machine."""

    @classmethod
    def real(cls) -> Ports:
        """Return the ports to real hosts."""
        from agent.leases import HostLease
        from tools import service
        from tools.observe import observe
        from tools.settings.plan_check import check_plan

        async def make_undo(host: Host, kept: ChangePlan, now: datetime) -> ChangePlan:
            return await service.make_undo(host, kept, now=now)

        return cls(service, observe, check_line=check_plan, make_undo=make_undo, lease=HostLease())
