"""Open an SSH connection with the host key always verified, and say plainly why it could not be opened."""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from tools.host import ConnectError, ConnectReason, HostSettings, HostTarget

CONNECT_S = 10.0
LOGIN_S = 20.0
KEEPALIVE_S = 15.0
KEEPALIVE_MISSES = 2
_GLOBAL_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
_DEAF_TO_CTRL_C = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""What starts a ProxyCommand: the terminal sends it Ctrl-C too, and work on the host goes through it."""


@dataclass(slots=True)
class Link:
    """Hold a connection together with the jump hosts it goes through."""

    connection: asyncssh.SSHClientConnection
    jumps: list[asyncssh.SSHClientConnection] = field(default_factory=list)

    async def close(self, limit_s: float) -> None:
        """Close all of it, by force when the other side does not answer in time."""
        for connection in (self.connection, *reversed(self.jumps)):
            connection.close()
            try:
                await asyncio.wait_for(connection.wait_closed(), limit_s)
            except TimeoutError:
                connection.abort()

    def abort(self) -> None:
        """Drop all of it at once."""
        for connection in (self.connection, *reversed(self.jumps)):
            connection.abort()


@dataclass(slots=True)
class _Place:
    """Hold where one connection goes, as resolved from the configuration, and what may vouch for its key."""

    name: str
    options: asyncssh.SSHClientConnectionOptions
    files: list[Path]
    known: asyncssh.SSHKnownHosts
    pinned: bool = False

    @property
    def address(self) -> str:
        return str(self.options.host)

    @property
    def port(self) -> int:
        return int(self.options.port)

    @property
    def jump(self) -> list[str]:
        tunnel = self.options.tunnel
        return tunnel.split(",") if isinstance(tunnel, str) and tunnel.lower() != "none" else []

    def trusted(self, peer: str) -> bool:
        """Tell whether some key, whichever, is on record for this host."""
        alias = self.options.host_key_alias or self.address
        port = None if self.port == 22 else self.port
        keys, _, revoked, *_ = self.known.match(alias, peer, port)
        # The match by port falls back to the bare name where all that stands on record is a revoked key.
        _, _, revoked_here, *_ = self.known.match(f"[{alias}]:{port}", "", None)
        return bool(keys or revoked or revoked_here)


class _Client(asyncssh.SSHClient):
    """Note how far the connection came, and which key was refused."""

    def __init__(self, on_reached: Callable[[], None]) -> None:
        self.on_reached = on_reached
        self.reached = False
        self.peer = ""
        self.offered: asyncssh.SSHKey | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.reached = True
        self.on_reached()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.peer, self.offered = addr, key
        return False


async def open_link(target: HostTarget, settings: HostSettings) -> Link:
    """Connect to ``target`` through its jump hosts, if any; raise `ConnectError`."""
    place = _resolve(target, settings)
    jumps: list[asyncssh.SSHClientConnection] = []
    try:
        # asyncssh would open the jumps itself, but with the host key check as the configuration has it.
        for hop in place.jump:
            jumps.append(await _open_jump(target, hop, settings, jumps[-1] if jumps else None))
        return Link(await _open(place, target, settings, jumps[-1] if jumps else None), jumps)
    except BaseException:
        for connection in reversed(jumps):
            connection.abort()
        raise


async def _open_jump(
    target: HostTarget, hop: str, settings: HostSettings, through: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    try:
        jump = HostTarget.parse(hop)
        return await _open(_resolve(jump, settings), jump, settings, through)
    except ConnectError as error:
        what = f"its jump host {hop}: {error.what}"
        raise ConnectError(target.name, error.reason, what, do=error.do) from error
    except ValueError as error:
        what = f"its jump host cannot be used ({error})"
        raise ConnectError(target.name, "unreachable", what, do="mend ProxyJump in ~/.ssh/config") from error


def _arguments(target: HostTarget, settings: HostSettings) -> dict[str, Any]:
    config = target.config
    if config is None and target.known_hosts is None and target.own_config:
        config = settings.ssh_config
    arguments: dict[str, Any] = {
        "config": [str(config)] if config is not None and config.is_file() else None,
        "agent_forwarding": False,
        "connect_timeout": None,
        "login_timeout": 0,  # ours ends it, and says why; of two that end at once either may be first
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVE_MISSES,
    }
    if target.port is not None:
        arguments["port"] = target.port
    if target.user is not None:
        arguments["username"] = target.user
    if target.key_path is not None:
        arguments |= {"client_keys": [str(target.key_path)], "agent_path": None}
    return arguments


def _resolve(target: HostTarget, settings: HostSettings) -> _Place:
    # The name of the host decides which part of the configuration holds, so it is given as written.
    try:
        options = asyncssh.SSHClientConnectionOptions(
            host=target.address, known_hosts=b"", **_arguments(target, settings)
        )
        files = [] if target.host_keys else _known_hosts_files(target, settings, options)
        known = (
            asyncssh.import_known_hosts("".join(f"* {key}\n" for key in target.host_keys))
            if target.host_keys
            else asyncssh.read_known_hosts([str(file) for file in files])
        )
    except (OSError, ValueError) as error:
        raise ConnectError(
            target.name,
            "auth",
            f"the key, known_hosts or ssh_config cannot be used ({error})",
            do="see that the file can be read; `leadline hosts show` tells which key the settings name",
        ) from error
    return _Place(target.name, options, files, known, pinned=bool(target.host_keys))


def _known_hosts_files(
    target: HostTarget, settings: HostSettings, options: asyncssh.SSHClientConnectionOptions
) -> list[Path]:
    if target.known_hosts is not None:
        return [target.known_hosts]
    if not target.own_config:
        return [_GLOBAL_KNOWN_HOSTS] if _GLOBAL_KNOWN_HOSTS.is_file() else []
    named = options.config.get("UserKnownHostsFile")
    own = [Path(str(name)).expanduser() for name in named] if isinstance(named, list) and named else []
    return [file for file in (*(own or [settings.known_hosts]), _GLOBAL_KNOWN_HOSTS) if file.is_file()]


async def _open(
    place: _Place, target: HostTarget, settings: HostSettings, jump: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    arguments = _arguments(target, settings) | ({"tunnel": jump} if jump is not None else {})
    if place.options.proxy_command:
        arguments["proxy_command"] = [*_DEAF_TO_CTRL_C, *place.options.proxy_command]
    try:
        return await _attempt(place, target, arguments)
    except (asyncssh.KeyExchangeFailed, asyncssh.ConnectionLost, ConnectionError) as error:
        if isinstance(error, ConnectionRefusedError) or not place.trusted(""):
            raise _broken(place, error) from error
    # It may have no key of the types on record: look at the one it has, so that it can be named.
    try:
        return await _attempt(place, target, arguments | {"server_host_key_algs": "default"})
    except (asyncssh.Error, OSError) as error:
        raise _broken(place, error) from error


async def _attempt(
    place: _Place, target: HostTarget, arguments: dict[str, Any]
) -> asyncssh.SSHClientConnection:
    """Connect once; raise `ConnectError` for what is clear, and what a broken handshake raises."""
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(CONNECT_S)
    client = _Client(lambda: limit.reschedule(loop.time() + LOGIN_S))
    try:
        async with limit:
            return await asyncssh.connect(
                target.address, client_factory=lambda: client, known_hosts=place.known, **arguments
            )
    except TimeoutError as error:
        raise _late(place, client) from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise _bad_key(place, client, error.reason) from error
    except asyncssh.PermissionDenied as error:
        raise _denied(place, error) from error
    except (asyncssh.KeyExchangeFailed, asyncssh.ConnectionLost, ConnectionError):
        raise
    except (asyncssh.Error, OSError, ValueError) as error:
        raise _broken(place, error) from error


def _spot(place: _Place) -> str:
    return f"{place.address} port {place.port}"


def _late(place: _Place, client: _Client) -> ConnectError:
    what = (
        f"gave no login within {LOGIN_S:g} s" if client.reached else f"did not answer within {CONNECT_S:g} s"
    )
    return ConnectError(
        place.name,
        "timeout",
        f"{_spot(place)} {what}",
        do="check the address, the network path (VPN, firewall) and that the host is up",
    )


def _denied(place: _Place, error: asyncssh.PermissionDenied) -> ConnectError:
    return ConnectError(
        place.name,
        "auth",
        f"{_spot(place)} let user {place.options.username} in with none of the keys offered ({error.reason})",
        do="check user and key: put the public key in the host's authorized_keys, or load it with ssh-add",
    )


def _bad_key(place: _Place, client: _Client, reason: str) -> ConnectError:
    """Tell a key that is not on record from one that is not the one on record."""
    key = client.offered
    name = str(place.options.host_key_alias or place.address)
    entry = shlex.quote(name if place.port == 22 else f"[{name}]:{place.port}")
    file = shlex.quote(str(place.files[0])) if place.files else "~/.ssh/known_hosts"
    shown = f"{key.get_fingerprint()} ({key.get_algorithm()})" if key else "a key of another type"
    if place.pinned:
        return ConnectError(
            place.name,
            "host_key_changed",
            f"{_spot(place)} shows {shown}, not the host_key of the settings ({reason}); nothing was sent",
            do="it was reinstalled, or something answers in its place: ask who runs it for the fingerprint, "
            f"and only if it is the one shown here, change host_key under [hosts.{place.name}]",
        )
    if place.trusted(client.peer):
        return ConnectError(
            place.name,
            "host_key_changed",
            f"{_spot(place)} shows {shown}, not the key on record in {file} ({reason}); nothing was sent",
            do="it was reinstalled, or something answers in its place: ask who runs it for the fingerprint, "
            "and only if it is the one shown here, remove the old key with "
            f"`ssh-keygen -f {file} -R {entry}` and record the new one",
        )
    scan = f"ssh-keyscan -p {place.port} {shlex.quote(place.address)}"
    return ConnectError(
        place.name,
        "host_key_unknown",
        f"{_spot(place)} shows {shown}, and no key of it is on record in {file}; nothing was sent",
        do="ask who runs it for the fingerprint; if it is the one shown here, record the key with "
        f"`{scan} >> {file}` and compare once more with `ssh-keygen -l -F {entry} -f {file}`",
    )


def _broken(place: _Place, error: Exception) -> ConnectError:
    reason: ConnectReason = "unreachable"
    what, do = f"{_spot(place)} cannot be reached ({error})", "check the address and the network path"
    if isinstance(error, socket.gaierror):
        reason = "unknown_host"
        what, do = f"no address is known for {place.address}", "check the name, DNS and ~/.ssh/config"
    elif isinstance(error, ConnectionRefusedError) or _all_refused(error):
        reason = "refused"
        what, do = f"nothing listens on {_spot(place)}", "check the port, and that sshd runs there"
    elif isinstance(error, asyncssh.ChannelOpenError):
        what = f"the jump host does not reach {_spot(place)} ({error.reason})"
    elif isinstance(error, asyncssh.Error | ConnectionError):
        what = f"what answers on {_spot(place)} broke the connection off ({error})"
        do = "check that it is an SSH server, and its log"
    elif isinstance(error, ValueError):
        reason, do = "auth", "check the key files and ~/.ssh/config"
    return ConnectError(place.name, reason, what, do=do)


def _all_refused(error: Exception) -> bool:
    # asyncio folds one error an address into a single message when a name has several.
    text = str(error)
    return isinstance(error, OSError) and 0 < text.count("Connect call failed") == text.count("[Errno 111]")
