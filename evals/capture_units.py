"""Turn the unit texts that an investigation read into a scenario's units, and find the engine they start."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

from evals.captured_host import HostRecord
from evals.lab.described import Api
from evals.lab.scenario import ROOTS
from tools import facts_view, launch_line, unit_text
from tools.facts_view import Seen
from tools.launch_line import HIDDEN
from tools.redact import environ_view

_HEADER = re.compile(r"^# (/\S+)$", re.MULTILINE)
_PORTS: Final[dict[Api, int]] = {"sglang": 30000, "vllm": 8000, "llamacpp": 8080, "ollama": 11434}
_PROGRAMS: Final[dict[str, Api]] = {
    "ollama": "ollama",
    "llama-server": "llamacpp",
    "llama_cpp.server": "llamacpp",
}
_APIS: Final[dict[launch_line.Engine, Api]] = {
    "sglang": "sglang",
    "vllm": "vllm",
    "ollama": "ollama",
    "llama.cpp": "llamacpp",
}
_USER: Final = "lab"


@dataclass(slots=True)
class Engine:
    """Hold one process that serves a model, as the facts told of it."""

    unit: str
    api: Api
    argv: list[str]
    port: int
    pid: int = 0
    version: str = ""
    package_root: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    program: str = ""

    @property
    def site(self) -> str:
        """Return the folder in which its package lies."""
        return self.package_root.rpartition("/")[0]

    @property
    def venv(self) -> str:
        """Return its environment, as far as the package's place tells."""
        found = re.match(r"(.+)/lib(?:64)?/python3[\d.]*/(?:site|dist)-packages$", self.site)
        return found[1] if found else ""


@dataclass(slots=True)
class Units:
    """Hold a scenario's units and the files that they need."""

    units: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def engines(record: HostRecord) -> list[Engine]:
    """Return the engines that ran on the host, those that are known by their unit alone last."""
    found = []
    for row in facts_view.engines_view(record.facts, Seen()):
        found.append(
            Engine(
                unit=row["unit"] or f"{row['engine']}.service",
                api=_APIS[row["engine"]],
                argv=list(row["argv"]),
                port=int(row["port"]),
                pid=row["pid"],
                version=row["version"] or "",
                package_root=row["package_root"] or "",
                packages={name.replace("_", "-"): version for name, version in row["packages"].items()},
                environ=row["environ"] or {},
                program=_program(row["argv"]),
            )
        )
    services = [facts_view.service_view(record.facts, name, Seen()) for name in record.facts.of("unit")]
    pids = {row["main_pid"]: row["unit"] for row in services if row and row.get("main_pid")}
    for engine in found:
        engine.unit = pids.get(engine.pid, engine.unit)
    served = {engine.unit for engine in found}
    return [*found, *(one for name in record.units if name not in served and (one := _by_unit(record, name)))]


def _by_unit(record: HostRecord, name: str) -> Engine | None:
    """Return the engine that a unit starts, where no process of it was seen."""
    argv = launch_line.mask(unit_text.command(unit_text.parse(record.units[name]).last("Service.ExecStart")))
    kind = launch_line.engine_of(argv)
    if kind == "sglang" or kind == "vllm":
        version, root = record.packages.get(kind, ("", ""))
        port = launch_line.port_of(launch_line.flags(argv, kind), kind)
        return Engine(name, kind, argv, port, version=version, package_root=root)
    for word in argv[:3]:
        api = _PROGRAMS.get(PurePosixPath(word).name)
        if api is not None:
            port = next((int(b) for a, b in pairwise(argv) if a == "--port" and b.isdigit()), 0)
            return Engine(name, api, argv, port or _PORTS[api], program=_program(argv))
    return None


def _program(argv: Sequence[str]) -> str:
    """Return the program that serves by itself, or an empty text where an interpreter runs it."""
    return argv[0] if PurePosixPath(argv[0]).name in _PROGRAMS else ""


def units(record: HostRecord, served: Sequence[Engine]) -> Units:
    """Return the units as they were read, before any change, with what they need beside them."""
    made = Units()
    by_unit = {engine.unit: engine for engine in served}
    for name in [*record.units, *(one for one in by_unit if one not in record.units)]:
        engine = by_unit.get(name)
        text = record.units.get(name, "")
        parts = [(path, _without_values(part, record, made)) for path, part in _files(text)]
        body = next((part for path, part in parts if not path.endswith(".conf")), "")
        if engine is not None and not body:
            body = _written(engine)
            made.missing.append(f"the unit of process {engine.pid}: {name} is made of its command line")
        if not body.strip():
            continue
        unit: dict[str, Any] = {"text": _runnable(body, engine, made, name)}
        dropins = {path.rpartition("/")[2]: part for path, part in parts if path.endswith(".conf")}
        if dropins:
            unit["dropins"] = {key: here(part) for key, part in dropins.items()}
        made.units[name] = unit
        _needs(f"{body}\n{text}", made)
    return made


def _files(text: str) -> list[tuple[str, str]]:
    """Return the files of a ``systemctl cat``: path, text."""
    pieces = _HEADER.split(text)
    found = []
    for path, body in zip(pieces[1::2], pieces[2::2], strict=False):
        found.append((path, body.strip("\n") + "\n"))
    return found


def _without_values(text: str, record: HostRecord, made: Units) -> str:
    """Return a unit's text without the values of variables that nobody knows to be harmless.

    Known ones stay, and so do those that were changed or cited: without them it is another host.
    """
    lines = text.split("\n")
    for place, line in enumerate(lines):
        found = re.match(r"\s*Environment=(.*)$", line)
        values = unit_text.environment([found[1]]) if found and not line.endswith("\\") else {}
        told = [*(change.setting for change in record.changes.values()), *record.quotes]
        hidden = [
            name
            for name, shown in environ_view(values.items()).items()
            if shown is None and not any(name in one for one in told)
        ]
        if hidden:
            made.missing += [f"the value of {name} in the environment of a unit" for name in hidden]
            words = (f'"{name}={"hidden" if name in hidden else value}"' for name, value in values.items())
            lines[place] = f"Environment={' '.join(words)}"
    return "\n".join(lines)


def _written(engine: Engine) -> str:
    variables = "".join(f'Environment="{name}={value}"\n' for name, value in engine.environ.items())
    start = " ".join(shlex.quote(word) for word in engine.argv)
    return f"[Unit]\nDescription=Recorded from a process\n\n[Service]\n{variables}ExecStart={start}\n"


def _runnable(body: str, engine: Engine | None, made: Units, name: str) -> str:
    """Return a unit's text that starts the engine itself, whatever wrapped it on the host."""
    text = here(body)
    if engine is None:
        return text
    start = unit_text.command(unit_text.parse(body).last("Service.ExecStart"))
    if engine.program or launch_line.engine_of(start) == engine.api or not engine.argv:
        return text
    made.missing.append(
        f"how {name} starts its engine ({(start or ['nothing'])[0]}); its command line stands in its place"
    )
    line = here(" ".join(shlex.quote(word) for word in engine.argv))
    lines = [row for row in _joined(text) if not row.startswith(("ExecStart=", "ExecStartPre=", "ExecStop="))]
    place = next((at for at, row in enumerate(lines) if row.strip() == "[Service]"), len(lines) - 1)
    return "\n".join([*lines[: place + 1], f"ExecStart={line}", *lines[place + 1 :]]) + "\n"


def _joined(text: str) -> list[str]:
    return re.sub(r"\\\n", " ", text).rstrip("\n").split("\n")


def here(text: str) -> str:
    """Return a host's text for the lab: its one account and home, and one word for what is hidden."""
    text = re.sub(r"/home/[\w.-]+", f"/home/{_USER}", text)
    text = re.sub(r"(?m)^(\s*(?:User|Group)=).*$", rf"\g<1>{_USER}", text)
    return text.replace(HIDDEN, "hidden")


def _needs(text: str, made: Units) -> None:
    """Add empty files and folders that a unit does not start without and whose content was not read."""
    unit = unit_text.parse(here(text))
    for value in unit.all("Service.EnvironmentFile"):
        path = value.strip().lstrip("-")
        if allowed(path):
            made.files.setdefault(path, "")
    folder = unit.last("Service.WorkingDirectory").lstrip("-")
    if allowed(f"{folder}/x") and folder != f"/home/{_USER}":
        made.files.setdefault(f"{folder}/.recorded", "")


def allowed(path: str) -> bool:
    """Tell whether a scenario may put a file there."""
    parts = PurePosixPath(path).parts
    return re.match(rf"/(?:{'|'.join(ROOTS)})/", path) is not None and ".." not in parts and "\0" not in path
