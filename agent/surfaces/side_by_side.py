"""Open several hosts at the same time, a few at once; one that is down is a row and stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeVar

from agent.config import Settings
from agent.errors import HostUnreachable
from agent.surfaces.targets import check, is_fresh, open_host, release
from agent.untrusted import wrapped
from prompts.render import render
from tools.contract import Host

AT_ONCE = 8
"""How many hosts are worked on at the same time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Down:
    """Name a host that was not reached, and what a person reads of it."""

    name: str
    what: str
    do: str

    @property
    def reason(self) -> str:
        """Return why, to stand beside the name."""
        return self.what.removeprefix(f"{self.name}: ")


class Opened(dict[str, Host]):
    """Hold the hosts that were reached, in the order asked for, and beside them those that were not."""

    def __init__(self) -> None:
        super().__init__()
        self.down: list[Down] = []
        self.notes: list[str] = []
        """What their own files of notes say."""

    @property
    def note(self) -> str | None:
        """Return what the record has to say of hosts that were asked for and are not there."""
        if not self.down:
            return None
        # What a server says as it hangs up is a stranger's text.
        rows = wrapped("\n".join(f"- {host.name}: {host.reason}" for host in self.down))
        return render("note_left_out", asked=len(self) + len(self.down), down=len(self.down), rows=rows)


async def each(names: Sequence[str], work: Callable[[str], Awaitable[T]]) -> list[T]:
    """Do the same for every name, `AT_ONCE` at a time; return the answers in order."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> T:
        async with gate:
            return await work(name)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(name)) for name in names]
    return [task.result() for task in tasks]


async def open_all(
    names: Sequence[str],
    settings: Settings,
    stack: AsyncExitStack,
    progress: Callable[[str], None],
    *,
    service: bool = False,
) -> Opened:
    """Connect to every host until the stack is left; raise only what is no matter of reaching one.

    Then nothing is left of what was started for it; a name that is wrong is told before anything is started.
    """
    started: list[str] = []

    async def one(name: str) -> Host | Down:
        door = open_host(name, settings, progress, service=service)
        try:
            host = await door.__aenter__()
        except HostUnreachable as error:
            return Down(name, error.what, error.do)
        stack.push_async_exit(door)
        if is_fresh(name):
            started.append(host.name)
        return host

    for name in names:
        check(name, settings)
    try:
        found = await each(names, one)
    except BaseException as error:
        for name in started:
            release(name, settings)
        if isinstance(error, BaseExceptionGroup):
            raise error.exceptions[0] from error
        raise
    opened = Opened()
    for name, host in zip(names, found, strict=True):
        if isinstance(host, Down):
            opened.down.append(host)
        else:
            opened[host.name if is_fresh(name) else name] = host
    return opened


def give_back_fresh(names: Sequence[str], opened: Opened, settings: Settings, stack: AsyncExitStack) -> None:
    """End, when the stack is left, the hosts that were started because a word asked for a new one."""
    fresh = {name.partition("#")[0] for name in names if is_fresh(name)}
    for name in opened:
        if name.partition("#")[0] in fresh:
            stack.callback(release, name, settings)
