"""Small lab hosts for tests, and the ways to reach them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab import hosts, sandbox
from evals.lab.hosts import Lab
from evals.lab.package import PackageError
from evals.lab.scenario import Scenario, load

TINY: dict[str, Any] = {
    "name": "tiny",
    "description": "A host with one small web server in the engine's place.",
    "hostname": "tiny-01",
    "units": {
        "web.service": {
            "text": (
                "[Unit]\nDescription=Small web server\n\n[Service]\nEnvironment=COLOUR=red\n"
                "WorkingDirectory=/srv/www\nExecStart=@LAUNCH@\nRestart=on-failure\nRestartSec=100ms\n"
            ),
            "launch": {
                "command": "/usr/bin/env python3 -u -m http.server 30000",
                "flags": {"--bind": "127.0.0.1", "--directory": "/srv/www"},
            },
        }
    },
    "ready": {"unit": "web.service", "port": 30000, "path": "/index.txt"},
    "files": {"/srv/www/index.txt": "first\n"},
    "engine": {
        "hardware": {"gpu_name": "Test GPU", "count": 2, "memory_mib": 1000, "capability": [12, 0]},
        "model": {"config": {}},
    },
    "boots": [{"start": "-3d", "end": "-2d"}, {"start": "-1d"}],
    "history": {
        "old": {"at": "-2d12h", "unit": "web.service", "pid": 77, "text": "line of the boot before"},
        "kernel": {"at": "-23h", "kernel": True, "text": "NVRM: loading"},
        "new": {"at": "-2h", "unit": "web.service", "pid": 78, "priority": 3, "text": "trouble {time}\nmore"},
    },
}


def tiny(changes: Mapping[str, Any] | None = None) -> Scenario:
    """Return the small scenario with changes laid over it."""
    return Scenario.model_validate(TINY).mutate(changes or {})


def lab_settings(folder: Path) -> Settings:
    """Return settings that keep labs below ``folder``; package sources stay in the person's cache."""
    return Settings(state_dir=folder / "state")


def need_sandbox() -> None:
    """Skip where the machine allows no sandbox, and say why."""
    if (problem := sandbox.why_not()) is not None:
        pytest.skip(str(problem))


@contextmanager
def running(scenario: Scenario | str, settings: Settings) -> Iterator[Lab]:
    """Bring a lab up and take it down."""
    need_sandbox()
    plan = load(scenario) if isinstance(scenario, str) else scenario
    try:
        lab = hosts.up(plan, settings)
    except PackageError as error:
        pytest.skip(str(error))
    try:
        yield lab
    finally:
        if lab.folder.exists():
            hosts.down(lab.id, settings)


def ssh(lab: Lab, command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command on a lab by OpenSSH's client."""
    return subprocess.run([*lab.ssh_argv, command], input=stdin, capture_output=True, check=False, timeout=30)


def said(lab: Lab, command: str) -> str:
    """Return what a command prints; it must end well."""
    done = ssh(lab, command)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout.decode()


def processes_inside(lab: Lab) -> set[int]:
    """Return the processes of the lab's pid namespace, as this machine counts them."""
    try:
        namespace = Path(f"/proc/{lab.init.pid}/ns/pid").readlink()
    except OSError:
        return set()
    found = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if (path / "ns" / "pid").readlink() == namespace:
                    found.add(int(path.name))
            except OSError:
                continue
    return found
