"""Take a decision on a plan inside a chat: yes, no with or without a reason, or a value for another plan."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from agent.approvals import ApprovalRefused
from agent.events import Live
from agent.roles import at_terminal
from agent.state import Change
from agent.surfaces.approving import ELSEWHERE, decision, plan_text, unless_decided
from agent.surfaces.decision_words import take_answer
from agent.surfaces.input_line import Lines
from agent.surfaces.screen import Screen
from tools.display import printable
from tools.service_types import ChangePlan

if TYPE_CHECKING:
    from agent.session import Session

VALUE = "New value of {}, empty to leave it out: "


class Left(Exception):
    """Report that the person left the chat at the question."""


class Deciding:
    """Ask a person about the plan that waits; what was not shown can not be approved."""

    def __init__(self, lines: Lines, screen: Screen, command: Callable[[str], Awaitable[bool]]) -> None:
        """Take a way to carry out slash commands, which tells whether the chat goes on."""
        self._lines = lines
        self._screen = screen
        self._command = command

    async def take(self, session: Session) -> AsyncIterator[Live]:
        """Show the plan that waits and return what follows the answer; raise `Left`."""
        asked = session.waiting
        assert asked is not None  # the caller has looked
        plan, change = session.plan(asked.change), session.change(asked.change)
        self._screen.needs_person(f"{change.id}: {change.setting} on {plan.host} waits for you")
        self._screen.plan(plan_text(plan, change))
        while True:
            taken = take_answer(
                self._line,
                self._more,
                self._screen.note,
                edits=plan.undoes is None,
                unattended=not self._lines.live,
            )
            answer = await unless_decided(session, taken)
            if answer is None:
                self._screen.note(ELSEWHERE)
                return session.ask(None)
            if answer.word != "edit":
                return session.answer(decision(change, plan, answer))
            value = await unless_decided(session, self._value(change))
            if value is not None and self._revised(session, plan, change, value):
                return session.ask(None)

    def _revised(self, session: Session, plan: ChangePlan, change: Change, value: str) -> bool:
        """Let the change be planned anew for a value; False, with the reason told, when it cannot be."""
        try:
            session.revise(change.id, plan.digest(), value or None, at_terminal().label())
        except ApprovalRefused as error:
            self._screen.note(printable(str(error)), "yellow")
            return False
        self._screen.note(f"{change.id} is planned anew; the plan that was shown is void")
        return True

    async def _value(self, change: Change) -> str:
        """Return the value that is typed; Ctrl-X Ctrl-E opens it in the person's editor."""
        prompt = VALUE.format(printable(change.setting))
        return (
            await self._lines.read(prompt, decision=True, follows=True, default=change.to_value or "")
        ).strip()

    async def _more(self, question: str) -> str:
        return await self._lines.read(question, decision=True, follows=True)

    async def _line(self, question: str) -> str:
        """Return an answer; commands in its place are carried out, and it is asked for again."""
        while True:
            word = (await self._lines.read(question, decision=True)).strip()
            if not word.startswith(("/", "!")):
                return word
            if not await self._command(word):
                raise Left
