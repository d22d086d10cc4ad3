"""Turn a host argument into a connection: a host of the settings, ``local``, SSH, or ``SCHEME:NAME``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from agent.audit import audit_of
from agent.audit_host import AuditedHost
from agent.config import Settings
from agent.errors import HostUnreachable, UsageError
from agent.inventory import Inventory
from agent.surfaces import plugins
from tools.contract import Host
from tools.host import ConnectError, HostTarget, connect
from tools.wrong_fields import nearest

GROUP = "leadline.hosts"
Say = Callable[[str], None]


class HostPlugin(Protocol):
    """Provide hosts under a scheme; registered as a module under the entry point ``leadline.hosts``."""

    def resolve(self, name: str, settings: Settings, progress: Say) -> HostTarget:
        """Return where the host is, starting it when it has to be; may take long."""
        ...

    def release(self, name: str, settings: Settings) -> None:
        """Give back a host that `resolve` started."""
        ...

    def offered(self, state: Path) -> Iterable[tuple[str, str]]:
        """Return whole names that a shell may complete, with what each is; may be left out, must be quick."""
        ...


def say(text: str) -> None:
    """Show a line of progress on stderr."""
    sys.stderr.write(f"  {text}\n")


def is_lab(name: str) -> bool:
    """Tell whether a host argument names simulated hosts alone, where load and changes harm nobody."""
    return all(one.strip().startswith("lab:") for one in name.split(","))


def is_fresh(name: str) -> bool:
    """Tell whether resolving the name starts a host of our own, which we then give back."""
    return any(_plugin(one) is not None and "#" not in one for one in map(str.strip, name.split(",")))


def _plugin(name: str) -> HostPlugin | None:
    scheme, colon, _ = name.partition(":")
    if not colon:
        return None
    plugin: HostPlugin | None = plugins.load(GROUP, scheme)
    return plugin


async def resolve(name: str, settings: Settings, progress: Say) -> HostTarget:
    """Return where a named host is: as the settings say, by the plugin of its scheme, else by SSH."""
    inventory = Inventory.of(settings)
    named = inventory.select(name)
    if len(named) > 1:
        raise UsageError(f"{name} are {len(named)} hosts, and this works on one", do=f"name {named[0]}, say")
    name = named[0]
    known = inventory.target(name)
    if known is not None:
        return known
    by_plugin = await _plugged(name, settings, progress)
    if by_plugin is not None:
        return by_plugin
    try:
        return HostTarget.parse(name)
    except ValueError as error:
        scheme, colon, rest = name.partition(":")
        near = nearest(scheme, list(plugins.registered(GROUP))) if colon else ()
        raise UsageError(str(error), do=f"nearest: {near[0]}:{rest}" if near else "") from error


async def resolve_for_service(name: str, settings: Settings, progress: Say) -> HostTarget:
    """Return where a host is for a service that works alone: by the inventory, with its key pinned."""
    inventory = Inventory.of(settings)
    entry = inventory.get(name)
    if entry is None or entry.plugin is None:
        return inventory.for_service(name)
    target = await _plugged(name, settings, progress)
    if target is None or target.known_hosts is None:
        raise UsageError(f"host {name}: nothing pins the key of {entry.plugin}", do="write its host_key")
    return target


async def _plugged(name: str, settings: Settings, progress: Say) -> HostTarget | None:
    entry = Inventory.of(settings).get(name)
    place = entry.plugin if entry is not None else name
    if entry is not None and place is not None and "#" not in place:
        raise UsageError(f"host {name}: {place} would start a new one each time", do=f"write {place}#ID")
    plugin = _plugin(place) if place is not None else None
    if plugin is None or place is None:
        return None
    target = await asyncio.to_thread(plugin.resolve, place, settings, progress)
    return replace(target, name=name) if entry is not None else target


def release(name: str, settings: Settings) -> None:
    """Give back a host that was started for us."""
    plugin = _plugin(name)
    if plugin is not None:
        plugin.release(name, settings)


@asynccontextmanager
async def open_host(
    name: str, settings: Settings, progress: Say = say, *, service: bool = False
) -> AsyncIterator[Host]:
    """Connect for the time of the block, each command recorded; raise `HostUnreachable` with what to do.

    A ``service`` reaches hosts of the inventory alone, by what stands there.
    """
    find = resolve_for_service if service else resolve
    target = await find(name, settings, progress)
    audit = audit_of(settings)
    try:
        host = AuditedHost(await connect(target, settings), audit)
    except ConnectError as error:
        audit.record("login_failed", host=error.host, outcome=error.reason, detail=error.what)
        raise HostUnreachable(error.told, do=error.do) from error
    try:
        yield host
    finally:
        await host.close()
