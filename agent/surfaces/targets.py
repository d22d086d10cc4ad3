"""Turn a host argument into a connection: a host of the settings, ``local``, SSH, or ``SCHEME:NAME``."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from agent.audit import audit_of
from agent.audit_host import AuditedHost
from agent.config import Settings
from agent.errors import HostUnreachable, UsageError
from agent.inventory import Inventory
from agent.surfaces import plugins
from agent.surfaces.console import write_fitted
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

    def check(self, name: str, settings: Settings) -> None:
        """Raise for a name that `resolve` would refuse, and start nothing; may be left out."""
        ...

    def offered(self, state: Path) -> Iterable[tuple[str, str]]:
        """Return whole names that a shell may complete, with what each is; may be left out, must be quick."""
        ...


def say(text: str) -> None:
    """Show a line of progress on stderr."""
    write_fitted(f"  {text}\n", sys.stderr)


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
    return by_plugin if by_plugin is not None else _parsed(name)


def _parsed(name: str) -> HostTarget:
    try:
        return HostTarget.parse(name)
    except ValueError as error:
        scheme, colon, rest = name.partition(":")
        near = nearest(scheme, list(plugins.registered(GROUP))) if colon else ()
        raise UsageError(str(error), do=f"nearest: {near[0]}:{rest}" if near else "") from error


def check(name: str, settings: Settings) -> None:
    """Refuse one host's name that `resolve` would refuse, before anything is started for others."""
    inventory = Inventory.of(settings)
    if inventory.target(name) is not None:
        return
    place = _place(name, inventory)
    plugin = _plugin(place)
    look = getattr(plugin, "check", None)
    if look is not None:
        look(place, settings)
    elif plugin is None:
        _parsed(name)


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
    inventory = Inventory.of(settings)
    place = _place(name, inventory)
    plugin = _plugin(place)
    if plugin is None:
        return None
    target = await _Starting(plugin, place, settings, progress).target()
    return replace(target, name=name) if inventory.get(name) is not None else target


def _place(name: str, inventory: Inventory) -> str:
    """Return what a plugin, if one does, resolves for a name: an entry of the settings may name it."""
    entry = inventory.get(name)
    if entry is None:
        return name
    place = entry.plugin or ""
    if place and "#" not in place:
        raise UsageError(f"host {name}: {place} would start a new one each time", do=f"write {place}#ID")
    return place


class _Starting:
    """Let a plugin resolve a name in a thread, and give back what it started once nobody waits for it."""

    def __init__(self, plugin: HostPlugin, place: str, settings: Settings, progress: Say) -> None:
        self._plugin, self._place, self._settings, self._progress = plugin, place, settings, progress
        self._lock = threading.Lock()
        self._found: HostTarget | None = None
        self._given_up = False

    async def target(self) -> HostTarget:
        """Return where the host is."""
        try:
            return await asyncio.to_thread(self._resolve)
        except asyncio.CancelledError:  # the thread goes on, and may have ended in this moment
            with self._lock:
                self._given_up = True
                found = self._found
            if found is not None:
                self._give_back(found)
            raise

    def _resolve(self) -> HostTarget:
        found = self._plugin.resolve(self._place, self._settings, self._progress)
        with self._lock:
            self._found = found
            late = self._given_up
        if late:
            self._give_back(found)
        return found

    def _give_back(self, found: HostTarget) -> None:
        if is_fresh(self._place):
            self._plugin.release(found.name, self._settings)


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
    with ExitStack() as unused:
        if is_fresh(name):
            unused.callback(release, target.name, settings)
        try:
            host = AuditedHost(await connect(target, settings), audit)
        except ConnectError as error:
            audit.record("login_failed", host=error.host, outcome=error.reason, detail=error.what)
            raise HostUnreachable(error.told, do=error.do) from error
        unused.pop_all()
    try:
        yield host
    finally:
        await host.close()
