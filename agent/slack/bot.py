"""Route what comes from Slack, each thing once: what starts, what steers, what is pressed."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from agent.errors import LeadlineError
from agent.roles import Person
from agent.slack import approvals, buttons, report, revised
from agent.slack.desk import Desk
from agent.slack.errors import SlackRefused
from agent.slack.history import context_of, events_of
from agent.slack.hosts import choose
from agent.slack.incoming import Click, Revised, Spoken
from agent.slack.refusing import refuse
from agent.slack.said import Said
from agent.slack.store import UNFINISHED, Kept, Place
from agent.slack.stream import end_stream
from agent.slack.talk import Talk
from agent.slack.text import escaped
from agent.slack.words import Word, word

_REMEMBERED = 1000
"""Threads in which it is remembered who said what; in older ones the question alone is."""

_log = logging.getLogger("leadline.slack")


class Bot:
    """Hold the conversations of one workspace; every method returns soon and leaves the work to a task."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.talks: dict[Place, Talk] = {}
        self.port: int | None = None
        """Where requests over HTTP are taken."""
        self.over = asyncio.Event()
        self.fault: LeadlineError | None = None
        """Why it is over: it cannot run any more."""
        self._said: dict[Place, Said] = {}
        self._turn: defaultdict[Place, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        # Read before anything is listened to: what comes in meanwhile is this process's own, and heard once.
        self._unfinished = desk.store.unfinished()
        self._unheard = desk.store.left()

    # ---- what comes in; called by the listeners

    def keep(self, spoken: Spoken) -> None:
        """Keep a message before it is acknowledged: should this process die, the next one answers it."""
        if spoken.mention or self.desk.store.get(spoken.place) is not None:
            clean = replace(spoken, text=self.desk.door.clean.exact(spoken.text))
            self.desk.store.keep(spoken.name, clean.to_json())

    def heard(self, spoken: Spoken) -> None:
        """Take in a message, acknowledged or about to be."""
        if not self._draining:
            self._go(self._take(spoken), spoken.place)

    def revised(self, change: Revised) -> None:
        """Take in that a message was edited or deleted."""
        self._go(revised.tell(self.desk, change), change.place)

    def pressed(self, click: Click) -> None:
        """Take in a press of a button."""
        self._go(self._press(click), click.place)

    def submitted(self, click: Click, reason: str) -> None:
        """Take in a modal that was sent off: the reason of a denial."""
        self._go(self._deny(click, reason), click.place)

    # ---- the life of the process

    async def recover(self) -> None:
        """Go on with what a process of before left: messages of its own, threads, what it had not heard."""
        await self._finish_messages()
        for kept in self._unfinished:
            async with self._turn[kept.place]:
                if kept.place in self.talks:
                    continue  # somebody spoke there meanwhile, and it goes on already
                _log.info("going on with %s in channel %s", kept.thread or kept.question, kept.place.channel)
                talk = await self._begin(kept, idle=True)
                self._work(talk)
            await talk.tell("I was restarted, and go on where this stood.")
        for text in self._unheard:
            spoken = Spoken.from_json(text)
            # Its delivery was noted when it came; a shortcut has no other name.
            self.heard(spoken if spoken.name == spoken.delivery else replace(spoken, delivery=""))

    async def _finish_messages(self) -> None:
        """End the streams and close the buttons that nobody serves any more."""
        desk = self.desk
        for shown in desk.store.open_messages("stream"):
            await end_stream(desk.door, shown.place, shown.ts)
            desk.store.shut(shown.place.channel, shown.ts)
        for shown in desk.store.open_messages("approval"):
            try:
                await approvals.close(desk.door, desk.store, desk.settings, shown.ref)
            except SlackRefused as error:
                _log.warning("%s", error)

    async def drain(self, seconds: float) -> bool:
        """Let every investigation come to a stop; return whether all did in time."""
        self._draining = True
        for talk in list(self.talks.values()):
            talk.drain()
        work = [asyncio.create_task(talk.ended()) for talk in self.talks.values()]
        work += list(self._tasks)
        if not work:
            return True
        _, late = await asyncio.wait(work, timeout=seconds)
        for task in late:
            task.cancel()
        return not late

    def give_up(self, fault: LeadlineError) -> None:
        """Let whoever runs the bot know that it cannot go on."""
        self.fault = fault
        self.over.set()

    def _go(self, work: Coroutine[Any, Any, None], place: Place) -> None:
        task = asyncio.create_task(self._guarded(work, place))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None], place: Place) -> None:
        try:
            await work
        except LeadlineError as error:
            _log.warning("%s", error)
            await self._say(place, escaped(self.desk.door.clean.line(str(error), 900)))
        except Exception:  # noqa: BLE001 - a fault in one message must not end the bot
            _log.exception("a fault in channel %s", place.channel)
            await self._say(place, "Something broke here; it is in my log.")

    async def _say(self, place: Place, text: str) -> None:
        try:
            await self.desk.door.say(place, text)
        except SlackRefused as error:
            _log.warning("%s (channel %s)", error, place.channel)

    # ---- messages

    async def _take(self, spoken: Spoken) -> None:
        """Hear a message, and keep it no longer; where this process ends first, the next one hears it."""
        try:
            await self._hear(spoken)
        except Exception:
            self.desk.store.done(spoken.name)
            raise
        self.desk.store.done(spoken.name)

    async def _hear(self, spoken: Spoken) -> None:
        store = self.desk.store
        if spoken.delivery and not store.first(f"event:{spoken.delivery}"):
            return
        kept = store.get(spoken.place)
        if kept is None and not spoken.mention:
            return
        # A mention comes as two events, and a shortcut is used on a message that was heard already.
        if spoken.name != spoken.delivery and not store.first(spoken.name):
            return
        person = await self.desk.access.person(spoken.team, spoken.user)
        refused = await self.desk.access.refusal(
            person, spoken.place.channel, starts=kept is None, shared=spoken.shared
        )
        if refused is not None:
            await refuse(self.desk, spoken, person, refused)
            return
        # From here on a secret that somebody wrote is neither kept nor told to a model.
        spoken = replace(spoken, text=self.desk.door.clean.exact(spoken.text))
        talk = self.talks.get(spoken.place)
        if talk is not None and talk.live and word(spoken.text) == "stop":
            await talk.stop(person)  # waits behind nothing
            return
        async with self._turn[spoken.place]:
            await self._answer(spoken, person, store.get(spoken.place))

    async def _answer(self, spoken: Spoken, person: Person, kept: Kept | None) -> None:
        asked = word(spoken.text)
        if kept is None or (kept.state == "done" and kept.thread is None):
            if kept is not None and not spoken.mention:
                return  # it was given up before it began
            if asked == "help" or (not spoken.text and spoken.begins):
                await self._say(spoken.place, report.HELP)
                return
            await self._new(spoken, person)
        elif kept.state == "asking" and asked == "stop":
            self.desk.store.move(kept.place, "done")
            await self._say(kept.place, "All right, nothing was started.")
        elif kept.state == "asking":
            await self._start(kept, f"{kept.question}\n{spoken.text}", spoken)
        elif asked is not None:
            await self._obey(asked, person, kept)
        elif spoken.text:
            await self._steer(person, spoken.text, kept)

    async def _new(self, spoken: Spoken, person: Person) -> None:
        context = ""
        if not spoken.begins:
            context = await context_of(self.desk, spoken)
        kept = Kept(spoken.place, "asking", spoken.text, context, person, (), None)
        await self._start(kept, spoken.text, spoken)

    async def _start(self, kept: Kept, question: str, naming: Spoken) -> None:
        """Start an investigation where it is known on which hosts; else ask for them."""
        desk, channel = self.desk, kept.place.channel
        full = self._full(kept.requester, channel)
        if full is not None:
            await self._say(kept.place, escaped(f"Not now: {full}. Ask again later, or `stop` one."))
            return
        choice = choose(naming.text, desk.settings, channel)
        if not choice.hosts:
            desk.store.add(replace(kept, question=question), naming.name)
            await self._say(kept.place, escaped(desk.door.clean.line(choice.question, 900)))
            return
        kept = replace(kept, question=question, state="working", hosts=choice.hosts)
        desk.store.add(kept, naming.name)
        await self._begin(kept)

    def _full(self, person: Person, channel: str) -> str | None:
        at_work = [talk for talk in self.talks.values() if talk.live]
        own = sum(talk.kept.requester.key == person.key for talk in at_work)
        return self.desk.access.over_the_cap(person, channel, len(at_work), own)

    async def _obey(self, asked: Word, person: Person, kept: Kept) -> None:
        talk = self.talks.get(kept.place)
        clean = self.desk.door.clean
        match asked:
            case "help":
                await self._say(kept.place, report.HELP)
            case "stop":
                if talk is not None and talk.live:
                    await talk.stop(person)
                else:
                    await self._say(kept.place, "Nothing is at work here.")
            case "go on" if kept.state == "done":
                await self._say(kept.place, "This is finished. Ask on here, or mention me elsewhere.")
            case "go on":
                if talk is None or not talk.live:
                    await self._begin(kept)
            case "status" | "why":
                running = talk.session if talk is not None else None
                if running is not None:
                    events = running.events
                else:
                    events = await asyncio.to_thread(events_of, self.desk.settings, kept)
                doing = talk.doing if talk is not None and talk.live else kept.state
                told = report.why(events, clean) if asked == "why" else report.status(events, doing, clean)
                await self._say(kept.place, told)

    async def _steer(self, person: Person, text: str, kept: Kept) -> None:
        talk = self.talks.get(kept.place)
        if talk is not None and talk.live:
            await talk.hear(person, text)
            return
        talk = await self._begin(kept, idle=True)
        await talk.hear(person, text)
        self._work(talk)

    async def _begin(self, kept: Kept, *, idle: bool = False) -> Talk:
        """Put an investigation to work; ``idle`` leaves it to the caller to let it begin."""
        before = self.talks.get(kept.place)
        if before is not None:
            await before.ended()
        kept = self.desk.store.get(kept.place) or kept
        said = self._said.setdefault(kept.place, Said(self.desk.door.clean, kept.requester, kept.question))
        talk = self.talks[kept.place] = Talk(self.desk, kept, said=said)
        talk.recovered = kept.thread is not None and kept.state in UNFINISHED
        self.desk.store.move(kept.place, "working")
        if not idle:
            self._work(talk)
        return talk

    def _work(self, talk: Talk) -> None:
        talk.begin(self._gone)

    def _gone(self, talk: Talk) -> None:
        if self.talks.get(talk.kept.place) is talk:
            del self.talks[talk.kept.place]
        if len(self._said) > _REMEMBERED:
            idle = [place for place, turn in self._turn.items() if not turn.locked()]
            for place in idle:
                if place not in self.talks:
                    self._said.pop(place, None)
                    del self._turn[place]

    # ---- buttons

    async def _press(self, click: Click) -> None:
        if not self.desk.store.first(f"click:{':'.join(click.key)}"):
            return
        if click.action in report.DETAILS:
            await buttons.details(self.desk, click)
        elif click.action in (approvals.APPROVE, approvals.DENY):
            record = await buttons.press(self.desk, click)
            if record is not None:
                await self._decided(record.thread)
        else:
            _log.warning("a button %r is none of ours", click.action)

    async def _deny(self, click: Click, reason: str) -> None:
        if not self.desk.store.first(f"view:{':'.join(click.key)}"):
            return
        person = await self.desk.access.person(click.team, click.user)
        record = await buttons.given(self.desk, click, person, "denied", reason)
        if record is not None:
            await self._decided(record.thread)

    async def _decided(self, thread: str) -> None:
        """Let the investigation go on that waited; one that nobody drives any more is taken up again."""
        kept = self.desk.store.of_thread(thread)
        if kept is None:
            return
        async with self._turn[kept.place]:
            talk = self.talks.get(kept.place)
            if talk is not None and talk.live:
                talk.wake()
            elif kept.state in ("working", "waiting") and not self._draining:
                await self._begin(kept)
