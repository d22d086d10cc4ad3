"""Hold a conversation over one session: messages, interrupts, decisions, and what was typed meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent.approvals import ApprovalRefused
from agent.errors import ExitCode, LeadlineError, ThreadGone
from agent.events import Ended, Failed, Live
from agent.models.select import PLAYBOOK
from agent.questions import asks_on
from agent.state import Mode
from agent.surfaces import slash
from agent.surfaces.console import screen_width
from agent.surfaces.deciding import Deciding, Left
from agent.surfaces.doing import Doing
from agent.surfaces.ending import answer_of
from agent.surfaces.holding import HELD, HOW
from agent.surfaces.input_line import Closed, Interrupted, Later, Lines
from agent.surfaces.pastes import shortened
from agent.surfaces.records import write_case
from agent.surfaces.screen import Screen
from agent.surfaces.status import State
from agent.surfaces.targets import is_lab
from tools.display import printable

if TYPE_CHECKING:
    from agent.session import Session

DEAF = (
    "The built-in playbooks take no advice, and answer questions about hosts only (docs/questions.md); a "
    "language model can do more: /model NAME URL lets one take the next turn. /new begins another "
    "investigation, with a first message of its own"
)


def answers(session: Session, text: str) -> bool:
    """Tell whether the built-in model answers: a question, in a thread that has come to an end before."""
    return _ever_ended(session) and asks_on(text)


class Conversation:
    """Turn lines into what a session does next, until the person leaves."""

    def __init__(
        self,
        lines: Lines,
        screen: Screen,
        begin: Callable[[str], Awaitable[Session]],
        session: Session | None = None,
        *,
        place: str,
        hears: bool,
        doing: Doing,
    ) -> None:
        self.session = session
        self.left: list[Path] = []
        """Folders of the threads that were talked over before this one."""
        self._doing = doing
        self._place = place
        self._lines = lines
        self._screen = screen
        self._begin = begin
        self._deciding = Deciding(lines, screen, self._asked_meanwhile)
        self._hears = hears
        self._queued: deque[str] = deque()
        self._stopped_for = ""
        self._stopped = False
        self._leaving = False
        self._code = ExitCode.DONE

    async def hold(self) -> ExitCode:
        """Talk until the person leaves; return the exit code for that."""
        if self.session is not None:
            self._screen.take_up(self.session.events)
            self._recap(self.session)
            if self.session.ended is None:
                await self.work(self.session, self.session.ask(None))
        while not self._leaving:
            text = await self._next()
            if text:
                await self._hear(text)
            elif text is not None and self.session is not None and self._stopped:
                await self.work(self.session, self.session.ask(None))
        return self._code

    async def leave(self) -> Session:
        """Let the next message begin a session; the one before is closed and stays as it is."""
        session = self.session
        assert session is not None  # the command answers in a session alone
        await session.close()
        self.left.append(session.folder)
        self.session, self._stopped = None, False
        self._queued.clear()
        self._screen.status.forget()
        return session

    async def enter(self, session: Session) -> None:
        """Talk over another session from now on; the one before is closed and stays as it is."""
        if self.session is not None:
            await self.leave()
        started = session.events[0]
        assert started.type == "started"
        self.session, self._stopped = session, session.ended is None
        self._place = f"{', '.join(started.hosts) or 'no host'} · {started.mode}"
        self._queued.clear()
        self._screen.take_up(session.events)
        self._recap(session)
        if session.waiting is not None:
            self._screen.note(
                f"{session.waiting.change} waits for your decision: Enter shows it, words void it"
            )
        elif self._stopped:
            self._screen.note("it is unfinished: Enter goes on, or say how")

    @property
    def lines(self) -> Lines:
        """Return where lines come from."""
        return self._lines

    @property
    def typed(self) -> bool:
        """Tell whether a person sits at the keyboard."""
        return self._screen.typed

    def say(self, text: str, *, whole: bool = False) -> None:
        """Show a text."""
        self._screen.say(text, whole=whole)

    def take_model(self, model: str) -> None:
        """Send what is said to this model from now on."""
        self._hears = model != PLAYBOOK
        self._screen.status.take(model)

    def take_mode(self, mode: Mode) -> None:
        """Show another mode, for the session that will begin."""
        self._place = f"{self._place.rpartition(' · ')[0]} · {mode}"
        self._screen.status.allow(mode)

    def note(self, text: str) -> None:
        """Tell what is about the chat itself."""
        self._screen.note(text)

    @property
    def finished(self) -> bool:
        """Tell whether the investigation came to its end and nothing is under way."""
        session = self.session
        return session is None or (_ever_ended(session) and not self._stopped and session.waiting is None)

    def terminate(self) -> None:
        """Leave after the step that runs: the answer to SIGTERM."""
        self._leaving, self._code = True, ExitCode.TERMINATED
        if self.session is not None:
            self.session.drain()
        self._lines.close()

    async def _next(self) -> str | None:
        """Return the next message: what was queued first; None when there is none."""
        if self._stopped_for:
            line, self._stopped_for = self._stopped_for, ""
            return line
        if self._queued and not self._stopped:  # what was to follow the answer is none to how to go on
            return self._queued.popleft()
        self._screen.status.begin("ready")
        try:
            return (await self._lines.read(f"[{self._place}] {self._asks_for()}> ")).strip()
        except Later as set_aside:
            return set_aside.text
        except Interrupted as pressed:
            self._leaving = not pressed.text
        except Closed:
            self._leaving = True
        return None

    def _asks_for(self) -> str:
        if self.session is None:
            return "what is wrong"
        return "Enter goes on, or say how" if self._stopped else "ask on"

    async def _hear(self, text: str) -> None:
        if text.startswith(("/", slash.BY_HAND)):
            await self._command(text, idle=True)
            return
        if self._screen.typed:
            self._screen.say(f"> {printable(shortened(text))}", "bold")
        if self.session is None:
            try:
                self.session = await self._begin(text)
            except LeadlineError as error:
                self._screen.note(printable(str(error)), "red")
                return
            await self.work(self.session, self.session.ask(None))
        elif self._hears or answers(self.session, text):
            await self.work(self.session, self.session.ask(text))
        else:
            self._screen.say(DEAF, "yellow")
            if self._stopped:
                await self.work(self.session, self.session.ask(None))

    async def _command(self, line: str, *, idle: bool = False) -> None:
        if self._screen.typed:  # what is answered stands below what was asked
            self._screen.note(f"> {printable(shortened(line))}", whole=False)
        if line.startswith(slash.BY_HAND):
            await self._doing.by_hand(self, line, idle=idle)
            return
        if line == slash.QUIT:
            self._leaving = True
            if self.session is not None:
                self.session.cancel()
            return
        desk = self._doing.desk(self.session, idle=idle)
        aside = slash.reads(line)
        reply = await asyncio.to_thread(slash.answer, desk, line) if aside else slash.answer(desk, line)
        if reply.text:
            await self._screen.page(reply.text, whole=reply.whole, newest_last=reply.newest_last)
        if reply.then is not None:
            await self._doing.then(self, reply.then)

    async def work(self, session: Session, events: AsyncIterator[Live]) -> None:
        """Let the session go on, deciding on plans as they come, until it stops."""
        ends = _count_ends(session)
        while await self._watch(session, events):
            if session.waiting is not None:
                decided = await self._decide(session)
                if decided is None:
                    break
                events = decided
            elif session.unheard and session.ended is None:
                events = session.ask(None)  # said in the moment in which the run came to its end
            else:
                break
        files = await asyncio.to_thread(write_case, session.folder, session.folder)
        if session.ended is not None and _count_ends(session) > ends:
            self._screen.say("\n" + answer_of(session, session.ended, files, screen_width()).rstrip())
            self._screen.ring(f"{session.ended.outcome}: {session.ended.summary}"[:120])

    async def _watch(self, session: Session, events: AsyncIterator[Live]) -> bool:
        """Show events while lines are read beside them; return whether it came to a stop by itself."""
        self._stopped = False
        self._screen.status.begin("working")
        showing = asyncio.create_task(self._show(session, events))
        try:
            if self._lines.live:
                await self._listen(session, showing)
            await showing
        except ApprovalRefused as error:
            self._screen.note(printable(str(error)), "yellow")
            return await self._watch(session, session.ask(None))
        except ThreadGone:
            raise  # there is nothing left to talk over
        except LeadlineError as error:
            if not isinstance(session.events[-1], Failed):
                self._screen.note(printable(str(error)), "red")
            self._stopped = True
        finally:
            showing.cancel()
            await asyncio.wait({showing})
            self._screen.rest()
        if not self._leaving and not self._lines.live:
            self._code = session.exit_code
        if session.exit_code is ExitCode.INTERRUPTED:
            self._stopped = True
            if not self._leaving and not self._stopped_for:
                self._screen.note("interrupted; what was gathered is kept. Say how to go on, or press Enter")
        return not self._stopped and not self._leaving

    async def _show(self, session: Session, events: AsyncIterator[Live]) -> None:
        answering = _ever_ended(session)
        async for event in events:
            self._screen.event(event, answering=answering)

    async def _listen(self, session: Session, showing: asyncio.Task[None]) -> None:
        """Read lines until what is shown has ended: each steers, or is set aside for then."""
        self._lines.takes_later = True
        while not showing.done() and not self._leaving:
            state: State = "held" if session.held else "working"
            self._screen.status.begin(state)
            reading = asyncio.create_task(self._lines.read(f"[{self._place}] {state}> "))
            await asyncio.wait({showing, reading}, return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            await asyncio.wait({reading})
            if reading.cancelled():
                continue
            try:
                text = reading.result().strip()
            except Interrupted as pressed:
                self._lines.keep(pressed.text)
                self._interrupt(session)
            except Later as set_aside:
                self._queued.append(set_aside.text)
                self._screen.note(f"kept for after the answer: {printable(shortened(set_aside.text))}")
            except Closed:
                # At SIGTERM the line is closed as well, and the step that runs is let end.
                if not self._leaving:
                    self._leaving = True
                    session.cancel()
            else:
                await self._steer(session, text)
        self._lines.takes_later = False

    def _interrupt(self, session: Session) -> None:
        """Hold the model's work; when that is held already, stop what runs and leave."""
        if session.held:
            self._leaving = self._stopped = True
            session.cancel()
            self._lines.close()
        elif session.hold():
            self._screen.note(HELD + HOW, whole=False)

    async def _steer(self, session: Session, text: str) -> None:
        """Do what a line asks for that was typed while the session works, or is held."""
        if session.held and slash.stops(session, text):
            self._stopped_for = text
            session.cancel()
            return
        if text.startswith(("/", "!")):
            await self._command(text)
            return
        if text:
            self._screen.say(f"> {printable(shortened(text))}", "bold")
            if self._hears:
                session.steer(text)
                return
            self._screen.say(DEAF, "yellow")
        if session.held:
            session.go_on()
            self._screen.note("going on")

    async def _decide(self, session: Session) -> AsyncIterator[Live] | None:
        """Take a decision on the plan that waits and return what happens then; None leaves it waiting."""
        asked = session.waiting
        assert asked is not None  # the caller has looked
        plan, change = session.plan(asked.change), session.change(asked.change)
        if not self._screen.typed and not is_lab(plan.host):
            self._screen.note(
                f"an approval of {change.id} is needed; answer it at a terminal: "
                f"leadline chat {plan.host} --resume {session.thread}"
            )
            self._leaving, self._code = True, ExitCode.APPROVAL_NEEDED
            return None
        try:
            return await self._deciding.take(session)
        except (Interrupted, Closed, Left):
            self._leaving = True
            if not self._lines.live:
                self._code = ExitCode.APPROVAL_NEEDED
            return None

    async def _asked_meanwhile(self, line: str) -> bool:
        await self._command(line)
        return not self._leaving

    def _recap(self, session: Session) -> None:
        started = session.events[0]
        assert started.type == "started"
        symptom = printable(shortened(started.symptom))
        self._screen.note(f"{started.thread} on {', '.join(started.hosts)}: {symptom}")
        ends = [event for event in session.events if isinstance(event, Ended)]
        if ends:
            self._screen.say(answer_of(session, ends[-1], [], screen_width()).rstrip())


def _ever_ended(session: Session) -> bool:
    return _count_ends(session) > 0


def _count_ends(session: Session) -> int:
    return sum(isinstance(event, Ended) for event in session.events)
