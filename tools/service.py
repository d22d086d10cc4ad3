"""Change a service as one transaction on its host, with a rollback timer armed before anything changes.

Reads make a plan; a person approves its digest; then a program on the host (``transaction.sh``) does the
rest and holds the truth. Nothing here is retried blindly: after a lost link, `status` asks the host.
"""

from __future__ import annotations

from datetime import datetime

from tools.contract import Host
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

__all__ = [
    "Applied",
    "ChangePlan",
    "ChangeRequest",
    "ChangeState",
    "ChangeStatus",
    "EnvironmentChange",
    "Finished",
    "Progress",
    "apply",
    "confirm",
    "extend",
    "make_plan",
    "roll_back",
    "status",
]


async def make_plan(
    host: Host, request: ChangeRequest, *, port: int, now: datetime, minimum_s: float = 60.0
) -> ChangePlan:
    """Read the unit and return the plan of one change; raise `ToolError` when it cannot be made safely."""
    raise NotImplementedError


async def apply(host: Host, plan: ChangePlan, approved_digest: str, progress: Progress) -> Applied:
    """Do an approved plan; raise `ToolError` when it is refused, before anything was changed."""
    raise NotImplementedError


async def extend(host: Host, plan: ChangePlan, seconds: float) -> ChangeStatus:
    """Let the armed timer of an applied plan fire only so many seconds from now; return where it stands."""
    raise NotImplementedError


async def confirm(host: Host, plan: ChangePlan) -> Finished:
    """Keep an applied change: disarm its timer. Safe to call again."""
    raise NotImplementedError


async def roll_back(host: Host, plan: ChangePlan) -> Finished:
    """Restore the state before the change and restart once. Safe to call again."""
    raise NotImplementedError


async def status(host: Host, plan_id: str) -> ChangeStatus:
    """Ask the host where a plan stands; a lost link gives ``unknown``."""
    raise NotImplementedError
