"""Start a real OpenSSH server on loopback, with keys of its own, for tests and benches."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tools.host import HostTarget

_CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {root}/host_key
AuthorizedKeysFile {root}/authorized_keys
PidFile {root}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
LogLevel VERBOSE
"""


class NoServer(Exception):
    """Say why no OpenSSH server can be started here."""


def loopback_target(root: Path, port: int, name: str = "loopback") -> HostTarget:
    """Return how to reach a server on loopback with the keys that lie in a folder."""
    return HostTarget(
        name=name,
        address="127.0.0.1",
        port=port,
        user=getpass.getuser(),
        key_path=root / "client_key",
        known_hosts=root / "known_hosts",
    )


@dataclass(frozen=True, slots=True)
class LoopbackServer:
    """Describe a running server: how to reach it, and what to look at."""

    port: int
    root: Path
    process: asyncio.subprocess.Process

    @property
    def log(self) -> str:
        """Return what the server wrote so far."""
        return (self.root / "sshd.log").read_text(errors="replace")

    def target(self, name: str = "loopback") -> HostTarget:
        """Return how to reach the server with the key it knows."""
        return loopback_target(self.root, self.port, name)

    def cut(self) -> None:
        """Kill the processes that serve connections; commands they started are left alone."""
        for child in _connections(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def _connections(server: int) -> list[int]:
    found: list[int] = []
    waiting = [server]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if Path(f"/proc/{child}/comm").read_text().startswith("sshd"):
                    waiting.append(int(child))
                    found.append(int(child))
    return found


def find_sshd() -> str:
    """Return the path of ``sshd``; raise `NoServer`."""
    path = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/sbin")
    if path is None:
        raise NoServer("no sshd here: apt-get install openssh-server")
    return path


@contextlib.asynccontextmanager
async def loopback_sshd(root: Path, extra: str = "") -> AsyncIterator[LoopbackServer]:
    """Run ``sshd`` on a free port of 127.0.0.1 with fresh keys below ``root``; raise `NoServer`."""
    sshd = find_sshd()
    if os.geteuid() == 0:
        # Where no system sshd ever ran, its privilege separation folder is missing.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port = free_port()
    write_keys(root, port)
    (root / "sshd_config").write_text(_CONFIG.format(port=port, root=root) + extra)
    with (root / "sshd.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sshd, "-D", "-e", "-f", str(root / "sshd_config"), stdout=log, stderr=log
        )
    server = LoopbackServer(port, root, process)
    try:
        await _listening(server)
        yield server
    finally:
        server.cut()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free right now.

    It lies below those that connections are given, so none takes it before it is used; and 10,000 more, which
    an engine may want besides, is a port too.
    """
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = 12_000 + secrets.randbelow(18_000)
            probe.bind(("127.0.0.1", port))
            return port


def write_keys(root: Path, port: int) -> None:
    """Write a host key, a client key, ``authorized_keys`` and the matching ``known_hosts``."""
    import asyncssh

    host_key = asyncssh.generate_private_key("ssh-ed25519")
    client_key = asyncssh.generate_private_key("ssh-ed25519")
    for key, name in ((host_key, "host_key"), (client_key, "client_key")):
        key.write_private_key(str(root / name))
        (root / name).chmod(0o600)
    host_key.write_public_key(str(root / "host_key.pub"))
    (root / "authorized_keys").write_bytes(client_key.export_public_key())
    line = host_key.export_public_key().decode()
    (root / "known_hosts").write_text(f"[127.0.0.1]:{port} {line}")


async def _listening(server: LoopbackServer) -> None:
    for _ in range(100):
        if server.process.returncode is not None:
            raise NoServer(f"sshd does not start: {server.log.strip()[-300:]}")
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(0.05)
    raise NoServer("sshd does not listen after 5 s")
