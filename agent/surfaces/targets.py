"""Turn a host argument into a connection: ``local``, an SSH host or alias, or ``SCHEME:NAME`` of a plugin."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import entry_points

from agent.config import Settings
from agent.errors import HostUnreachable, UsageError
from tools.contract import Host
from tools.host import ConnectError, HostTarget, connect

GROUP = "leadline.hosts"


def say(text: str) -> None:
    """Show a line of progress on stderr."""
    sys.stderr.write(f"  {text}\n")


def is_lab(name: str) -> bool:
    """Tell whether a host argument names a simulated host, where load and changes harm nobody."""
    return name.startswith("lab:")


async def resolve(name: str, settings: Settings, progress: Callable[[str], None]) -> HostTarget:
    """Return where a named host is; a scheme before the colon is looked up among the plugins."""
    scheme, colon, rest = name.partition(":")
    if colon:
        for entry in entry_points(group=GROUP, name=scheme):
            target: HostTarget = await entry.load()(rest, settings, progress)
            return target
    try:
        return HostTarget.parse(name)
    except ValueError as error:
        raise UsageError(str(error)) from error


@asynccontextmanager
async def open_host(
    name: str, settings: Settings, progress: Callable[[str], None] = lambda text: None
) -> AsyncIterator[Host]:
    """Connect for the time of the block; raise `HostUnreachable` with what to do."""
    target = await resolve(name, settings, progress)
    try:
        host = await connect(target, settings)
    except ConnectError as error:
        raise HostUnreachable(f"{error.host}: {error.what}", do=error.do) from error
    try:
        yield host
    finally:
        await host.close()
