"""Read unit files and drop-ins the way systemd does, for the part of the format that services use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LISTS = frozenset(
    {"Environment", "EnvironmentFile", "UnsetEnvironment"}
    | {"ExecStart", "ExecStartPre", "ExecStartPost", "ExecStop"}
)
"""Settings that append; an empty assignment empties them."""
_ESCAPES = {"n": "\n", "t": "\t", "s": " ", "\\": "\\", '"': '"', "'": "'"}
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(slots=True)
class UnitFile:
    """Hold what a unit's fragment and drop-ins say together, and from which files at which state."""

    name: str
    fragment: Path | None = None
    dropins: list[Path] = field(default_factory=list)
    settings: dict[str, list[str]] = field(default_factory=dict)
    """``Section.Key`` -> values in order; one value for settings that do not append."""
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)

    def last(self, key: str, default: str = "") -> str:
        """Return the value that holds for a setting such as ``Service.Restart``."""
        values = self.settings.get(key)
        return values[-1] if values else default

    def all(self, key: str) -> list[str]:
        """Return all values of a setting that appends."""
        return self.settings.get(key, [])


def roots() -> list[Path]:
    """Return the unit folders in rising priority."""
    return [Path("/run/systemd/system"), Path("/etc/systemd/system")]


def unit_names() -> list[str]:
    """Return the names of all units that have a file, sorted."""
    found = {p.name for root in roots() if root.is_dir() for p in root.iterdir() if p.is_file()}
    return sorted(name for name in found if name.endswith((".service", ".timer", ".target")))


def find(name: str) -> tuple[Path | None, list[Path]]:
    """Return the fragment of a unit and its drop-ins in the order in which they apply."""
    fragment: Path | None = None
    dropins: dict[str, Path] = {}
    kind = name.rpartition(".")[2]
    for root in roots():
        if (root / name).is_file():
            fragment = root / name
        for folder in (root / f"{kind}.d", root / f"{name}.d"):
            if folder.is_dir():
                dropins.update({p.name: p for p in folder.glob("*.conf") if p.is_file()})
    return fragment, [dropins[key] for key in sorted(dropins)]


def load(name: str) -> UnitFile:
    """Read a unit from disk; without a fragment, ``fragment`` is None and nothing is set."""
    fragment, dropins = find(name)
    unit = UnitFile(name, fragment, dropins if fragment else [])
    for path in [fragment, *unit.dropins] if fragment else []:
        stat = path.stat()
        unit.stamps[str(path)] = (stat.st_mtime_ns, stat.st_size)
        for key, value in assignments(path.read_text(errors="replace")):
            _assign(unit, key, value)
    return unit


def changed_on_disk(unit: UnitFile) -> bool:
    """Tell whether the files that make up the unit are other than when it was loaded."""
    fragment, dropins = find(unit.name)
    now = {}
    for path in [fragment, *dropins] if fragment else []:
        stat = path.stat()
        now[str(path)] = (stat.st_mtime_ns, stat.st_size)
    return now != unit.stamps


def _assign(unit: UnitFile, key: str, value: str) -> None:
    if key.rpartition(".")[2] not in LISTS:
        unit.settings[key] = [value]
    elif value:
        unit.settings.setdefault(key, []).append(value)
    else:
        unit.settings[key] = []


def assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield ``Section.Key`` and value of each assignment, continuation lines joined, comments left out."""
    section = ""
    pending = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(("#", ";")) or (not line and not pending):
            continue
        if line.endswith("\\"):
            pending += line[:-1].rstrip() + " "
            continue
        line, pending = pending + line, ""
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line:
            key, _, value = line.partition("=")
            yield f"{section}.{key.strip()}", value.strip()


def words(text: str) -> list[str]:
    """Split a command line or list of assignments as systemd does: quotes group, backslash escapes."""
    out: list[str] = []
    word: str | None = None
    quote = ""
    chars = iter(text)
    for char in chars:
        if char == "\\":
            following = next(chars, "\\")
            word = (word or "") + _ESCAPES.get(following, "\\" + following)
        elif quote:
            if char == quote:
                quote = ""
            else:
                word = (word or "") + char
        elif char in "\"'" and word is None:
            quote, word = char, ""
        elif char.isspace():
            if word is not None:
                out.append(word)
            word = None
        else:
            word = (word or "") + char
    return out if word is None else [*out, word]


def command(value: str, env: dict[str, str], unit: str) -> tuple[list[str], bool]:
    """Return the argv of an Exec line and whether its failure is to be ignored (prefix ``-``)."""
    prefix = re.match(r"[-@:+!]*", value)
    marks = prefix.group(0) if prefix else ""
    argv: list[str] = []
    for word in words(value[len(marks) :]):
        if re.fullmatch(r"\$\w+", word):
            argv.extend(env.get(word[1:], "").split())
            continue
        word = _VARIABLE.sub(lambda match: env.get(match.group(1), ""), word)
        argv.append(specifiers(word.replace("$$", "$"), unit))
    return argv, "-" in marks


def specifiers(text: str, unit: str) -> str:
    """Expand the specifiers ``%n %N %p %H %%``."""
    stem = unit.rpartition(".")[0]
    table = {"n": unit, "N": stem, "p": stem, "H": os.uname().nodename, "%": "%"}
    return re.sub(r"%([nNpH%])", lambda match: table[match.group(1)], text)


def environment(unit: UnitFile) -> dict[str, str]:
    """Return a unit's own variables: ``Environment=``, files over it, less ``UnsetEnvironment=``."""
    env: dict[str, str] = {}
    for value in unit.all("Service.Environment"):
        for word in words(value):
            name, equals, content = word.partition("=")
            if equals:
                env[name] = specifiers(content, unit.name)
    for value in unit.all("Service.EnvironmentFile"):
        path = Path(value.lstrip("-"))
        if not path.is_file() and value.startswith("-"):
            continue
        env.update(_environment_file(path.read_text(errors="replace")))
    for value in unit.all("Service.UnsetEnvironment"):
        for word in words(value):
            name, equals, content = word.partition("=")
            if not equals or env.get(name) == content:
                env.pop(name, None)
    return env


def _environment_file(text: str) -> dict[str, str]:
    env = {}
    for raw in text.splitlines():
        line = raw.strip()
        if line and not line.startswith(("#", ";")) and "=" in line:
            name, _, value = line.partition("=")
            env[name.strip()] = "".join(words(value.strip())) if value[:1] in "\"'" else value.strip()
    return env


def seconds(text: str, default: float) -> float:
    """Read a time span such as ``5``, ``1min 30s`` or ``500ms``; ``infinity`` is a day."""
    if text == "infinity":
        return 86400.0
    units = {
        "us": 1e-6,
        "ms": 1e-3,
        "s": 1,
        "sec": 1,
        "min": 60,
        "m": 60,
        "h": 3600,
        "hr": 3600,
        "d": 86400,
        "": 1,
    }
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text)
    known = [(float(number), units.get(unit)) for number, unit in parts]
    if not known or any(factor is None for _, factor in known):
        return default
    return sum(number * factor for number, factor in known if factor is not None)
