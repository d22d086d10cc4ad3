"""Lab hosts: bring one up, join it, list them, take one down; ``lab:NAME`` and ``lab:NAME#ID``."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import LeadlineError, UsageError
from agent.whole_file import private_folder
from evals.lab import sandbox
from evals.lab.sandbox import Process, SandboxError

if TYPE_CHECKING:
    from agent.config import Settings
    from evals.lab.layout import Interpreter
    from evals.lab.scenario import Scenario
    from tools.host import HostTarget

IDLE_S = 1800.0
"""A lab ends by itself when nobody has been connected for so long."""
UP_S = 90.0
USER = "lab"
Progress = Callable[[str], None]


class LabGone(LeadlineError):
    """Report a lab that is not running, or never was."""


@dataclass(frozen=True, slots=True)
class Lab:
    """Hold what is needed to reach, and to end, one lab."""

    id: str
    scenario: str
    folder: Path
    port: int
    init: Process
    started_at: float

    @property
    def name(self) -> str:
        """Return the name under which the host is joined."""
        return f"lab:{self.scenario}#{self.id}"

    @property
    def alive(self) -> bool:
        """Tell whether the lab still runs."""
        return self.init.alive

    @property
    def key_path(self) -> Path:
        """Return the private key of the lab's user."""
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        """Return the file with the lab's host key."""
        return self.folder / "known_hosts"

    @property
    def ssh_argv(self) -> list[str]:
        """Return an OpenSSH command line that opens a shell on the lab."""
        options = [
            f"UserKnownHostsFile={self.known_hosts}",
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=yes",
        ]
        flags = [word for option in options for word in ("-o", option)]
        return [
            "ssh",
            "-F",
            "none",
            "-i",
            str(self.key_path),
            *flags,
            "-p",
            str(self.port),
            f"{USER}@127.0.0.1",
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the lab as the state file and ``--json`` hold it."""
        return {**asdict(self), "folder": str(self.folder)}

    @classmethod
    def read(cls, folder: Path) -> Lab | None:
        """Read a lab from its state folder; None when it never came up."""
        try:
            raw = json.loads((folder / "lab.json").read_text())
        except (OSError, ValueError):
            return None
        return cls(**{**raw, "folder": folder, "init": Process(**raw["init"])})

    def target(self) -> HostTarget:
        """Return what the host port needs to connect."""
        from tools.host import HostTarget

        return HostTarget(
            name=self.name,
            address="127.0.0.1",
            port=self.port,
            user=USER,
            key_path=self.key_path,
            known_hosts=self.known_hosts,
        )


def _labs(settings: Settings) -> Path:
    return settings.state_dir / "labs"


def list_labs(settings: Settings) -> list[Lab]:
    """Return all labs that have a state folder, the gone ones too, oldest first."""
    folder = _labs(settings)
    found = [Lab.read(path) for path in folder.iterdir()] if folder.is_dir() else []
    return sorted((lab for lab in found if lab is not None), key=lambda lab: lab.started_at)


def offered(state: Path) -> Iterator[tuple[str, str]]:
    """Yield the hosts that may be named, with what each is, for a shell: scenarios, then labs that are up."""
    from evals.lab.scenario_names import told

    for name, description in told():
        yield f"lab:{name}", description
    for path in (state / "labs").glob("*/lab.json"):
        lab = Lab.read(path.parent)
        if lab is not None and lab.alive:
            yield lab.name, "is up"


def find(lab_id: str, settings: Settings) -> Lab:
    """Return the lab with this id, running or not; raise `LabGone` when there is none."""
    lab = Lab.read(_labs(settings) / lab_id) if lab_id.isalnum() else None
    if lab is None:
        raise LabGone(
            f"no simulated host {lab_id!r}: each is given back after its investigation",
            do="what was found stays: leadline sessions list; hosts that are up: leadline lab list",
        )
    return lab


def down(lab_id: str, settings: Settings) -> None:
    """End a lab with everything that runs in it, and remove its state folder."""
    lab = find(lab_id, settings)
    lab.init.kill()
    shutil.rmtree(lab.folder, ignore_errors=True)


def resolve(name: str, settings: Settings, progress: Progress = lambda text: None) -> HostTarget:
    """Return the host for ``lab:NAME`` (a fresh lab) or ``lab:NAME#ID`` (one that runs)."""
    known = _known(name, settings)
    return (known if isinstance(known, Lab) else up(known, settings, progress=progress)).target()


def check(name: str, settings: Settings) -> None:
    """Raise for a name that `resolve` would refuse, and start nothing."""
    _known(name, settings)


def _known(name: str, settings: Settings) -> Lab | Scenario:
    from evals.lab.scenario import load

    scenario, _, lab_id = name.removeprefix("lab:").partition("#")
    if not scenario:
        raise UsageError(
            f"{name!r} names no scenario", do="write lab:NAME; leadline lab list shows the names"
        )
    if not lab_id:
        return load(scenario)
    lab = find(lab_id, settings)
    if not lab.alive:
        raise LabGone(f"lab {lab_id} is gone", do=f"start a fresh one: leadline lab up {lab.scenario}")
    return lab


def release(name: str, settings: Settings) -> None:
    """End the lab of a resolved host's name; one that somebody has ended already is given back."""
    ident = lab_id(name)
    if ident is not None:
        with contextlib.suppress(LabGone):
            down(ident, settings)


def lab_id(name: str) -> str | None:
    """Return the id in a resolved host's name, ``lab:NAME#ID``."""
    return name.partition("#")[2] or None


def up(
    scenario: str | Scenario,
    settings: Settings,
    *,
    progress: Progress = lambda text: None,
    idle_s: float = IDLE_S,
    timeout_s: float = UP_S,
) -> Lab:
    """Start a fresh lab and return when SSH answers and its engine is ready."""
    from evals.lab.scenario import load

    plan = load(scenario) if isinstance(scenario, str) else scenario
    package = _package(plan, settings, progress)
    ident = secrets.token_hex(3)
    folder = _labs(settings) / ident
    private_folder(folder.parent)
    folder.mkdir(mode=0o700)
    try:
        return _start(plan, package, folder, settings, progress, idle_s, timeout_s)
    except SandboxError:
        if Lab.read(folder) is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise  # once there was a lab its folder stays: the message points to the log in it
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _package(scenario: Scenario, settings: Settings, progress: Progress) -> Path | None:
    if scenario.package is None:
        return None
    from evals.lab import package

    progress(f"source of {scenario.package.name} {scenario.package.version}")
    pin = scenario.package
    return package.fetch(pin.name, pin.version, settings.cache_dir, progress=progress)


def _start(
    scenario: Scenario,
    package: Path | None,
    folder: Path,
    settings: Settings,
    progress: Progress,
    idle_s: float,
    timeout_s: float,
) -> Lab:
    from compileall import compile_dir

    from evals.lab import layout

    compile_dir(Path(__file__).parent, maxlevels=1, quiet=2)  # inside the sandbox it is read-only
    python = layout.Interpreter()
    root = folder / "host"
    cache = settings.cache_dir / "lab-settings"
    cache.mkdir(parents=True, exist_ok=True)
    package_dir = _lay_out(scenario, root, python)
    now = time.time()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        host_key, authorized = _keys(folder, port)
        config = {
            **_description(scenario, package_dir, now),
            "host_key": host_key,
            "authorized_key": authorized,
            "idle_s": idle_s,
        }
        progress(f"sandbox {folder.name}")
        started = sandbox.start(
            layout.options(scenario, root, python, package, cache),
            layout.init(python),
            json.dumps(config).encode(),
            listener,
            folder / "log",
        )
    lab = Lab(folder.name, scenario.name, folder, port, started.init, now)
    _write_private(folder / "lab.json", json.dumps(lab.to_json()))
    try:
        _await(started, progress, timeout_s)
    except BaseException:
        lab.init.kill()
        raise
    return lab


def _lay_out(scenario: Scenario, root: Path, python: Interpreter) -> str:
    """Write the host's files; return where the engine's package lies on it."""
    from evals.lab import layout

    layout.write(scenario, root, python)
    package_dir = layout.package_dir(scenario, python)
    if scenario.engine is not None:
        places = {"state_file": layout.STATE_FILE, "settings_cache": layout.SETTINGS_CACHE}
        facts = scenario.facts(package_dir=package_dir, **places)
        (root / "engine-facts.json").write_text(json.dumps(facts))
    return package_dir


def _description(scenario: Scenario, package_dir: str, now: float) -> dict[str, Any]:
    """Return what the programs inside are told of the host that they make up."""
    from evals.lab import history, layout, layout_host

    return {
        "hostname": scenario.hostname,
        "boots": history.boots(scenario),
        "history": history.entries(scenario, package_dir, now),
        "enabled": [name for name, unit in scenario.units.items() if unit.enabled],
        "edited": {name: unit.edited for name, unit in scenario.units.items() if unit.edited},
        "disks": layout_host.disk_files(scenario.host),
        "ready": scenario.ready.model_dump() if scenario.ready else None,
        "hardware": layout.hardware(scenario),
        "state_file": layout.STATE_FILE,
        "described": layout.described(scenario, package_dir),
    }


def _await(started: sandbox.Started, progress: Progress, timeout_s: float) -> None:
    """Follow the lab's report until it is ready; raise `SandboxError` when it says that it failed."""
    said = ""
    try:
        for said in started.lines(timeout_s):
            if said.startswith("failed "):
                raise SandboxError(f"the lab's host is up but {said[7:]}", do=f"see {started.log}")
            progress({"ssh": "SSH answers", "ready": "engine is ready"}.get(said, said))
    finally:
        started.close()
    if said != "ready":
        last = started.log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise SandboxError(f"the lab ended while it came up: {last[0]}", do=f"see {started.log}")


def _keys(folder: Path, port: int) -> tuple[str, str]:
    """Make host key and user key; return the host's private key and the user's public one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    def pair() -> tuple[str, str]:
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        return private.decode(), key.public_key().public_bytes(*form).decode()

    host_private, host_public = pair()
    user_private, user_public = pair()
    _write_private(folder / "key", user_private)
    _write_private(folder / "known_hosts", f"[127.0.0.1]:{port} {host_public}\n")
    return host_private, user_public


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
