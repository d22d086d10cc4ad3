"""Let a person speak into running work: hold the model, refuse what has not begun, end nothing that runs.

What is said while work goes on is recorded at once and heard by the model's next turn. Only the work of the
model can be held; a call or a change that is under way on a host goes on, and its result is recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agent import messages
from agent.events import UserMessage

if TYPE_CHECKING:
    from agent.investigation import Investigation

T = TypeVar("T")

UNHEARD: Final = messages.UNHEARD
SPOKE: Final = "a new message came into the thread"


class Gate:
    """Hold the work of the model while a person thinks, and cut off the turn that is being taken."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._turn: asyncio.Task[Any] | None = None
        self._cut = False

    @property
    def closed(self) -> bool:
        """Tell whether a person has stopped the model's work and not let it go on."""
        return not self._open.is_set()

    def close(self) -> None:
        """Let nothing further begin; the turn that is being taken is dropped and taken anew later."""
        self._open.clear()
        if self._turn is not None:
            self._cut = self._turn.cancel()

    def open(self) -> None:
        """Let the work go on."""
        self._open.set()

    async def passed(self) -> None:
        """Wait until the work may go on."""
        await self._open.wait()

    async def take(self, turn: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what ``turn`` does; one that is cut off is begun anew once the gate is open."""
        while True:
            await self._open.wait()
            taking: asyncio.Task[T] = asyncio.create_task(turn())
            self._turn, self._cut = taking, False
            try:
                await asyncio.wait({taking})
            finally:
                self._turn = None
                if not taking.done():
                    taking.cancel()
                    await asyncio.wait({taking})
            if not (taking.cancelled() and self._cut):
                return taking.result()


def speak_into(work: Investigation, text: str) -> None:
    """Record what a person says while work goes on, and let held work go on with it."""
    from agent.approvals import withdraw

    trial = work.trials.open
    if trial is not None and not trial.acting:
        withdraw(work, trial, SPOKE)
    said = UserMessage(turn=work.history.last_turn, text=text, steers=work.history.ended is None)
    work.transcript.append(said, durable=True)
    work.gate.open()


def under_way(work: Investigation) -> bool:
    """Tell whether a call has begun that has no result yet."""
    return any(call.id in work.history.begun for call in work.history.pending())


def hear_recorded(work: Investigation, number: int) -> None:
    """Take in, in a replay, what was said while the work before turn ``number`` went on."""
    for text in work.ports.said(number):
        work.transcript.append(UserMessage(turn=work.history.last_turn, text=text, steers=True))


def goes_first(work: Investigation) -> bool:
    """Tell whether the model has yet to hear a person, and has a turn left for that."""
    last = work.is_last(work.history.last_turn)
    return bool(work.history.unheard) and not last and work.budget.spent() is None
