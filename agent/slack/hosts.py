"""Find the hosts that a message means, and connect to them: by the inventory of the settings alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from agent.config import Settings
from agent.errors import HostUnreachable, LeadlineError, UsageError
from agent.inventory import Inventory
from agent.surfaces.targets import open_host
from tools.contract import Host

_ON: Final = re.compile(r"(?i)\b(?:on|at|of)\s+(?:host\s+)?([a-z][\w.:@-]*\d[\w.-]*)")
_ALL: Final = re.compile(
    r"(?i)\b(?:on|of)\s+(?:all|every|each)\b|\bany\s?where\b|\bwhich hosts?\b|\bevery host\b"
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Say which hosts are meant; with none, what the person is asked."""

    hosts: tuple[str, ...] = ()
    question: str = ""


@dataclass(slots=True)
class Connected:
    """Hold the hosts that answer, and in a line each why the others do not."""

    hosts: dict[str, Host] = field(default_factory=dict)
    down: dict[str, str] = field(default_factory=dict)


def usable(settings: Settings, channel: str) -> list[str]:
    """Return the hosts that may be named in a channel, its own first; raise `UsageError` for a wrong word."""
    words = settings.slack.usable_hosts(channel)
    return Inventory.of(settings).select_known(words) if words else []


def choose(text: str, settings: Settings, channel: str) -> Choice:
    """Return the hosts that a message names, all of them when it asks about all, else the channel's own."""
    may = usable(settings, channel)
    if not may:
        return Choice(
            question="No host is set up for this channel: ask who runs me to add some (docs/slack.md)."
        )
    named = tuple(name for name in may if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text))
    if named:
        return Choice(named)
    if _ALL.search(text):
        return Choice(tuple(may))
    unknown = _ON.search(text)
    if unknown is not None:
        return Choice(question=f"I cannot look at {unknown[1]} from here. {_which(may)}")
    own = settings.slack.channel(channel).hosts
    if own:
        return Choice(tuple(Inventory.of(settings).select_known(own)))
    if len(may) == 1:
        return Choice(tuple(may))
    return Choice(question=_which(may))


def _which(may: Sequence[str]) -> str:
    shown = ", ".join(may[:20]) + (f" and {len(may) - 20} more" if len(may) > 20 else "")
    return f"On which host? Here you may name: {shown}."


@asynccontextmanager
async def connected(names: Sequence[str], settings: Settings) -> AsyncIterator[Connected]:
    """Connect to all at once for the time of the block; raise `HostUnreachable` when none answers."""
    found = Connected()
    async with AsyncExitStack() as stack:
        opening = [open_host(name, settings, lambda _: None, service=True) for name in names]
        done = await asyncio.gather(*(one.__aenter__() for one in opening), return_exceptions=True)
        strange: BaseException | None = None
        for name, manager, result in zip(names, opening, done, strict=True):
            if not isinstance(result, BaseException):
                stack.push_async_exit(manager)
                found.hosts[name] = result
            elif isinstance(result, LeadlineError):
                found.down[name] = str(result)
            else:
                strange = result
        if strange is not None:
            raise strange
        if not found.hosts:
            raise _none(found)
        yield found


def _none(found: Connected) -> LeadlineError:
    told = "; ".join(found.down.values()) or "no host is named"
    return HostUnreachable(told) if found.down else UsageError(told, do="name one")
