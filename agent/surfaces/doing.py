"""Do for a chat what a command asks for beyond its answer: change threads, model or mode, undo, copy."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, assert_never

from agent.config import Settings, in_tmux
from agent.errors import LeadlineError
from agent.kept import find_kept
from agent.models.select import PLAYBOOK
from agent.state import Mode
from agent.surfaces import clipboard
from agent.surfaces.hand_run import ByHand, Floor
from agent.surfaces.slash_types import (
    Afresh,
    Desk,
    Enter,
    ModelTaken,
    ModeTaken,
    PutOnClipboard,
    Share,
    TakeBack,
    Then,
    started,
)
from tools.contract import Host
from tools.display import printable

if TYPE_CHECKING:
    from agent.events import Live
    from agent.session import Session


OpenThread = Callable[[str, Settings], Awaitable["Session"]]
"""Connects what a thread needs and takes it up under these settings."""


def load_client(settings: Settings) -> None:
    """Load what the first request to an endpoint needs; in the loop it would hold up every key."""
    if settings.model != PLAYBOOK:
        from agent.models.openai import prepare

        import_module("anyio._backends._asyncio")
        prepare(settings)


class Talk(Floor, Protocol):
    """What a chat lets its commands do."""

    async def enter(self, session: Session) -> None:
        """Talk over another session from now on; the one before is closed."""
        ...

    async def leave(self) -> Session:
        """Let the next message begin a session; return the one before, which is closed."""
        ...

    async def work(self, session: Session, events: AsyncIterator[Live]) -> None:
        """Show what a session does, with the decisions it asks for, until it stops."""
        ...

    def take_model(self, model: str) -> None:
        """Send what is said to this model from now on."""
        ...

    def take_mode(self, mode: Mode) -> None:
        """Show another mode, for the session that will begin."""
        ...


class Doing:
    """Hold what commands need besides the session: settings, hosts, and a way to open other threads."""

    def __init__(
        self,
        settings: Settings,
        hosts: Mapping[str, Host],
        open_thread: OpenThread,
        mode: Mode = "read-only",
    ) -> None:
        self.settings = settings
        """Those of the session that begins with the first message."""
        self.mode = mode
        """What it may do."""
        self.names: list[str] = list(hosts)
        """The hosts that it is on."""
        self._hosts = hosts
        self._open_thread = open_thread
        self._by_hand = ByHand(settings, hosts)
        self._since = datetime.now(UTC)

    def desk(self, session: Session | None, *, idle: bool = True) -> Desk:
        """Return what commands answer from."""
        settings = session.work.settings if session is not None else self.settings
        return Desk(settings, session, idle, self._hosts, self.mode, self._since)

    async def then(self, talk: Talk, then: Then) -> None:
        """Do it; what cannot be done is told in a line, and the chat goes on as it was."""
        try:
            match then:
                case Enter(thread=thread):
                    now = self.desk(talk.session).settings
                    await talk.enter(await self._open_thread(thread, now))
                case Afresh():
                    session = await talk.leave()
                    first = started(session)
                    self.settings, self.mode, self.names = session.work.settings, first.mode, first.hosts
                case TakeBack(change=change):
                    await self._take_back(talk, change)
                case PutOnClipboard():
                    talk.note(_copied(then, at_terminal=talk.typed))
                case ModelTaken(model=model, settings=settings):
                    self.settings = settings or self.settings
                    await asyncio.to_thread(load_client, self.desk(talk.session).settings)
                    talk.take_model(model)
                case ModeTaken(mode=mode):
                    self.mode = mode
                    talk.take_mode(mode)
                case Share():
                    assert talk.session is not None  # the command answers in a session alone
                    talk.note(self._by_hand.share(talk.session))
                case _:
                    assert_never(then)
        except LeadlineError as error:
            talk.note(printable(str(error)))

    async def by_hand(self, talk: Talk, line: str, *, idle: bool) -> None:
        """Run a command that a person typed behind a ``!``."""
        await self._by_hand.run(talk, line, idle=idle)

    async def _take_back(self, talk: Talk, change: str) -> None:
        from agent.surfaces.changes_kept import open_undo

        assert talk.session is not None  # the change is one of it
        work = talk.session.work
        kept = find_kept(work.settings, change)
        host = work.hosts[kept.plan.host]
        undo = open_undo(work.settings, kept, host, tools=work.tools, redact=work.redact, ports=work.ports)
        try:
            await talk.work(undo, undo.ask(None))
        finally:
            await undo.close()


def _copied(wanted: PutOnClipboard, *, at_terminal: bool) -> str:
    if not at_terminal or sys.__stdout__ is None:
        return f"no terminal to copy {wanted.what} to; /save FILE writes the case file"
    text, whole = clipboard.fitting(wanted.text)
    # Past the input line, which holds text back until a line is whole; this moves no cursor.
    clipboard.put(text, sys.__stdout__, tmux=in_tmux())
    cut = "" if whole else f"; only its first {len(text):,} of {len(wanted.text):,} characters fit"
    return f"copied {wanted.what} ({len(text):,} characters) to the clipboard of your terminal{cut}"
