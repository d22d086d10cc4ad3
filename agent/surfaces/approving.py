"""Put a plan before a person at the terminal and take the decision; unattended on simulated hosts alone."""

from __future__ import annotations

import asyncio
import os
import pwd
import sys
import termios
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from agent.approvals import Approval, ApprovalRefused
from agent.errors import UsageError
from agent.events import Live
from agent.roles import at_terminal
from agent.state import Change
from agent.surfaces.console import open_console, write_fitted
from agent.surfaces.decision_words import Answer, take_answer
from agent.surfaces.targets import is_lab
from agent.surfaces.typed_line import typed_line
from agent.surfaces.wrapping import wrapped
from tools.display import printable
from tools.service_types import ChangePlan

if TYPE_CHECKING:
    from rich.console import Console

    from agent.session import Session

T = TypeVar("T")

UNATTENDED = "--approve"
ELSEWHERE = "this was decided elsewhere; going on"
VALUE = "Another value than {} for {}, empty to leave the plan as it is: "
DIFF: Mapping[str, str] = {"+": "green", "-": "red", "@": "cyan"}
"""Colours of the lines of a diff, by their first character."""

SETTLE_S = 0.5
"""What is typed so shortly after a plan was shown was begun before it was read, and decides nothing."""

POLL_S = 0.5
"""How often a terminal that asks looks whether another process has decided."""


class _Closed(Exception):
    """Report Ctrl-D, or a terminal that went away: nobody decided."""


def refuse_unattended(hosts: Sequence[str]) -> None:
    """Raise `UsageError` when a change of a real host would be approved by nobody."""
    real = [name for name in hosts if not is_lab(name)]
    if real:
        raise UsageError(
            f"--approve works on `lab:` hosts only, and {real[0]} is none",
            do="leave it out and answer at the terminal",
        )


async def decide(session: Session, *, unattended: bool) -> AsyncIterator[Live] | None:
    """Take a decision on the plan that waits and return what follows; None when nobody is there to ask."""
    asked = session.waiting
    if asked is None:
        return None
    plan, change = session.plan(asked.change), session.change(asked.change)
    if unattended:
        yes = Approval(change=change.id, digest=plan.digest(), decision="approved", by=UNATTENDED)
        return session.answer(yes)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    print_plan(open_console(sys.stderr), plan_text(plan, change))
    if session.work.settings.chat.bell:
        sys.stderr.write("\x07")
    try:
        return await _decided(session, plan, change)
    except _Closed:
        sys.stderr.write("\n")
        return None  # it waits on


async def _decided(session: Session, plan: ChangePlan, change: Change) -> AsyncIterator[Live]:
    while True:
        taken = take_answer(_settled, _answer, _tell, edits=plan.undoes is None)
        answer = await unless_decided(session, taken)
        if answer is None:
            sys.stderr.write(f"\n{ELSEWHERE}\n")
            return session.ask(None)
        if answer.word != "edit":
            return _answered(session, decision(change, plan, answer))
        asks = VALUE.format(change.to_value or "none", change.setting)
        value = await unless_decided(session, _answer(printable(asks)))
        if value and _revised(session, plan, change, value):
            return session.ask(None)


def _revised(session: Session, plan: ChangePlan, change: Change, value: str) -> bool:
    """Let the change be planned anew for a value; False, with the reason told, when it cannot be."""
    try:
        session.revise(change.id, plan.digest(), value, at_terminal().label())
    except ApprovalRefused as error:
        sys.stderr.write(f"{printable(str(error))}\n")
        return False
    return True


async def _settled(question: str) -> str:
    await asyncio.sleep(SETTLE_S)
    return await _answer(question)


def _tell(text: str) -> None:
    write_fitted(f"{text}\n", sys.stderr)


def print_plan(console: Console, text: str) -> None:
    """Print a plan with its diff in colour; only what is no diff is broken between words."""
    for line in text.splitlines():
        changed = line.startswith("    ") and line[4:5] in DIFF
        shown = line if changed or not console.is_terminal else wrapped(line, console.width)
        console.print(shown, style=DIFF[line[4]] if changed else None, markup=False)


async def _answered(session: Session, approval: Approval) -> AsyncIterator[Live]:
    """Yield what follows an answer; one that does not count any more is told, and the thread goes on."""
    try:
        async for event in session.answer(approval):
            yield event
        return
    except ApprovalRefused as error:
        sys.stderr.write(f"{printable(str(error))}\n")
    async for event in session.ask(None):
        yield event


async def unless_decided(session: Session, answer: Coroutine[Any, Any, T]) -> T | None:
    """Return what is answered; None, with the question taken back, when another process decides first."""
    typing = asyncio.create_task(answer)
    other = asyncio.create_task(_decided_elsewhere(session))
    try:
        await asyncio.wait({typing, other}, return_when=asyncio.FIRST_COMPLETED)
        return await typing if typing.done() else None
    finally:
        typing.cancel()
        other.cancel()
        await asyncio.wait({typing, other})


async def _decided_elsewhere(session: Session) -> None:
    while True:
        await asyncio.sleep(POLL_S)
        if session.decided_elsewhere:
            return


def decision(change: Change, plan: ChangePlan, answer: Answer) -> Approval:
    """Return what a person's answer decides: only a plain yes approves."""
    return Approval(
        change=change.id,
        digest=plan.digest(),
        decision="approved" if answer.word == "yes" else "denied",
        by=pwd.getpwuid(os.getuid()).pw_name,
        reason=answer.reason,
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
    """Return a line typed at the terminal; can be cancelled while it waits. Raises `_Closed` at the end."""
    # What was typed before the plan was shown decides nothing.
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    line = await typed_line(question)
    if line is None:
        raise _Closed
    return line.strip()
