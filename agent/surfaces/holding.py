"""Hold the model at Ctrl-C, ask the person at the terminal how to go on, and leave at the second one."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from agent.events import Live
from agent.models.select import PLAYBOOK
from agent.surfaces.typed_line import typed_line

if TYPE_CHECKING:
    from agent.session import Session

HELD = "held: the model waits, and what runs on the host goes on. "
HOW = "Say something, press Enter to go on as before, or Ctrl-C again to leave"
HOW_DEAF = "Press Enter to go on as before, or Ctrl-C again to leave"
DEAF = "the built-in playbooks take no advice; a language model does: --model NAME --base-url URL"
HEARD = "going on; the model hears it at its next turn"
ON = "going on"
ASK = "held> "


class Holding:
    """Show the events of a session, and let Ctrl-C hold it for the time of the block.

    Without a terminal to ask at, Ctrl-C does what it did before.
    """

    def __init__(self, session: Session, view: Callable[[Live], None]) -> None:
        self._session = session
        self._view = view
        self._kept: list[Live] = []
        self._asking: asyncio.Task[None] | None = None
        self._pressed = self._leaving = False
        self._loop = asyncio.get_running_loop()
        self._before: Any = None

    def __enter__(self) -> Self:
        """Take Ctrl-C over."""
        if sys.stdin.isatty() and sys.stderr.isatty() and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._notice)
        return self

    def __exit__(self, *error: object) -> None:
        """Give Ctrl-C back, and show what was kept."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        self.close()
        self._catch_up()

    def show(self, event: Live) -> None:
        """Show an event; while the person is asked, keep it for after the answer."""
        if self._asks:
            self._kept.append(event)
        else:
            self._view(event)

    async def answered(self) -> None:
        """Wait until the person has answered, where one is asked; raise what went wrong with an answer."""
        if self._asking is None:
            return
        await asyncio.wait({self._asking})
        if not self._asking.cancelled():
            self._asking.result()

    def close(self) -> None:
        """Take the question back."""
        if self._asking is not None:
            self._asking.cancel()

    def _notice(self, number: int, frame: FrameType | None) -> None:
        """Pass a press to the loop; one that the loop has no time for, or after leaving, ends the program."""
        if self._pressed or self._leaving:
            self._leave(frame)
        else:
            self._pressed = True
            self._loop.call_soon_threadsafe(self._press)

    def _press(self) -> None:
        self._pressed = False
        if self._leaving:
            return
        if not self._asks and self._session.hold():
            self._asking = self._loop.create_task(self._ask())
        else:
            self._leave(None)

    def _leave(self, frame: FrameType | None) -> None:
        self._leaving = True
        self._before(signal.SIGINT, frame)

    @property
    def _asks(self) -> bool:
        return self._asking is not None and not self._asking.done()

    async def _ask(self) -> None:
        """Ask how to go on and do that; the end of input leaves."""
        hears = self._session.work.model.name != PLAYBOOK
        try:
            text = await typed_line(f"\n{HELD}{HOW if hears else HOW_DEAF}\n{ASK}")
            if text is None:
                self._leave(None)
            else:
                self._answer(text.strip(), hears=hears)
        finally:
            if not self._leaving:
                self._session.go_on()  # whatever became of the answer, nothing stays held
            self._catch_up()

    def _answer(self, text: str, *, hears: bool) -> None:
        if text and hears:
            self._session.steer(text)
            sys.stderr.write(f"{HEARD}\n")
            return
        self._session.go_on()
        sys.stderr.write(f"{DEAF}\n{ON}\n" if text else f"{ON}\n")

    def _catch_up(self) -> None:
        kept, self._kept = self._kept, []
        for event in kept:
            self._view(event)
