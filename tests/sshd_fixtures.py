"""Two real SSH servers on loopback: asyncssh's, in this process, and OpenSSH's, as a subprocess."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

import asyncssh
import pytest

from evals.loopback_sshd import NoServer, free_port, loopback_sshd, loopback_target, write_keys
from tools.execution import CommandHost
from tools.host import HostTarget, connect

Kind = Literal["asyncssh", "openssh"]
KINDS: tuple[Kind, ...] = ("asyncssh", "openssh")
HostKind = Literal["local", "asyncssh", "openssh"]
HOST_KINDS: tuple[HostKind, ...] = ("local", "asyncssh", "openssh")


@dataclass(frozen=True)
class FileSettings:
    """The two settings that connecting reads."""

    ssh_config: Path | None
    known_hosts: Path


@dataclass
class SshServer:
    """A running server of either kind."""

    kind: Kind
    port: int
    root: Path
    cut: Callable[[], None]
    """Break every connection at once, as a dead link does; commands are left alone."""
    logins: list[str] = field(default_factory=list)
    """Users who began to log in (asyncssh only)."""
    forwarded: list[int] = field(default_factory=list)
    """Ports that were reached through the server (asyncssh only)."""
    settings: FileSettings = field(init=False)

    def __post_init__(self) -> None:
        self.settings = FileSettings(None, self.root / "absent_known_hosts")

    def target(self, name: str = "loopback") -> HostTarget:
        return loopback_target(self.root, self.port, name)

    def log(self) -> str:
        """Return what OpenSSH's server wrote; nothing for asyncssh's."""
        file = self.root / "sshd.log"
        return file.read_text(errors="replace") if file.exists() else ""


class _Server(asyncssh.SSHServer):
    def __init__(self, seen: SshServer, connections: list[asyncssh.SSHServerConnection]) -> None:
        self._seen = seen
        self._connections = connections

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.append(conn)

    def begin_auth(self, username: str) -> bool:
        self._seen.logins.append(username)
        return True

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        self._seen.forwarded.append(dest_port)
        return True


async def _serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
    command = process.command
    assert command is not None
    child = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdin and child.stdout and child.stderr
    feeding = asyncio.create_task(_pump(process.stdin, child.stdin))
    outputs = [
        asyncio.create_task(_pump(child.stdout, process.stdout)),
        asyncio.create_task(_pump(child.stderr, process.stderr)),
    ]
    try:
        code = await child.wait()
        # What the command left in its pipes is still sent; children that hold them are not waited for.
        await asyncio.wait(outputs, timeout=0.5)
    finally:
        for task in (feeding, *outputs):
            task.cancel()
        child._transport.close()  # type: ignore[attr-defined]
        await child.wait()  # it was killed if it still ran: a loop that ends before it is known warns of it
    await asyncio.gather(feeding, *outputs, return_exceptions=True)
    with contextlib.suppress(OSError):
        if code < 0:
            process.exit_with_signal(_signal_name(-code))
        else:
            process.exit(code)


async def _pump(
    source: asyncio.StreamReader | asyncssh.SSHReader[bytes],
    sink: asyncio.StreamWriter | asyncssh.SSHWriter[bytes],
) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        if isinstance(sink, asyncio.StreamWriter):
            sink.write_eof()


def _signal_name(number: int) -> str:
    return signal.Signals(number).name.removeprefix("SIG")


@contextlib.asynccontextmanager
async def asyncssh_server(root: Path) -> AsyncIterator[SshServer]:
    """Run asyncssh's server in this process."""
    port = free_port()
    write_keys(root, port)
    connections: list[asyncssh.SSHServerConnection] = []

    def cut() -> None:
        for connection in connections:
            connection.abort()

    server = SshServer("asyncssh", port, root, cut)
    listener = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=lambda: _Server(server, connections),
        server_host_keys=[str(root / "host_key")],
        authorized_client_keys=str(root / "authorized_keys"),
        process_factory=_serve,
        encoding=None,
    )

    try:
        yield server
    finally:
        cut()
        listener.close()
        await listener.wait_closed()


@contextlib.asynccontextmanager
async def openssh_server(root: Path, extra: str = "") -> AsyncIterator[SshServer]:
    """Run OpenSSH's server, or skip the test with the reason."""
    try:
        async with loopback_sshd(root, extra) as server:
            yield SshServer("openssh", server.port, root, server.cut)
    except NoServer as error:
        pytest.skip(str(error))


def ssh_server(kind: Kind, root: Path) -> AbstractAsyncContextManager[SshServer]:
    """Run a server of the named kind."""
    return asyncssh_server(root) if kind == "asyncssh" else openssh_server(root)


@contextlib.asynccontextmanager
async def any_host(kind: HostKind, root: Path) -> AsyncIterator[CommandHost]:
    """Connect to this machine, directly or through a server of the named kind."""
    if kind == "local":
        opened = await connect(HostTarget("local", "local"), FileSettings(None, root / "none"))
        yield cast("CommandHost", opened)
        await opened.close()
        return
    async with ssh_server(kind, root) as server:
        opened = await connect(server.target(), server.settings)
        yield cast("CommandHost", opened)
        await opened.close()


def odd_seconds() -> str:
    """Return a time for ``sleep`` so odd that it names the processes of one test."""
    return f"98{secrets.randbelow(10**6):06d}"


def processes(token: str) -> dict[int, str]:
    """Return the processes whose command lines hold ``token``, by PID."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if token in line:
                found[int(file.parent.name)] = line
    return found


def left(token: str) -> list[str]:
    """Return the command lines of processes that hold ``token``."""
    return list(processes(token).values())


def end_all(token: str) -> None:
    """Kill what a test left running on purpose."""
    for pid in processes(token):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def started(token: str) -> None:
    """Wait until a ``sleep`` with ``token`` runs."""
    for _ in range(100):
        if any(line.startswith("sleep") for line in left(token)):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the command never started")


class Wire:
    """A stretch of network in front of a server that can fall silent without saying so."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._flow = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Wire:
        self._flow.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def silence(self) -> None:
        """Carry nothing more on connections that are open now; later ones work."""
        self._flow.clear()
        self._flow = asyncio.Event()
        self._flow.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(source, sink, self._flow))
            self._tasks.add(task)

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flow: asyncio.Event
    ) -> None:
        try:
            while data := await source.read(65536):
                await flow.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            return
        finally:
            sink.close()
