"""A host with a real systemd and a real sshd: a small Debian tree booted by systemd-nspawn.

The tree is made once by debootstrap and kept in the cache; each host boots with a layer of its own over it.
Host and container share the network, so sshd and engines listen on free ports of this machine's loopback.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.config import Settings
from evals.loopback_sshd import free_port, write_keys
from tests.sshd_fixtures import FileSettings
from tools.contract import Host
from tools.host import HostTarget, connect

PACKAGES = ("systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "curl", "python3-minimal", "procps")
_UP_S = 60.0
_SSHD_UNIT = """[Unit]
Description=SSH server of the test

[Service]
RuntimeDirectory=sshd
ExecStart=/usr/sbin/sshd -D -e -f /etc/leadline-test/sshd_config
Restart=always
"""
_SSHD = """ListenAddress 127.0.0.1
Port {port}
HostKey /etc/leadline-test/host_key
AuthorizedKeysFile /etc/leadline-test/authorized_keys .ssh/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
"""


class NoNspawn(Exception):
    """Say in one line why no such host can be had here."""


@dataclass
class SystemdHost:
    """A booted host."""

    root: Path
    keys: Path
    port: int
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def settings(self) -> FileSettings:
        return FileSettings(None, self.keys / "absent_known_hosts")

    def target(self, name: str = "systemd-host") -> HostTarget:
        return HostTarget(
            name=name,
            address="127.0.0.1",
            port=self.port,
            user="root",
            key_path=self.keys / "client_key",
            known_hosts=self.keys / "known_hosts",
        )


def why_not() -> str | None:
    """Return why there can be no such host here, or None."""
    if os.geteuid() != 0:
        return "not root"
    missing = [name for name in ("debootstrap", "systemd-nspawn") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


def tree() -> Path:
    """Return the kept tree, made first where there is none; raise `NoNspawn`."""
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    source, key = _mirror(suite)
    words = ["--variant=minbase", f"--include={','.join(PACKAGES)}"]
    if key is not None:
        words.append(f"--keyring={key}")
    digest = hashlib.sha256("\0".join([suite, *PACKAGES]).encode()).hexdigest()[:12]
    folder = Settings().cache_dir / "systemd-tree"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{suite}-{digest}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            new = folder / f"new-{digest}"
            shutil.rmtree(new, ignore_errors=True)
            done = subprocess.run(
                ["debootstrap", *words, suite, str(new), source],
                capture_output=True,
                check=False,
                timeout=900,
            )
            if done.returncode:
                last = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()[-1:]
                raise NoNspawn(f"debootstrap failed: {' '.join(last)}")
            shutil.rmtree(new / "var/cache/apt/archives", ignore_errors=True)
            new.rename(kept)
    return kept


def _mirror(suite: str) -> tuple[str, Path | None]:
    """Return the mirror that this machine takes its packages from, and its key."""
    for path in sorted(Path("/etc/apt").rglob("*.sources")):
        for block in re.split(r"\n\s*\n", path.read_text()):
            fields = dict(re.findall(r"(?m)^([A-Za-z-]+):[ \t]*(.+)$", block))
            if suite in fields.get("Suites", "").split() and "main" in fields.get("Components", ""):
                key = Path(fields.get("Signed-By", "").strip() or "/absent")
                return fields["URIs"].split()[0], key if key.is_file() else None
    for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt").rglob("sources.list.d/*.list"))]:
        text = path.read_text() if path.is_file() else ""
        if found := re.search(rf"(?m)^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+{re.escape(suite)}\s+.*\bmain\b", text):
            return found[1], None
    raise NoNspawn(f"no package mirror for {suite or 'this system'} is configured")


@contextlib.contextmanager
def booted(folder: Path, units: Mapping[str, str], files: Mapping[str, str]) -> Iterator[SystemdHost]:
    """Boot a fresh copy of the tree with units (started at boot) and files; raise `NoNspawn`."""
    if (problem := why_not()) is not None:
        raise NoNspawn(problem)
    root, keys, port = folder / "root", folder / "keys", free_port()
    _unpack(tree(), root)
    keys.mkdir()
    write_keys(keys, port)
    _prepare(root, keys, port, units, files)
    log = folder / "console.log"
    up = SystemdHost(root, keys, port, log, _launched(root, port, log))
    try:
        _await(up.process, port, log)
        yield up
    finally:
        _end(up.process)
        subprocess.run(["umount", "--lazy", str(root)], capture_output=True, check=False)
        shutil.rmtree(root, ignore_errors=True)


def boot_again(up: SystemdHost) -> None:
    """Wait until a host that was told to restart is down, and boot it again from its own disk."""
    up.process.wait(timeout=_UP_S)
    up.process = _launched(up.root, up.port, up.log)
    _await(up.process, up.port, up.log)


def _launched(root: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    words = ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe"]
    name = f"leadline-{os.getpid()}-{port}"
    with log.open("ab") as out:
        return subprocess.Popen(
            [*words, f"--machine={name}", f"--directory={root}"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )


def _unpack(source: Path, root: Path) -> None:
    """Lay a writable folder over the kept tree; copy it where that cannot be mounted."""
    upper, work = (root.with_name(f"{root.name}-{kind}") for kind in ("upper", "work"))
    for folder in (root, upper, work):
        folder.mkdir()
    layers = f"lowerdir={source},upperdir={upper},workdir={work}"
    words = ["mount", "-t", "overlay", "overlay", "-o", layers, str(root)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(root)], check=True, timeout=120)


def _prepare(root: Path, keys: Path, port: int, units: Mapping[str, str], files: Mapping[str, str]) -> None:
    own = root / "etc/leadline-test"
    own.mkdir()
    for name in ("host_key", "authorized_keys"):
        shutil.copy(keys / name, own / name)
    (own / "host_key").chmod(0o600)
    (own / "sshd_config").write_text(_SSHD.format(port=port))
    # sudo asks for the host's own name at each call; where the file lacks it, a name server is waited for.
    name = (root / "etc/hostname").read_text().strip() if (root / "etc/hostname").is_file() else ""
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {name}\n")
    system = root / "etc/systemd/system"
    for name in ("ssh.service", "ssh.socket", "apt-daily.timer", "apt-daily-upgrade.timer"):
        (system / name).unlink(missing_ok=True)
        (system / name).symlink_to("/dev/null")
    wants = system / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    for name, text in {"leadline-sshd.service": _SSHD_UNIT, **units}.items():
        (system / name).write_text(text)
        (wants / name).symlink_to(f"/etc/systemd/system/{name}")
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _UP_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise NoNspawn(f"systemd-nspawn cannot boot here: {last[0]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as link:
            if link.recv(4).startswith(b"SSH"):
                return
        time.sleep(0.1)
    raise NoNspawn(f"systemd-nspawn did not boot in {_UP_S:g} s")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill process 1 of the container, with which the kernel ends all of it."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with contextlib.suppress(OSError):
        for pid in children.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)


@contextlib.contextmanager
def small_engines(folder: Path, template: str, ports: Mapping[str, int]) -> Iterator[SystemdHost]:
    """Boot a host with a small engine as a unit for each name, or skip with the reason."""
    units = {f"{name}.service": template.format(name=name, port=port) for name, port in ports.items()}
    code = (Path(__file__).parent / "small_engine.py").read_text()
    try:
        with booted(folder, units, {"/opt/engine/serve.py": code}) as up:
            yield up
    except NoNspawn as problem:
        pytest.skip(f"no systemd host: {problem}")


@contextlib.asynccontextmanager
async def linked(machine: SystemdHost, user: str = "root") -> AsyncIterator[Host]:
    """Connect as a user, and let go again."""
    link = await connect(dataclasses.replace(machine.target(), user=user), machine.settings)
    try:
        yield link
    finally:
        await link.close()
