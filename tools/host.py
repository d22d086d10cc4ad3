"""The door to a host: name it, connect to it, and learn in one line why that did not work."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol

from tools.contract import Host
from tools.display import printable

ConnectReason = Literal[
    "unknown_host", "unreachable", "refused", "auth", "host_key_unknown", "host_key_changed", "timeout"
]


class ConnectError(Exception):
    """Say that a host could not be reached, why, and what to do next."""

    def __init__(self, host: str, reason: ConnectReason, what: str, *, do: str) -> None:
        # What a server says as it hangs up is a stranger's text: one line, nothing hidden in it.
        self.what = printable(" ".join(what.split()))
        super().__init__(f"{host}: {self.what}; {do}")
        self.host = host
        named = re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w.-])", self.what)
        self.told = self.what if named else f"{host}: {self.what}"
        """What went wrong, with the host named once."""
        self.reason: ConnectReason = reason
        self.do = do


class HostSettings(Protocol):
    """What connecting needs of the settings."""

    @property
    def ssh_config(self) -> Path | None:
        """The person's ``~/.ssh/config``."""
        ...

    @property
    def known_hosts(self) -> Path:
        """The person's ``known_hosts``."""
        ...


@dataclass(frozen=True, slots=True)
class HostTarget:
    """Say where a host is and how to get in; what is left out comes from ``~/.ssh/config``, then defaults.

    With ``known_hosts`` the target is pinned: the key must stand in that file, and no configuration but
    ``config`` is read. ``key_path`` is then the only key offered. ``host_keys`` are public keys that are the
    only ones taken; without ``own_config`` nothing of a person's own configuration is read at all.
    """

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    key_path: Path | None = None
    known_hosts: Path | None = None
    config: Path | None = None
    host_keys: tuple[str, ...] = ()
    own_config: bool = True

    @classmethod
    def parse(cls, text: str) -> HostTarget:
        """Return the target of ``local``, an alias, or ``[user@]host[:port]``; raise `ValueError`."""
        user, _, place = text.rpartition("@")
        address, port = place, ""
        if place.startswith("["):
            address, closed, rest = place[1:].partition("]")
            port = rest.removeprefix(":") if closed else "?"
        elif place.count(":") == 1:
            address, _, port = place.partition(":")
        if not address or address.startswith("-") or (port and not port.isdecimal()):
            raise ValueError(f"not a host: {text!r}; write [user@]host[:port]")
        return cls(name=text, address=address, port=int(port) if port else None, user=user or None)


async def connect(target: HostTarget, settings: HostSettings) -> Host:
    """Open the one connection that all commands on a host share; raise `ConnectError`."""
    if target.address == "local":
        from tools.local import LocalHost

        return LocalHost(target.name)
    # It is large: loaded in the loop, it would hold up a keyboard, and every other host.
    await asyncio.to_thread(import_module, "tools.ssh")
    from tools.ssh import SshHost

    host = SshHost(target, settings)
    await host.open()
    return host
