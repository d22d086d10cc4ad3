"""Talk over one session behind an open input line: connect, converse, leave it so that it is gone on with."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import signal
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from agent import threads
from agent.config import Settings, pin_libraries
from agent.errors import ExitCode
from agent.inventory import Inventory
from agent.models.select import PLAYBOOK, model_of
from agent.surfaces import opening, slash
from agent.surfaces.conversation import Conversation
from agent.surfaces.doing import Doing, load_client
from agent.surfaces.entrance import Entrance
from agent.surfaces.going_on import NO_HOST
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.screen import Screen, WholeLines
from agent.surfaces.status import Status
from agent.surfaces.targets import release, say
from tools.contract import Host

if TYPE_CHECKING:
    from agent.session import Session


_OF_THE_WEB = ("httpcore2", "anyio.streams.tls", "anyio._backends._asyncio")
"""What the first request would load, of a benchmark as of a model."""


async def talk(options: OpenOptions, entrance: Entrance, stack: AsyncExitStack) -> ExitCode:
    """Talk until the person leaves; return the exit code."""
    settings = await asyncio.to_thread(_settings, options)
    screen = _screen(options, settings, entrance)
    connecting = asyncio.create_task(opening.open_hosts(options, settings, stack, say))
    if await entrance.left_before(connecting):
        return ExitCode.DONE
    hosts = connecting.result()
    warm = asyncio.create_task(asyncio.to_thread(_warm_up, settings))
    unused = stack.enter_context(ExitStack())
    for name in opening.started_here(options, hosts):
        unused.callback(release, name, settings)

    async def begin(symptom: str) -> Session:
        await warm
        asked = dataclasses.replace(options, mode=doing.mode)
        here = hosts if doing.names == list(hosts) else {name: hosts[name] for name in doing.names}
        session = opening.start(asked, doing.settings, here, symptom)
        unused.pop_all()
        return session

    async def other(thread: str, now: Settings) -> Session:
        needed = threads.started(now, thread).hosts
        if any(name not in hosts for name in needed):
            asked = dataclasses.replace(options, resume=thread)
            hosts.update(await opening.open_hosts(asked, now, stack, say))
        now = opening.with_load_of(needed, options, now)
        return opening.resume(thread, now, {name: hosts[name] for name in needed})

    session = None
    if options.resume is not None:
        await warm
        session = opening.resume(options.resume, settings, hosts)
    else:
        _greet(screen, options, settings, hosts)
    doing = Doing(settings, hosts, other, options.mode)
    conversation = Conversation(
        entrance.lines,
        screen,
        begin,
        session,
        place=f"{', '.join(hosts)} · {_mode(options, settings)}",
        hears=settings.model != PLAYBOOK,
        doing=doing,
    )

    def complete(typed: str) -> Iterable[tuple[str, str]]:
        return [(one.word, one.help) for one in slash.complete(doing.desk(conversation.session), typed)]

    screen.complete = complete

    def hang_up() -> None:
        entrance.write_nowhere()
        conversation.terminate()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, conversation.terminate)
    loop.add_signal_handler(signal.SIGHUP, hang_up)
    try:
        return await conversation.hold()
    finally:
        await _leave(conversation, screen, options, settings)


def _settings(options: OpenOptions) -> Settings:
    """Return the settings; a model that is not there is told before a host is reached."""
    settings = opening.settings_of(options)
    model_of(settings)
    return settings


def _warm_up(settings: Settings) -> None:
    """Load and make, while the person types, what is needed first: in the loop it would hold up every key.

    So would looking for garbage among all that is loaded, now or ever after.
    """
    gc.disable()
    try:
        _load(settings)
    finally:
        gc.freeze()
        gc.enable()


def _load(settings: Settings) -> None:
    pin_libraries()
    from agent import seen_before  # noqa: F401
    from agent.driver import drive  # noqa: F401
    from agent.graph import prepare
    from agent.ports import Ports
    from agent.shown import default_tools, digests
    from agent.surfaces.records import write_case  # noqa: F401
    from prompts.render import render
    from tools.policy import policy_in_force
    from tools.redact import redact

    redact(b"its patterns are made at the first text")
    digests(default_tools(settings, question=False), question=False)
    render("note_act")
    prepare()
    Ports.real()
    for name in ("tools.settings.remote", "tools.settings.view", *_OF_THE_WEB):
        import_module(name)
    policy_in_force(settings.tools.policy)
    load_client(settings)


def _mode(options: OpenOptions, settings: Settings) -> str:
    """Return what may be done; a session keeps the mode that it began with."""
    return options.mode if options.resume is None else threads.started(settings, options.resume).mode


def _screen(options: OpenOptions, settings: Settings, entrance: Entrance) -> Screen:
    """Return where text goes, and let the input line show what the screen knows."""
    status = Status(
        [options.host],
        _mode(options, settings),
        settings.model,
        is_production=Inventory.of(settings).is_production,
    )
    typed = entrance.typed
    if typed is None:
        return Screen(None, status)
    screen = Screen(WholeLines(typed.redraw), status, bell=settings.chat.bell)
    screen.lend = typed.lend
    entrance.screen = screen
    return screen


def _greet(screen: Screen, options: OpenOptions, settings: Settings, hosts: Mapping[str, Host]) -> None:
    screen.note(
        f"Leadline · {', '.join(hosts)} · {options.mode} · {settings.model}. "
        "Say what is wrong, with the numbers you see; /help lists commands, Ctrl-D leaves",
        whole=False,
    )


async def _leave(
    talk: Conversation,
    screen: Screen,
    options: OpenOptions,
    settings: Settings,
) -> None:
    """Give back the session, and a host that was started for it and has served; say how to go on."""
    session = talk.session
    if session is not None:
        await session.close()
        if not (session.folder / "transcript.jsonl").is_file():
            return  # it was removed meanwhile, which is told as the error that it is
    own = [session.folder] if session is not None and talk.finished else []
    given = _give_back([*talk.left, *own], settings)
    for heir in sorted(set(given.values()) - {"", session.thread if session is not None else ""}):
        screen.note(f"the simulated host stays for {heir}, which is unfinished: {_again(heir, settings)}")
    if session is None:
        return
    again = _again(session.thread, settings)
    if not talk.finished:
        screen.note(f"left unfinished; go on with: {again}")
    elif "" in given.values():
        screen.note(f"the simulated host is given back; see: leadline cases show {session.thread}")
    else:
        screen.note(f"ask on with: {again}")


def _give_back(folders: Iterable[Path], settings: Settings) -> dict[str, str]:
    """Give back what was started for threads that came to their end; return who keeps what, or nobody."""
    given: dict[str, str] = {}
    for folder in dict.fromkeys(folders):
        if (folder / opening.OWNED).is_file():
            if opening.unfinished(folder):
                given |= dict.fromkeys((folder / opening.OWNED).read_text().splitlines(), folder.name)
            else:
                given |= opening.give_back(folder, settings)
    return given


def _again(thread: str, settings: Settings) -> str:
    """Return what goes on with a thread, which has hosts of its own whatever this chat began on."""
    hosts = ",".join(threads.started(settings, thread).hosts) or NO_HOST
    return f"leadline chat {hosts} --resume {thread}"
