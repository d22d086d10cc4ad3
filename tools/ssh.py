"""A host reached over SSH: one kept connection, a channel a command, ports forwarded to our loopback."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Sequence
from functools import partial
from typing import cast

import asyncssh

from tools.capture import Running
from tools.execution import CommandHost, NotStarted
from tools.host import ConnectError, HostSettings, HostTarget
from tools.ssh_connect import Link, open_link

_COMMAND_LIMIT = 128 * 1024 - 1
"""The login shell gets the whole command as one argument; Linux takes no longer one."""

_CLOSE_LIMIT_S = 3.0


class SshHost(CommandHost):
    """Run commands on channels of one connection, which is opened again when it was lost."""

    def __init__(self, target: HostTarget, settings: HostSettings) -> None:
        super().__init__(target.name)
        self._target = target
        self._settings = settings
        self._link: Link | None = None
        self._opening = asyncio.Lock()
        self._forwarding = asyncio.Lock()
        self._ports: dict[int, int] = {}
        self._closed = False

    async def open(self) -> asyncssh.SSHClientConnection:
        """Return the kept connection, opened (again) when there is none; raise `ConnectError`."""
        async with self._opening:
            if self._closed:
                raise ConnectError(self.name, "unreachable", "the connection was closed", do="connect again")
            if self._link is None or self._link.connection.is_closed():
                self._ports.clear()
                if self._link is not None:
                    self._link.abort()
                self._link = await open_link(self._target, self._settings)
                key = self._link.connection.get_server_host_key()
                self.key_fingerprint = key.get_fingerprint() if key else None
            return self._link.connection

    async def launch(self, argv: Sequence[str], running: Running, stdin: bytes | None) -> None:
        """Start ``argv`` on a channel of its own; raise `NotStarted`."""
        command = _command(argv)
        reopened, pause = False, 0.1
        while True:
            connection = await self._opened()
            try:
                channel = await _start(connection, command, running)
            except (asyncssh.Error, OSError) as error:
                await asyncio.sleep(0)  # A connection that just died says so one round of the loop later.
                dead = connection.is_closed()
                if dead and running.sent:
                    running.close(str(error))
                    return
                if not (self._may_wait(running) if not dead else not reopened):
                    raise NotStarted(f"not started: the host refused a channel ({error})") from error
                reopened = reopened or dead
                await asyncio.sleep(0 if dead else pause)
                pause = min(2 * pause, 1.0)
            else:
                _send(channel, stdin)
                return

    async def launch_killer(self, argv: Sequence[str], running: Running, *, fresh: bool) -> None:
        """Start a killer on the kept connection, else on one of its own; raise `NotStarted`."""
        if fresh and self._link is not None:
            self._link.abort()  # What carried no killer for so long carries nothing.
        try:
            await self.launch(argv, running, None)
        except NotStarted:
            # MaxSessions may leave no channel beside the command that is to be killed.
            await self._launch_apart(argv, running)

    async def _launch_apart(self, argv: Sequence[str], running: Running) -> None:
        try:
            link = await open_link(self._target, self._settings)
        except ConnectError as error:
            raise NotStarted(str(error)) from error
        try:
            await _start(link.connection, _command(argv), running)
        except (asyncssh.Error, OSError) as error:
            raise NotStarted(str(error)) from error
        finally:
            running.release = link.abort
            if not running.sent:
                link.abort()

    def _may_wait(self, running: Running) -> bool:
        """Tell whether a channel that was refused may be free soon: others of ours hold some."""
        others = [other for other in self._active.values() if other is not running and other.sent]
        ours = running in self._active.values() and not (running.sent or running.abandoned)
        return ours and bool(others)

    async def _opened(self) -> asyncssh.SSHClientConnection:
        try:
            return await self.open()
        except ConnectError as error:
            raise NotStarted(f"not started: {error}") from error

    async def forward(self, port: int) -> int:
        """Return a port on our loopback that reaches ``127.0.0.1:port`` there; raise `ConnectError`."""
        async with self._forwarding:
            connection = await self.open()
            if port not in self._ports:
                try:
                    listener = await connection.forward_local_port("127.0.0.1", 0, "127.0.0.1", port)
                except (asyncssh.Error, OSError) as error:
                    what = f"port {port} cannot be forwarded ({error})"
                    raise ConnectError(self.name, "unreachable", what, do="connect again") from error
                self._ports[port] = listener.get_port()
            return self._ports[port]

    async def disconnect(self) -> None:
        """Close the connection, politely for a moment, then by force."""
        self._closed = True
        if self._link is not None:
            await self._link.close(_CLOSE_LIMIT_S)


def _command(argv: Sequence[str]) -> bytes:
    try:
        # With exec no shell stays between sshd and the command: signals and stderr are the command's own.
        command = f"exec {shlex.join(argv)}".encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise NotStarted("not started: an argument cannot be written as bytes") from error
    if b"\0" in command:
        raise NotStarted("not started: an argument holds a NUL byte")
    if len(command) > _COMMAND_LIMIT:
        raise NotStarted(f"not started: {len(command)} bytes of arguments; send long data on stdin")
    return command


async def _start(
    connection: asyncssh.SSHClientConnection, command: bytes, running: Running
) -> asyncssh.SSHClientChannel[bytes]:
    # What ~/.ssh/config asks for in a shell (tty, environment, X11) has no place in a command.
    channel, _ = await connection.create_session(
        lambda: _Session(running),
        cast("str", command),
        env={},
        send_env=[],
        request_pty=False,
        x11_forwarding=False,
        encoding=None,
    )
    return channel


def _send(channel: asyncssh.SSHClientChannel[bytes], stdin: bytes | None) -> None:
    try:
        if stdin:
            channel.write(stdin)
        channel.write_eof()
    except OSError:
        return  # The command ended without reading its input; its exit code says the rest.


def _signal(channel: asyncssh.SSHClientChannel[bytes], name: str) -> None:
    # Many servers ignore it, and a closed channel refuses it: the killer does not rely on it.
    with contextlib.suppress(OSError):
        channel.send_signal(name)


class _Session(asyncssh.SSHClientSession[bytes]):
    def __init__(self, running: Running) -> None:
        self._running = running

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._running.sent = True
        self._running.stop = partial(_signal, chan)
        self._running.release = chan.abort

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        is_error = datatype == asyncssh.EXTENDED_DATA_STDERR
        self._running.feed(self._running.stderr if is_error else self._running.stdout, data)

    def eof_received(self) -> bool:
        return True  # The exit status comes after the end of the output.

    def exit_status_received(self, status: int) -> None:
        self._running.end(status)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._running.end(None, signal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._running.close(str(exc) if exc is not None else None)
