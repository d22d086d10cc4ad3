"""Run `leadline chat`: connect, talk over one session, leave it so that it can be gone on with."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING

from agent import threads
from agent.config import Settings
from agent.errors import ExitCode
from agent.inventory import Inventory
from agent.models.select import PLAYBOOK, model_of
from agent.surfaces import opening, slash
from agent.surfaces.conversation import Conversation
from agent.surfaces.doing import Doing
from agent.surfaces.input_line import Lines, PipedLines, TypedLines
from agent.surfaces.keys import Complete
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.screen import Screen, WholeLines
from agent.surfaces.status import Status
from agent.surfaces.targets import is_fresh, release, say
from tools.contract import Host

if TYPE_CHECKING:
    from agent.session import Session

HISTORY = "chat-history"


def run(options: OpenOptions) -> None:
    """Talk, and leave with an exit code of ``docs/cli.md``."""
    code = asyncio.run(_run(options))
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


async def _run(options: OpenOptions) -> ExitCode:
    settings = opening.settings_of(options)
    model_of(settings)
    async with AsyncExitStack() as stack:
        screen, lines = doors(settings, stack, _status(options, settings), lambda typed: complete(typed))
        hosts = await opening.open_hosts(options, settings, stack, say)
        unused = stack.enter_context(ExitStack())
        if options.resume is None and is_fresh(options.host):
            unused.callback(release, next(iter(hosts)), settings)

        def begin(symptom: str) -> Session:
            session = opening.start(options, settings, hosts, symptom)
            unused.pop_all()
            return session

        async def other(thread: str, now: Settings) -> Session:
            needed = threads.started(now, thread).hosts
            if any(name not in hosts for name in needed):
                asked = dataclasses.replace(options, resume=thread)
                hosts.update(await opening.open_hosts(asked, now, stack, say))
            return opening.resume(thread, now, {name: hosts[name] for name in needed})

        session = None
        if options.resume is not None:
            session = opening.resume(options.resume, settings, hosts)
        else:
            _greet(screen, options, settings, hosts)
        doing = Doing(settings, hosts, other)
        talk = Conversation(
            lines,
            screen,
            begin,
            session,
            place=f"{', '.join(hosts)} · {_mode(options, settings)}",
            hears=settings.model != PLAYBOOK,
            doing=doing,
        )

        def complete(typed: str) -> Iterable[tuple[str, str]]:
            return [(one.word, one.help) for one in slash.complete(doing.desk(talk.session), typed)]

        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, talk.terminate)
        try:
            return await talk.hold()
        finally:
            await _leave(talk, screen, options, settings)


def _mode(options: OpenOptions, settings: Settings) -> str:
    """Return what may be done; a session keeps the mode that it began with."""
    return options.mode if options.resume is None else threads.started(settings, options.resume).mode


def _status(options: OpenOptions, settings: Settings) -> Status:
    is_production = Inventory.of(settings).is_production
    return Status([options.host], _mode(options, settings), settings.model, is_production=is_production)


def doors(
    settings: Settings, stack: AsyncExitStack, status: Status, complete: Complete
) -> tuple[Screen, Lines]:
    """Return where text goes and where lines come from: an input line below it, or plain streams."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Screen(None, status), PipedLines()
    from prompt_toolkit.patch_stdout import patch_stdout

    shown = WholeLines()
    screen = Screen(shown, status, bell=settings.chat.bell)
    typed = TypedLines(settings.state_dir / HISTORY, complete, screen.tail, status.line, vi=settings.chat.vi)
    shown.changed, screen.lend = typed.redraw, typed.lend
    stack.enter_context(patch_stdout(raw=True))
    stack.callback(typed.close)
    return screen, typed


def _greet(screen: Screen, options: OpenOptions, settings: Settings, hosts: Mapping[str, Host]) -> None:
    screen.note(
        f"Leadline · {', '.join(hosts)} · {options.mode} · {settings.model}. "
        "Say what is wrong, with the numbers you see; /help lists commands, Ctrl-D leaves"
    )


async def _leave(
    talk: Conversation,
    screen: Screen,
    options: OpenOptions,
    settings: Settings,
) -> None:
    """Give back the session, and a host that was started for it and has served; say how to go on."""
    session = talk.session
    if session is None:
        return
    await session.close()
    if not talk.finished:
        screen.note(f"left unfinished; go on with: {_again(session, options)}")
        return
    lent = (session.folder / opening.OWNED).is_file()
    opening.give_back(session.folder, settings)
    if lent:
        screen.note(f"the simulated host is given back; see: leadline cases show {session.thread}")
    else:
        screen.note(f"ask on with: {_again(session, options)}")


def _again(session: Session, options: OpenOptions) -> str:
    return f"leadline chat {options.host} --resume {session.thread}"
