"""Open several hosts at the same time, a few at once; one that is down is a row and stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from agent.config import Settings
from agent.errors import HostUnreachable
from agent.surfaces.targets import is_fresh, open_host, release
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


@dataclass(slots=True)
class Opened:
    """Hold the hosts that were asked for, in that order: those that are there, and those that are not."""

    hosts: dict[str, Host] = field(default_factory=dict)
    down: list[Down] = field(default_factory=list)


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
    """Connect to every host until the stack is left; raise only what is no matter of reaching one."""

    async def one(name: str) -> Host | Down:
        door = open_host(name, settings, progress, service=service)
        try:
            host = await door.__aenter__()
        except HostUnreachable as error:
            return Down(name, error.what, error.do)
        stack.push_async_exit(door)
        return host

    try:
        found = await each(names, one)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    opened = Opened()
    for name, host in zip(names, found, strict=True):
        if isinstance(host, Down):
            opened.down.append(host)
        else:
            opened.hosts[host.name if is_fresh(name) else name] = host
    return opened


def give_back_fresh(names: Sequence[str], opened: Opened, settings: Settings, stack: AsyncExitStack) -> None:
    """End, when the stack is left, the hosts that were started because a word asked for a new one."""
    fresh = {name.partition("#")[0] for name in names if is_fresh(name)}
    for name in opened.hosts:
        if name.partition("#")[0] in fresh:
            stack.callback(release, name, settings)
