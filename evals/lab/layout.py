"""Lay out a lab host's files in its state folder, and say how the sandbox mounts them."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import sys
import sysconfig
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.lab import engine_facts, layout_host
from evals.lab.engine_facts import Scenario as Facts
from evals.lab.scenario import Scenario

STATE_FILE = "/run/lab/engine.json"
FACTS_FILE = "/run/lab/engine-facts.json"
SETTINGS_CACHE = "/run/lab/settings"
_SOURCE = Path(__file__).parent
_TMPFS_BYTES = 256 << 20
_STAND_INS = ("systemctl", "journalctl", "systemd-run", "systemd-analyze", "nvidia-smi")
_PERL = Path("/usr/bin/perl")
_UNITS = "etc/systemd/system"
_OS_RELEASE = """PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
VERSION="12 (bookworm)"
VERSION_CODENAME=bookworm
ID=debian
"""
_FROM_OUTSIDE = ("ld.so.cache", "alternatives", "ssl/certs", "terminfo", "bash.bashrc")
"""Parts of ``/etc`` that programs of this machine's ``/usr`` need."""
_CONSOLE = {"sglang": "sglang.cli.main", "vllm": "vllm.entrypoints.cli.main"}
_CONSOLE_SCRIPT = """#!{python}
# -*- coding: utf-8 -*-
import re
import sys
from {module} import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Name the Python that runs process 1 and the engine: this one, without its environment."""

    executable: Path = field(default_factory=lambda: Path(sys.executable).resolve())
    prefix: Path = field(default_factory=lambda: Path(sys.base_prefix))

    @property
    def site_packages(self) -> Path:
        """Return where packages lie, relative to an environment of this interpreter."""
        return Path(f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages")

    @property
    def libraries(self) -> str | None:
        """Return the folder of its shared library, when it has one outside of ``/usr``."""
        folder = sysconfig.get_config_var("LIBDIR")
        shared = sysconfig.get_config_var("Py_ENABLE_SHARED")
        return str(folder) if shared and folder and not str(folder).startswith("/usr/lib") else None


def write(scenario: Scenario, root: Path, python: Interpreter) -> None:
    """Write the generated files of the host below ``root``: etc, stand-ins, environment, model, more."""
    etc = {
        "passwd": "root:x:0:0:root:/root:/bin/bash\nlab:x:1000:1000:lab:/home/lab:/bin/bash\n",
        "group": "root:x:0:\nadm:x:4:lab\nsystemd-journal:x:101:lab\nlab:x:1000:\n",
        "hostname": f"{scenario.hostname}\n",
        "hosts": f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {scenario.hostname}\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "os-release": _OS_RELEASE,
        "debian_version": "12.12\n",
        "profile": 'PS1="\\u@\\h:\\w\\$ "\nexport PATH=/usr/local/bin:/usr/bin:/bin\n',
        "machine-id": f"{uuid.uuid5(uuid.NAMESPACE_OID, scenario.name).hex}\n",
    }
    for name, text in etc.items():
        _put(root / "etc" / name, text)
    for name in _FROM_OUTSIDE:
        source = Path("/etc") / name
        if source.is_dir():
            (root / "etc" / name).mkdir(parents=True, exist_ok=True)
        elif source.is_file():
            _put(root / "etc" / name, "")
    for name, text in _unit_files(scenario):
        _put(root / _UNITS / name, text)
    _wants(scenario, root / _UNITS / "multi-user.target.wants")
    if scenario.model_dir and scenario.engine:
        config = json.dumps(scenario.engine["model"]["config"], indent=2)
        _put(root / scenario.model_dir.lstrip("/") / "config.json", config + "\n")
    _stand_ins(scenario, root / "bin", python)
    for path, text, mode in layout_host.files(scenario, python.executable):
        _put(root / path, text, mode)
    if has_venv(scenario):
        _environment(scenario, root / "venv", python)
        top = root / str(venv(scenario)).lstrip("/")
        top.mkdir(
            parents=True, exist_ok=True
        )  # where it is mounted, when files of the scenario lie around it


def _put(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _unit_files(scenario: Scenario) -> Iterator[tuple[str, str]]:
    for name, unit in scenario.units.items():
        yield from unit.files(name).items()


def _wants(scenario: Scenario, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, unit in scenario.units.items():
        if unit.enabled:
            (folder / name).symlink_to(f"/etc/systemd/system/{name}")


def stand_ins(scenario: Scenario) -> list[str]:
    """Return the programs that process 1 answers for; without GPUs there is no nvidia-smi."""
    return [name for name in _STAND_INS if name != "nvidia-smi" or hardware(scenario) is not None]


def client(python: Interpreter, perl: Path) -> str:
    """Return what hands a command to process 1; dozens run a minute, so it is Perl's where there is Perl."""
    if os.access(perl, os.X_OK):
        return f"#!{perl}\n{(_SOURCE / 'inside' / 'client.pl').read_text()}"
    return f"#!{python.executable} -ISE\n{(_SOURCE / 'inside' / 'client.py').read_text()}"


def _stand_ins(scenario: Scenario, folder: Path, python: Interpreter) -> None:
    body = client(python, _PERL)
    for name in stand_ins(scenario):
        _put(folder / name, body, 0o755)
    if python.executable.parent == Path("/usr/local/bin"):
        _put(folder / python.executable.name, "", 0o755)  # the interpreter itself is mounted here


def _environment(scenario: Scenario, root: Path, python: Interpreter) -> None:
    """Write a virtual environment as `venv` would, with the records of the packages it is said to hold."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    _put(
        root / "pyvenv.cfg",
        f"home = {python.executable.parent}\ninclude-system-site-packages = false\nversion = {version}\n",
    )
    (root / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        (root / "bin" / name).symlink_to(python.executable)
    site = root / python.site_packages
    _put(site / "_lab_boot.py", (_SOURCE / "inside" / "boot.py").read_text())
    _put(site / "_lab_boot.pth", "import _lab_boot\n")
    module = _CONSOLE.get(scenario.package.name) if scenario.package and scenario.services else None
    if module and scenario.package:
        script = _CONSOLE_SCRIPT.format(python=f"{venv(scenario)}/bin/python", module=module)
        _put(root / "bin" / scenario.package.name, script, 0o755)
    for name, pinned in scenario.packages.items():
        record = site / f"{name.replace('-', '_')}-{pinned}.dist-info"
        _put(record / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {pinned}\n")
        _put(record / "INSTALLER", "pip\n")
    if scenario.package:
        (site / scenario.package.name).mkdir(parents=True, exist_ok=True)
        (site / _record(scenario)).mkdir(parents=True, exist_ok=True)


def _record(scenario: Scenario) -> str:
    assert scenario.package is not None
    return f"{scenario.package.name}-{scenario.package.version}.dist-info"


def venv(scenario: Scenario) -> Path:
    """Return where the package's environment lies on the host."""
    name = scenario.package.name if scenario.package else "sglang"
    return Path(scenario.venv or f"/opt/{name}/venv")


def has_venv(scenario: Scenario) -> bool:
    """Tell whether the host has an environment of Python packages at all."""
    return bool(scenario.engine or scenario.package or scenario.packages or scenario.venv)


def package_dir(scenario: Scenario, python: Interpreter) -> str:
    """Return where the engine's package lies on the host."""
    name = scenario.package.name if scenario.package else "sglang"
    return str(venv(scenario) / python.site_packages / name)


def options(
    scenario: Scenario, root: Path, python: Interpreter, package: Path | None, settings_cache: Path
) -> list[str]:
    """Return bubblewrap's options: namespaces, user, environment, and every mount."""
    words = ["--unshare-all", "--uid", "1000", "--gid", "1000", "--hostname", scenario.hostname, "--clearenv"]
    words += ["--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "LANG", "C.UTF-8"]
    if python.libraries:
        words += ["--setenv", "LD_LIBRARY_PATH", python.libraries]
    shm = ["--size", str(scenario.host.shm_mib << 20)] if scenario.host.shm_mib else []
    words += ["--proc", "/proc", "--dev", "/dev", *shm, "--tmpfs", "/dev/shm"]
    place = venv(scenario)
    for path in ("/opt", *reversed([str(p) for p in place.parents[:-2]]), "/models", "/data"):
        words += ["--perms", "0755", "--dir", path]
    words += _system(scenario, root, python)
    for path in ("/tmp", "/run", "/var", "/home/lab"):
        mode = "1777" if path == "/tmp" else "0755"
        words += ["--size", str(_TMPFS_BYTES), "--perms", mode, "--tmpfs", path]
    for path, mode in (("/var/log", "0755"), ("/var/tmp", "1777"), ("/root", "0700")):
        words += ["--perms", mode, "--dir", path]
    words += ["--dir", "/run/systemd/system"]
    words += ["--ro-bind", str(root / "etc"), "/etc", "--bind", str(root / _UNITS), f"/{_UNITS}"]
    for name in _FROM_OUTSIDE:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"] if (root / "etc" / name).exists() else []
    words += layout_host.mounts(scenario, root, python.executable)
    if has_venv(scenario):
        words += ["--ro-bind", str(root / "venv"), str(place)]
    site = place / python.site_packages
    if package is not None and scenario.package is not None:
        for name in (scenario.package.name, _record(scenario)):
            words += ["--ro-bind", str(package / name), str(site / name)]
    return [*words, *_supervisor(root, settings_cache), "--chdir", "/"]


def _system(scenario: Scenario, root: Path, python: Interpreter) -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        link = Path("/") / name
        if link.is_symlink():
            words += ["--symlink", str(link.readlink()), str(link)]
        elif link.is_dir():
            words += ["--ro-bind", str(link), str(link)]
    if (root / "usr/local").is_dir():
        words += ["--perms", "0755", "--tmpfs", "/usr/local"]
        words += layout_host.over(Path("/usr/local"), root / "usr/local", "/usr/local")
    words += ["--ro-bind", str(root / "bin"), "/usr/local/bin"]
    if python.executable.parent == Path("/usr/local/bin"):
        words += ["--ro-bind", str(python.executable), str(python.executable)]
    for name in stand_ins(scenario):
        if Path("/usr/bin", name).is_file():
            words += ["--ro-bind", str(root / "bin" / name), f"/usr/bin/{name}"]
    if not python.prefix.is_relative_to("/usr"):
        words += ["--ro-bind", str(python.prefix), str(python.prefix)]
    return words


def _supervisor(root: Path, settings_cache: Path) -> list[str]:
    words = ["--ro-bind", str(_SOURCE.parent / "__init__.py"), "/run/lab/src/evals/__init__.py"]
    words += [
        "--ro-bind",
        str(_SOURCE),
        "/run/lab/src/evals/lab",
        "--tmpfs",
        "/run/lab/src/evals/lab/scenarios",
    ]
    if (root / "engine-facts.json").is_file():
        words += ["--ro-bind", str(root / "engine-facts.json"), FACTS_FILE]
    words += ["--bind", str(settings_cache), SETTINGS_CACHE]
    for number, folder in enumerate(_library_folders()):
        words += ["--ro-bind", str(folder), f"/run/lab/lib/{number}"]
    return words


def _library_folders() -> list[Path]:
    """Return the folders that process 1 imports from, besides the standard library."""
    found: dict[Path, None] = {}
    for name in ("asyncssh", "cryptography", "_cffi_backend", "typing_extensions"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin)
            found[path.parent.parent if path.name == "__init__.py" else path.parent] = None
    return list(found)


def init(python: Interpreter) -> list[str]:
    """Return the command of process 1; its descriptors are appended."""
    script = "/run/lab/src/evals/lab/inside/init.py"
    folders = [f"/run/lab/lib/{number}" for number in range(len(_library_folders()))]
    return [str(python.executable), "-SE", script, "/run/lab/src", *folders]


def hardware(scenario: Scenario) -> dict[str, Any] | None:
    """Return the scenario's hardware with the defaults filled in; None for a host without GPUs."""
    if scenario.engine is not None:
        return dataclasses.asdict(Facts.from_json(scenario.facts(package_dir="/")).hardware)
    if scenario.hardware is None:
        return None
    return dataclasses.asdict(engine_facts.hardware(scenario.hardware))


def described(scenario: Scenario, package_dir: str) -> dict[str, Any]:
    """Return what process 1 tells the processes of described services."""
    common = {
        "host": scenario.host.model_dump(exclude_none=True),
        "hardware": hardware(scenario),
        "state_file": STATE_FILE,
        "site": str(Path(package_dir).parent),
    }
    units = {
        unit: {
            **common,
            "service": service.model_dump(mode="json", exclude_none=True),
            "version": service.version or (scenario.package.version if scenario.package else ""),
        }
        for unit, service in scenario.services.items()
    }
    names = {Path(path).name: unit for path, unit in scenario.program_paths.items()}
    if scenario.package and scenario.services:
        names.setdefault(scenario.package.name, next(iter(scenario.services)))
    return {"units": units, "programs": names}
