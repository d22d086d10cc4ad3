"""One investigation at work in a Slack thread: it drives the session, and people steer it by their words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from agent.approvals_record import ApprovalRefused
from agent.approvals_store import ApprovalStore
from agent.errors import LeadlineError
from agent.events import Ended
from agent.models.select import PLAYBOOK
from agent.questions import asks_on
from agent.roles import Person
from agent.slack import approvals, report
from agent.slack.desk import Desk, limited, refuse_what_was_taken_away
from agent.slack.door import Block
from agent.slack.errors import KEYS, SlackRefused
from agent.slack.hosts import Connected
from agent.slack.said import Said
from agent.slack.store import Kept, State
from agent.slack.stream import Growing
from agent.slack.telling import Telling
from agent.slack.text import escaped

if TYPE_CHECKING:
    from agent.session import Session

DEAF = (
    "The built-in playbooks take no advice, and answer questions about hosts only; a language model can do "
    "more (`model` and `base_url` in the settings). What you said is recorded."
)
PASSING: Final = frozenset(
    {"link", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "ratelimited"}
)
"""Refusals after which the same words are said again."""

PAUSES_S: Final = (1.0, 5.0)

_log = logging.getLogger("leadline.slack")


class Talk:
    """Hold one Slack thread while its investigation is at work."""

    def __init__(self, desk: Desk, kept: Kept, *, said: Said) -> None:
        self.kept = kept
        self.said = said
        self.session: Session | None = None
        self.recovered = False
        """It was left unfinished: an end that is recorded may never have been told."""
        self.live = True
        """It still takes what is said; when it is not, another one has to."""
        self._desk = desk
        self._place = kept.place
        self._early: list[str] = []
        self._telling: Telling | None = None
        self._again = False
        self._stopped_by: Person | None = None
        self._draining = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, done: Callable[[Talk], None]) -> None:
        """Go to work; ``done`` is called when it has ended, however."""
        self._task = asyncio.create_task(self._run(), name=f"slack {self._place.channel} {self._place.ts}")
        self._task.add_done_callback(lambda _: done(self))

    async def ended(self) -> None:
        """Wait until nothing is at work any more."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def hear(self, person: Person, text: str) -> None:
        """Take what somebody says: heard by the model's next turn, and whatever runs goes on."""
        if self._desk.settings.model == PLAYBOOK and not (asks_on(text) and self._answers()):
            await self.tell(DEAF)
        addressed, note = self.said.addressed(person, text)
        if note:
            await self.tell(escaped(self._desk.door.clean.line(note, 600)))
        if self.session is None:
            self._early.append(addressed)
        elif not self.session.steer(addressed):
            self._again = True
        self._wake.set()

    def _answers(self) -> bool:
        """Tell whether the playbooks answer a question now: about a symptom only when it was looked into."""
        if self.session is None:
            return True
        started = self.session.events[0]
        return started.type == "started" and (started.question or _ends(self.session) > 0)

    async def stop(self, person: Person) -> None:
        """Stop at once what runs, for the person who says so."""
        self._stopped_by = person
        self._wake.set()
        if self.session is not None:
            self.session.cancel()
        elif self._task is not None:
            self._task.cancel()

    def wake(self) -> None:
        """Look at once whether an approval was decided."""
        self._wake.set()

    def drain(self) -> None:
        """Come to a stop after the step that runs; the thread goes on when the bot is there again."""
        self._draining = True
        self._wake.set()
        if self.session is not None:
            self.session.drain()
        elif self._task is not None:
            self._task.cancel()

    @property
    def doing(self) -> str:
        """Return what is being done now."""
        if self.session is None:
            return "connecting to " + ", ".join(self.kept.hosts)
        if self.session.waiting is not None and not self.session.at_work:
            return "waiting for an approval"
        return self._telling.doing if self._telling is not None else ""

    async def tell(self, text: str, blocks: list[Block] | None = None) -> bool:
        """Post into the thread; return False where the same words may be said later, by another process.

        Any other refusal is noted, and the investigation goes on without.
        """
        for pause in (*PAUSES_S, None):
            try:
                await self._desk.door.say(self._place, text, blocks)
                return True
            except SlackRefused as error:
                _log.warning("%s (channel %s)", error, self._place.channel)
                if pause is None or error.code not in PASSING:
                    return error.code not in PASSING | KEYS
            await asyncio.sleep(pause)
        return False

    async def _run(self) -> None:
        state: State = "failed"
        try:
            settings = limited(self._desk.settings)
            refuse_what_was_taken_away(settings, self.kept)
            async with self._desk.connector(self.kept.hosts, settings) as found:
                state = await self._investigate(found)
        except asyncio.CancelledError:
            if self._stopped_by is None and not self._draining:
                raise
            state = "stopped" if self._stopped_by is not None else "working"
        except LeadlineError as error:
            await self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - a fault in one thread must not end the others
            _log.exception("a fault in %s", self._place)
            await self._failed(f"something broke here ({type(error).__name__}); what was gathered is kept")
        finally:
            self.live = False
        await self._leave(state)

    async def _investigate(self, found: Connected) -> State:
        settings = limited(self._desk.settings)
        session = self._desk.opener(settings, self.kept, found.hosts)
        try:
            if self.kept.thread is None:
                self.kept = replace(self.kept, thread=session.thread, hosts=tuple(found.hosts))
            self._desk.store.began(self._place, session.thread, tuple(found.hosts))
            who, channel = self.kept.requester.label(), self._place.channel
            _log.info("%s works on %s for %s in %s", session.thread, ", ".join(found.hosts), who, channel)
            for text in self._early:
                session.steer(text)
            self.session = session
            return await self._work(session, found)
        finally:
            self.session = None
            self.live = False
            await session.close()

    async def _work(self, session: Session, found: Connected) -> State:
        """Let the session go on, asking for approvals as they come, until it stops."""
        head = self._head(session, found)
        answered = _ends(session) - int(self.recovered and session.ended is not None)
        while True:
            await self._watch(session, head)
            head = []
            if self._stopped_by is not None:
                return self._record_stop(session, self._stopped_by)
            if self._draining:
                return "waiting" if session.waiting is not None else "working"
            if _ends(session) > answered:
                answered = _ends(session)
                if not await self._answer(session):
                    return "working"
            if session.waiting is not None:
                await self._wait_for_decision(session)
            elif not self._again:
                return "done" if session.ended is not None or _ends(session) else "stopped"
            self._again = False

    async def _watch(self, session: Session, head: list[str]) -> None:
        door = self._desk.door
        growing = Growing(
            door, self._desk.store, self._place, self.kept.requester, every_s=self._desk.every_s
        )
        self._telling = Telling(growing)
        for number, line in enumerate(head):
            growing.line(line, bold=not number)
        try:
            async for event in session.ask(None):
                self._telling.show(event)
        finally:
            await growing.close()

    def _head(self, session: Session, found: Connected) -> list[str]:
        started = session.events[0]
        assert started.type == "started"
        head = f"{', '.join(started.hosts)} \u00b7 {started.mode} \u00b7 {self._desk.settings.model}"
        down = [f"Not looked at: {why}" for why in found.down.values()]
        return [f"{head} \u00b7 session {session.thread}", *down] if len(session.events) < 3 or down else []

    async def _answer(self, session: Session) -> bool:
        """Tell the answer; return whether there is nothing left to tell."""
        from agent.surfaces.records import write_case

        ended = next(event for event in reversed(session.events) if isinstance(event, Ended))
        pieces = report.answer(session.events, ended, self._desk.door.clean)
        for piece in pieces[:-1]:
            await self.tell(piece)
        with suppress(OSError):
            await asyncio.to_thread(write_case, session.folder, session.folder)
        blocks = [report.section(pieces[-1]), report.buttons(session.events, session.thread)]
        return await self.tell(pieces[-1], blocks)

    async def _wait_for_decision(self, session: Session) -> None:
        """Show what waits and sleep until it is decided, void or expired, or somebody says something."""
        desk, asked, approval = self._desk, session.waiting, session.approval_id
        assert asked is not None  # the caller has looked
        desk.store.move(self._place, "waiting")
        record = ApprovalStore(desk.settings.state_dir).get(approval)
        shown = approvals.Asked(record, session.plan(asked.change), session.change(asked.change))
        try:
            await approvals.ask(
                desk.door, desk.store, desk.settings, self._place, shown, again=self.recovered
            )
        except SlackRefused as error:
            why = f"{shown.title} waits for an approval that I cannot show here ({error})"
            told = f"{why}. At a terminal of the machine that runs me: `leadline approvals show {approval}`"
            await self.tell(escaped(desk.door.clean.line(told, 900)))
        while self._stopped_by is None and not self._draining and not self._again:
            left = (record.expires_at - datetime.now(UTC)).total_seconds()
            if left <= 0 or session.waiting is None or session.decided_elsewhere:
                break
            self._wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), min(desk.look_s, left))
        desk.store.move(self._place, "waiting" if self._draining else "working")
        if not self._draining:
            await self.refresh(approval)

    async def refresh(self, approval: str) -> None:
        """Let the message of an approval say what became of it."""
        try:
            await approvals.close(self._desk.door, self._desk.store, self._desk.settings, approval)
        except (SlackRefused, ApprovalRefused) as error:
            _log.warning("%s", error)

    def _record_stop(self, session: Session, person: Person) -> State:
        session.steer(f"{person.label()} stopped the investigation.")
        return "stopped"

    async def _failed(self, why: str) -> None:
        line = escaped(self._desk.door.clean.line(why, 900))
        await self.tell(f"{line}\nSay `go on` to try again; nothing gathered is lost.")

    async def _leave(self, state: State) -> None:
        """Keep where the thread stands and say why it stopped, if it did."""
        self._desk.store.move(self._place, state)
        _log.info("%s: %s", self.kept.thread or self._place.ts, state)
        for shown in self._desk.store.open_messages("approval"):
            if shown.place == self._place and state != "waiting":
                await self.refresh(shown.ref)
        if self._stopped_by is not None:
            who = escaped(self._desk.door.clean.line(self._stopped_by.label(), 120))
            await self.tell(f"Stopped by {who}. What was gathered is kept; `go on` takes it up again.")
        elif self._draining and state in ("working", "waiting"):
            await self.tell("I am being restarted. I go on with this by myself when I am back.")


def _ends(session: Session) -> int:
    return sum(isinstance(event, Ended) for event in session.events)
