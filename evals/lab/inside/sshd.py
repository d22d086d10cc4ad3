"""The sandbox's SSH server: real shells under real SSH, with OpenSSH's manners."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import socket
import struct
import termios
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from signal import Signals
from typing import IO, ClassVar, cast

import asyncssh
from asyncssh.channel import SSHChannel, SSHServerChannel

from evals.lab.inside.children import Child, Children
from evals.lab.inside.services import BASE_ENV

_CHUNK = 64 * 1024
_GONE = (OSError, asyncssh.Error)
"""What reading from or writing to a channel raises when the other side has gone."""


@dataclass(slots=True)
class Door:
    """Count connections, so that a lab nobody uses can end."""

    authorized: asyncssh.SSHKey
    connections: set[object] = field(default_factory=set)
    idle_since: float = field(default_factory=time.monotonic)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def idle_s(self) -> float:
        """Return for how many seconds nobody has been connected."""
        return 0.0 if self.connections else time.monotonic() - self.idle_since


class Server(asyncssh.SSHServer):
    """Let the lab's user in with the lab's key; forward to the sandbox's loopback only."""

    def __init__(self, door: Door, children: Children) -> None:
        self.door = door
        self.children = children

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Count a connection."""
        self.door.connections.add(self)
        self.door.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self.door.connections.discard(self)
        self.door.idle_since = time.monotonic()
        self.door.changed.set()

    def public_key_auth_supported(self) -> bool:
        """Offer keys, and nothing else."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Accept the one key that was made for this lab."""
        return username == "lab" and key == self.door.authorized

    def session_requested(self) -> Shell:
        """Give every session channel a shell of its own."""
        return Shell(self.children)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """Allow forwarding to ports of the lab host itself."""
        return dest_host in ("127.0.0.1", "localhost", "::1")


async def serve(
    listener: socket.socket, host_key: str, door: Door, children: Children
) -> asyncssh.SSHAcceptor:
    """Accept connections on a socket that was bound outside of the sandbox."""
    return await asyncssh.listen(
        sock=listener,
        server_factory=lambda: Server(door, children),
        server_host_keys=[asyncssh.import_private_key(host_key)],
        encoding=None,
        line_editor=False,
        compression_algs=None,
        encryption_algs=["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes256-ctr"],
    )


class Shell(asyncssh.SSHServerProcess[bytes]):
    """Run one command, or an interactive shell, for one channel."""

    running: ClassVar[set[asyncio.Task[None]]] = set()
    """Tasks outlive their connection: a command whose client has gone goes on, as under OpenSSH."""

    def __init__(self, children: Children) -> None:
        super().__init__(self._begin, _files, 3, False)
        self.children = children
        self.child: Child | None = None
        self.terminal: int | None = None

    def signal_received(self, signal: str) -> None:
        """Send a signal to the command's process group."""
        if self.child is not None and not self.child.done.done():
            self.child.signal_group(Signals[f"SIG{signal}"])

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Pass on a new window size."""
        if self.terminal is not None and width and height:
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def break_received(self, msec: int) -> bool:
        """Ignore a break."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Hang up a terminal; a command on pipes sees their ends close."""
        super().connection_lost(exc)
        if self.terminal is not None and self.child is not None and not self.child.done.done():
            self.child.signal_group(Signals.SIGHUP)

    def _begin(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        task = asyncio.get_running_loop().create_task(self._run())
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def _run(self) -> None:
        argv = ["/bin/bash", "-c", self.command] if self.command else ["/bin/bash", "-l"]
        try:
            status = await (self._with_terminal(argv) if self.term_type else self._with_pipes(argv))
        except OSError as error:
            with contextlib.suppress(*_GONE):
                self.stderr.write(f"lab: {error}\n".encode())
                self.exit(255)
            return
        with contextlib.suppress(*_GONE):
            if os.WIFSIGNALED(status):
                self.exit_with_signal(Signals(os.WTERMSIG(status)).name[3:], os.WCOREDUMP(status))
            else:
                self.exit(os.WEXITSTATUS(status))

    def _environment(self) -> dict[str, str]:
        sent = {key: value for key, value in self.env.items() if key == "LANG" or key.startswith("LC_")}
        peer = self.get_extra_info("peername") or ("127.0.0.1", 0)
        term = {"TERM": self.term_type} if self.term_type else {}
        path = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games"}
        return {**BASE_ENV, **path, **sent, **term, "SSH_CONNECTION": f"{peer[0]} {peer[1]} 127.0.0.1 22"}

    async def _with_pipes(self, argv: list[str]) -> int:
        stdin, child_in = os.pipe()
        out, child_out = os.pipe()
        err, child_err = os.pipe()
        try:
            self.child = child = self.children.spawn(
                argv,
                env=self._environment(),
                cwd="/home/lab",
                stdin=stdin,
                stdout=child_out,
                stderr=child_err,
            )
        except OSError:
            for descriptor in (child_in, out, err):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (stdin, child_out, child_err):
                os.close(descriptor)
        feed = asyncio.create_task(self._feed(child_in))
        await asyncio.gather(self._drain(out, self.stdout), self._drain(err, self.stderr))
        status = await child.done
        feed.cancel()
        return status

    async def _with_terminal(self, argv: list[str]) -> int:
        master, slave = pty.openpty()
        self.terminal = master
        self.terminal_size_changed(*self.term_size)
        try:
            self.child = child = self.children.spawn(
                argv,
                env=self._environment(),
                cwd="/home/lab",
                stdin=slave,
                stdout=slave,
                stderr=slave,
                controlling_tty=True,
            )
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        feed = asyncio.create_task(self._feed(os.dup(master)))
        await self._drain(master, self.stdout)
        self.terminal = None
        if not child.done.done():
            child.signal_group(Signals.SIGHUP)
        status = await child.done
        feed.cancel()
        return status

    async def _drain(self, descriptor: int, writer: asyncssh.SSHWriter[bytes]) -> None:
        """Send what a process prints until it ends; a reader that has gone leaves it a broken pipe."""
        async for data in _chunks(os.fdopen(descriptor, "rb", buffering=0)):
            try:
                writer.write(data)
                await writer.drain()
            except _GONE:
                return

    async def _feed(self, descriptor: int) -> None:
        """Pass on what the client sends until its end, or until the process no longer reads."""
        writer = await _pipe_writer(os.fdopen(descriptor, "wb", buffering=0))
        try:
            while data := await self.stdin.read(_CHUNK):
                writer.write(data)
                await writer.drain()
        except _GONE:
            return
        finally:
            writer.close()


class _Files(asyncssh.SFTPServer):
    """Serve files; say that all went well at the end, which `scp` asks for."""

    def exit(self) -> None:
        """End the channel as OpenSSH's server does."""
        with contextlib.suppress(*_GONE):
            self.channel.exit(0)


def _files(channel: SSHChannel[bytes]) -> asyncssh.SFTPServer:
    return _Files(cast("SSHServerChannel[bytes]", channel))


async def _chunks(stream: IO[bytes]) -> AsyncIterator[bytes]:
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), stream
    )
    try:
        while data := await reader.read(_CHUNK):
            yield data
    except OSError:  # a terminal whose last process has gone reads as an error, not as an end
        return
    finally:
        transport.close()


async def _pipe_writer(stream: IO[bytes]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, stream)
    return asyncio.StreamWriter(transport, protocol, None, loop)
