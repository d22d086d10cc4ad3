"""Put a plan before a person at the terminal and take the decision; unattended on simulated hosts alone."""

from __future__ import annotations

import asyncio
import os
import pwd
import sys
import termios
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.approvals import Approval
from agent.errors import UsageError
from agent.state import Change
from agent.surfaces.targets import is_lab
from tools.display import printable
from tools.service_types import ChangePlan

if TYPE_CHECKING:
    from agent.session import Session

UNATTENDED = "--approve"
QUESTION = "Apply it? [y]es, [n]o, or no with a reason: "


def refuse_unattended(hosts: Sequence[str]) -> None:
    """Raise `UsageError` when a change of a real host would be approved by nobody."""
    real = [name for name in hosts if not is_lab(name)]
    if real:
        raise UsageError(
            f"--approve works on `lab:` hosts only, and {real[0]} is none",
            do="leave it out and answer at the terminal",
        )


async def decide(session: Session, *, unattended: bool) -> Approval | None:
    """Return the decision on the plan that waits; None when nobody is there to ask."""
    asked = session.waiting
    if asked is None:
        return None
    plan, change = session.plan(asked.change), session.change(asked.change)
    if unattended:
        return Approval(change=change.id, digest=plan.digest(), decision="approved", by=UNATTENDED)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(plan_text(plan, change))
    return decision(change, plan, await _answer(QUESTION))


def decision(change: Change, plan: ChangePlan, answer: str) -> Approval:
    """Return what a person's answer decides: only a plain yes approves, any other words deny and say why."""
    word = answer.strip().lower()
    return Approval(
        change=change.id,
        digest=plan.digest(),
        decision="approved" if word in ("y", "yes") else "denied",
        by=pwd.getpwuid(os.getuid()).pw_name,
        reason="" if word in ("y", "yes", "n", "no", "") else answer.strip(),
    )


def plan_text(plan: ChangePlan, change: Change) -> str:
    """Return a plan as a person reads it before deciding; the diff is what is done, whole."""
    busy = (plan.running_requests or 0) + (plan.queued_requests or 0)
    known = plan.running_requests is not None or plan.queued_requests is not None
    start = f"about {plan.startup_s:.0f} s" if plan.startup_s else "not known"
    rows = [
        ("Why", change.reason),
        ("Predicted", change.predicted_effect),
        ("Mechanism", change.mechanism),
        *(("Caution", caution) for caution in change.cautions),
        ("Undo", f"{change.rollback} By itself {plan.rollback_after_s:.0f} s after it, unless confirmed."),
        *(("Touches", line) for line in plan.blast_radius),
        ("In flight", f"{busy} requests" if known else "not known"),
        ("Start-up", f"{start}; {plan.restarts_needed} restarts at most"),
        ("File", plan.dropin_path),
        ("Plan", f"{plan.digest()[:16]}, for {plan.host}, until {plan.expires_at:%H:%M:%S} UTC"),
    ]
    body = "\n".join(f"  {name + ':':<11}{printable(' '.join(text.split()))}" for name, text in rows)
    shown = "\n".join(f"    {printable(line)}" for line in plan.diff.splitlines())
    return f"\n{change.id}: {printable(plan.setting)} of {printable(plan.unit)}\n{shown}\n{body}\n\n"


async def _answer(question: str) -> str:
    """Return a line typed at the terminal; can be cancelled while it waits."""
    # What was typed before the plan was shown decides nothing.
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    sys.stderr.write(question)
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin, read)
    try:
        line = await typed
    finally:
        loop.remove_reader(sys.stdin)
    if not line:
        return "the terminal was closed"
    return line.strip()
