"""What a person types as ``!command`` in a chat: it runs on the host by hand, is shown, and can be shared."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agent.errors import LeadlineError, UsageError
from agent.models.select import PLAYBOOK
from agent.own_secrets import redactor
from agent.sharing import Ran, judged, run_by_hand, share, shown
from agent.surfaces.input_line import Closed, Interrupted, Later
from tools.artifacts import ArtifactStore
from tools.contract import Host, ToolContext, ToolError
from tools.display import printable

if TYPE_CHECKING:
    from agent.config import Settings
    from agent.session import Session

MARK = "!"
BEFORE = "by-hand"
"""Stands in the audit for the thread of what is run before a session has begun."""
AGREE = "Run it? y(es), n(o): "
SHARE = "Share this with the model? y(es), n(o): "

_HOST = re.compile(r"(\S+):\s+(.*)", re.DOTALL)

T = TypeVar("T")


class Keyboard(Protocol):
    """Where lines come from, as far as it is of use here."""

    live: bool

    async def read(self, prompt: str, *, decision: bool = False) -> str:
        """Return the next line; raise `Interrupted`, `Later` or `Closed`."""
        ...

    def keep(self, text: str) -> None:
        """Keep what was typed for the next line."""
        ...


class Floor(Protocol):
    """What a chat lends to a command that a person runs."""

    session: Session | None

    @property
    def lines(self) -> Keyboard:
        """Return where lines come from."""
        ...

    @property
    def typed(self) -> bool:
        """Tell whether a person sits at the keyboard."""
        ...

    def say(self, text: str, *, whole: bool = False) -> None:
        """Show a text."""
        ...

    def note(self, text: str) -> None:
        """Tell what is about the chat itself."""
        ...


class ByHand:
    """Run what is typed, and keep the last output until it is shared."""

    def __init__(self, settings: Settings, hosts: Mapping[str, Host]) -> None:
        self._settings = settings
        self._hosts = hosts
        self._last: Ran | None = None

    async def run(self, floor: Floor, line: str, *, idle: bool) -> None:
        """Run one line; what is wrong with it is told, and the chat goes on."""
        try:
            name, command = place(line, self._of(floor.session))
            ran = await self._run(floor, name, command)
        except (ToolError, LeadlineError) as error:
            floor.note(printable(str(error)))
            return
        if ran is None:
            return
        floor.say(text_of(shown(self._context(floor.session), ran)), whole=True)
        self._last = ran
        await self._offer(floor, idle=idle)

    def share(self, session: Session) -> str:
        """Share the last output; return what a person reads of it. Raises `UsageError`."""
        if self._last is None:
            raise UsageError("nothing was run by hand since", do="!COMMAND runs one")
        handle = share(session.work, self._last)
        self._last = None
        return f"shared as {handle}: the model sees it with your next message"

    def _of(self, session: Session | None) -> Mapping[str, Host]:
        return session.work.hosts if session is not None else self._hosts

    def _context(self, session: Session | None) -> ToolContext:
        """Return what the command runs with: what it prints is kept apart until it is shared."""
        settings = session.work.settings if session is not None else self._settings
        return ToolContext(
            call_id="by-hand",
            hosts=self._of(session),
            store=ArtifactStore(settings.state_dir / "by-hand" / "artifacts"),
            redact=session.work.redact if session is not None else redactor(settings),
            settings=settings.tools,
        )

    async def _run(self, floor: Floor, name: str, command: str) -> Ran | None:
        context = self._context(floor.session)
        decision = judged(command, context.settings.policy)
        if decision.verdict == "ask":
            if not floor.typed:
                raise ToolError(f"not run: {decision.reason}; a person at a terminal has to agree")
            floor.say(printable(f"{decision.reason}\non {name}: {decision.rendered}"), whole=True)
            if not await _yes(floor, AGREE):
                floor.note("not run")
                return None
        thread = floor.session.thread if floor.session is not None else BEFORE
        ran = await _attended(floor, name, run_by_hand(context, name, command, decision, thread))
        if ran is None:
            floor.note(f"ended by Ctrl-C; how far it came on {printable(name)} is not known")
        return ran

    async def _offer(self, floor: Floor, *, idle: bool) -> None:
        session = floor.session
        if session is None or session.work.model.name == PLAYBOOK:
            return
        if not (idle and floor.typed):
            floor.note("/share gives this to the model")
        elif await _yes(floor, SHARE):
            try:
                floor.note(self.share(session))
            except LeadlineError as error:
                floor.note(printable(str(error)))


def place(line: str, hosts: Collection[str]) -> tuple[str, str]:
    """Return the host and the command of a line; raise `UsageError` where it is not clear which host."""
    text = line.removeprefix(MARK).strip()
    found = _HOST.fullmatch(text)
    if found is not None:
        if found[1] not in hosts:
            there = ", ".join(hosts) or "none"
            raise UsageError(f"{found[1]} is no host of this chat", do=f"there are: {there}")
        return found[1], found[2].strip()
    if len(hosts) != 1:
        raise UsageError(
            f"there are {len(hosts)} hosts", do=f"name one: {', '.join(f'!{name}: ...' for name in hosts)}"
        )
    if not text:
        raise UsageError("no command", do="write it behind the !, such as !nvidia-smi")
    return next(iter(hosts)), text


async def _yes(floor: Floor, question: str) -> bool:
    try:
        word = (await floor.lines.read(question, decision=True)).strip().lower()
    except (Interrupted, Closed):
        return False
    return word in ("y", "yes")


async def _attended(floor: Floor, name: str, doing: Coroutine[Any, Any, T]) -> T | None:
    """Wait for it while the keyboard stays usable; Ctrl-C ends it, and then there is no result."""
    task = asyncio.create_task(doing)
    try:
        while floor.lines.live and not task.done():
            reading = asyncio.create_task(floor.lines.read(f"[{name}] running by hand, Ctrl-C ends it> "))
            await asyncio.wait({task, reading}, return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            await asyncio.wait({reading})
            if reading.cancelled():
                continue
            try:
                floor.lines.keep(reading.result())
            except Later as typed:
                floor.lines.keep(typed.text)
            except (Interrupted, Closed) as stopped:
                task.cancel()
                await asyncio.wait({task})
                if isinstance(stopped, Interrupted):
                    floor.lines.keep(stopped.text)
        return None if task.cancelled() else await task
    finally:
        task.cancel()
        await asyncio.wait({task})


def text_of(view: Mapping[str, Any]) -> str:
    """Return what a command printed and how it ended, as a person reads it."""
    parts = [f"$ {view['command']}"]
    parts += [str(view[name]) for name in ("stdout", "stderr") if view[name]]
    code = view["exit_code"]
    ended = f"exit {code}" if code is not None else str(view["outcome"]).replace("_", " ")
    more = f"; {view['note']}" if "note" in view else ""
    parts.append(f"[{view['host']}] {ended} in {view['seconds']} s{more}")
    if "cut" in view:
        parts.append("shown in part; what is shared holds all that was kept")
    return "\n".join(parts)
