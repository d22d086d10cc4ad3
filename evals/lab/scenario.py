"""Scenarios: what a lab host is, as one YAML file each; no expected cause and no fix stands in them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agent.errors import UsageError
from evals.lab import engine_facts, scenario_names
from evals.lab.described import HostFacts, Service
from evals.lab.past import Boot, Line
from evals.nearest import hint
from tools.wrong_fields import first_wrong

FOLDER = scenario_names.FOLDER
ROOTS = ("etc", "models", "srv", "home/lab", "var", "opt", "data", "root", "sys", "usr/local")
"""Where a scenario may put files."""
_LAUNCH = "@LAUNCH@"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Launch(_Part):
    """Hold a launch line: the command and its flags, in order."""

    command: str
    note: str = Field(default="", description="A comment above ExecStart=, as people leave them.")
    flags: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        description="Flag -> value; true: a flag without a value; null in a variant removes it.",
    )

    @property
    def argv(self) -> list[str]:
        """Return the words of the command line."""
        words = shlex.split(self.command)
        for flag, value in self.flags.items():
            if value is not False:
                words += [flag] if value is True else [flag, str(value)]
        return words

    def line(self) -> str:
        """Return the command line as people write it in a unit file: a flag a line."""
        parts = [self.command]
        for flag, value in self.flags.items():
            if value is not False:
                parts.append(flag if value is True else f"{flag} {shlex.quote(str(value))}")
        return " \\\n    ".join(parts)


class Unit(_Part):
    """Hold a systemd unit: its full text, in which ``ExecStart=@LAUNCH@`` stands for the launch line."""

    text: str
    launch: Launch | None = None
    enabled: bool = True
    dropins: dict[str, str] = Field(default_factory=dict)
    edited: str = Field(
        default="", description="What its file holds since the service was started; not loaded since."
    )

    @model_validator(mode="after")
    def _launch_is_used(self) -> Unit:
        if (self.launch is None) == (_LAUNCH in self.text):
            raise ValueError("`launch` and `@LAUNCH@` in the unit's text belong together")
        return self

    def files(self, name: str) -> dict[str, str]:
        """Return paths below ``/etc/systemd/system`` and their contents."""
        line = self.launch.line() if self.launch else ""
        dropins = {f"{name}.d/{key}": text for key, text in self.dropins.items()}
        note = f"# {self.launch.note}\n" if self.launch and self.launch.note else ""
        text = self.text.replace(f"ExecStart={_LAUNCH}", f"{note}ExecStart={line}")
        return {name: text, **dropins}


class Package(_Part):
    """Pin the engine whose real source lies on the host."""

    name: str = "sglang"
    version: str


class Ready(_Part):
    """Say what must answer before the host counts as up."""

    unit: str
    port: int
    path: str = "/health"


class Scenario(_Part):
    """Hold everything a lab host is made of."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str
    hostname: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    package: Package | None = None
    packages: dict[str, str] = Field(
        default_factory=dict, description="Other installed packages: name, version."
    )
    units: dict[str, Unit]
    ready: Ready | None = None
    engine: dict[str, Any] | None = Field(
        default=None, description="SGLang's: hardware, model, cost, noise, hazards: see engine_facts.py."
    )
    services: dict[str, Service] = Field(
        default_factory=dict, description="Described services by unit: see described.py."
    )
    hardware: dict[str, Any] | None = Field(
        default=None, description="GPUs of a host without `engine`; left out: a host without GPUs."
    )
    host: HostFacts = HostFacts()
    venv: str | None = Field(default=None, description="Environment of the package; default /opt/NAME/venv.")
    model_dir: str | None = Field(default=None, description="Where the model's config.json lies on the host.")
    files: dict[str, str] = Field(default_factory=dict, description="More files: absolute path, content.")
    unreadable: list[str] = Field(
        default_factory=list, description="Files of `files`, or folders, that the account may not read."
    )
    boots: list[Boot] = Field(default_factory=lambda: [Boot(start="-6d")])
    history: dict[str, Line] = Field(default_factory=dict, description="By name, for variants.")

    @field_validator("engine")
    @classmethod
    def _facts(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            if value is not None:
                engine_facts.Scenario.from_json({"name": "x", "package_dir": "/x", **value})
        except engine_facts.FactsError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("hardware")
    @classmethod
    def _gpus(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            if value is not None:
                engine_facts.hardware(value)
        except engine_facts.FactsError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("files")
    @classmethod
    def _allowed(cls, value: dict[str, str]) -> dict[str, str]:
        for path in value:
            if not re.match(rf"/({'|'.join(ROOTS)})/", path) or ".." in Path(path).parts:
                raise ValueError(f"{path}: files go below /{', /'.join(ROOTS)}")
        return value

    @model_validator(mode="after")
    def _belongs(self) -> Scenario:
        unknown = sorted(set(self.services) - set(self.units))
        if unknown:
            raise ValueError(f"services: {unknown[0]} is no unit of this host")
        if self.engine is None and self.model_dir:
            raise ValueError("model_dir: the model's config.json stands in `engine`; else give it in `files`")
        if self.engine is None and any(line.load for line in self.history.values()):
            raise ValueError("history: `load` needs the cost model of `engine`; give the lines as `text`")
        if self.engine is not None and self.hardware is not None:
            raise ValueError("hardware: stands in `engine` here")
        return self

    @property
    def program_paths(self) -> dict[str, str]:
        """Return the programs that described services run as: path -> unit."""
        return {service.program: unit for unit, service in self.services.items() if service.program}

    def facts(self, **places: str) -> dict[str, Any]:
        """Return what the simulated engine is told, with the paths of this lab filled in.

        ``package_dir`` is one of them; ``{site}`` in a text becomes the folder it lies in.
        """
        version = self.package.version if self.package else ""
        facts = {"name": self.name, "version": version, **(self.engine or {}), **places}
        site = str(Path(places["package_dir"]).parent)
        filled: dict[str, Any] = json.loads(json.dumps(facts).replace("{site}", site))
        return filled

    def mutate(self, changes: Mapping[str, Any]) -> Scenario:
        """Return a variant: ``changes`` are laid over this scenario; None removes a key."""
        merged = merge(self.model_dump(mode="json", exclude_none=True), changes)
        return Scenario.model_validate(merged)

    def save(self, path: Path) -> Path:
        """Write the scenario as YAML, for ``lab:PATH``."""
        import yaml

        path.write_text(yaml.safe_dump(self.model_dump(mode="json", exclude_none=True), sort_keys=False))
        return path


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one tree over another: objects key by key, everything else as a whole, None removes."""
    out = dict(base)
    for key, value in over.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merge(out[key], value)
        else:
            out[key] = dict(value) if isinstance(value, Mapping) else value
    return out


def names() -> list[str]:
    """Return the names of the scenarios that come with Leadline."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Scenario:
    """Read a scenario by name, or by the path of a YAML file; raise `UsageError` for what is wrong in it."""
    path = Path(name) if "/" in name or name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise UsageError(f"no scenario {name!r}", do=hint(name, names(), "leadline lab list"))
    try:
        return Scenario.model_validate(_tree(path, ()))
    except ValidationError as error:
        wrong = first_wrong(error, "scenario", Scenario)
        raise UsageError(f"{path}: {wrong.text}", do=wrong.do) from None


def _tree(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    """Read a file and what it is based on; ``name`` defaults to the file's name."""
    import yaml

    from prompts import strict_yaml

    if path.resolve() in seen:
        raise UsageError(f"{path}: base: is based on itself")
    try:
        raw, _ = strict_yaml.read(path.read_text(encoding="utf-8"))
    except strict_yaml.RepeatedKey as error:
        raise UsageError(f"{path}:{error.line}: {error}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise UsageError(f"{path}: must hold an object with the fields of a scenario")
    raw.setdefault("name", path.stem)
    base = raw.pop("base", None)
    if base is None:
        return raw
    beside = path.parent / f"{base}.yaml"
    source = beside if beside.is_file() else FOLDER / f"{base}.yaml"
    if not source.is_file():
        raise UsageError(
            f"{path}: base: no scenario {base!r}", do=hint(str(base), names(), "leadline lab list")
        )
    return merge(_tree(source, (*seen, path.resolve())), raw)
