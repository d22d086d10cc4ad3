"""Say what was asked of an engine and where it stands: unit, drop-ins, script, command line, environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

from tools import unit_text
from tools.definitions import HIDDEN, is_secret
from tools.launch_line import mask
from tools.settings.config_file import config_words
from tools.settings.evidence import Evidence
from tools.settings.started_words import engine_words
from tools.settings.types import Definition

Way = Literal["unit", "drop-in", "script", "environment file", "command line", "environment", "config file"]
_HEADER: Final = re.compile(r"^# (/\S.*)$")
_LEVEL: Final = re.compile(r"-O\d?")
_NUMBER: Final = re.compile(r"-\d+(\.\d+)?|-\.\d+")


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold one thing that was asked for and the line where it was found."""

    name: str
    """The setting, or the variable."""
    word: str
    """The option string as given, or the variable."""
    value: str | None
    """None for an option without a value."""
    way: Way
    where: str
    """``FILE:LINE``, or ``/proc/PID/cmdline`` and ``/proc/PID/environ`` where no file is known."""
    remark: str = ""
    """What the person who wrote it left above it."""
    in_force: bool = True
    """False when the process runs without it: the file was changed since, or is overridden."""


@dataclass(frozen=True, slots=True)
class _Line:
    file: str
    number: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(slots=True)
class UnitLines:
    """Hold the lines of a unit and its drop-ins that start the engine and set its variables."""

    start: list[_Line] = field(default_factory=list)
    variables: dict[str, tuple[str, _Line]] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)


def unit_lines(text: str) -> UnitLines:
    """Read what ``systemctl cat`` printed, with the file and line of every part."""
    found = UnitLines()
    file, number, section, key = "", 0, "", ""
    comment = ""
    for raw in text.splitlines():
        if header := _HEADER.match(raw):
            file, number, section, key, comment = header[1], 0, "", "", ""
            continue
        number += 1
        line = _Line(file, number, raw)
        stripped = raw.strip()
        if stripped.startswith(("#", ";")):
            comment = stripped.lstrip("#; ")
            continue
        if key:
            found.start += [line] if key == "ExecStart" else []
        elif stripped.startswith("["):
            section = stripped
        elif "=" in stripped and section == "[Service]":
            key = _setting(found, line, stripped, comment)
        key = key if raw.endswith("\\") else ""
        comment = comment if key else ""
    return found


def _setting(found: UnitLines, line: _Line, text: str, comment: str) -> str:
    name, _, value = text.partition("=")
    name = name.strip()
    if name == "ExecStart":
        found.start = [line] if value.strip() else []
        found.remarks = {line.where: comment} if comment else {}
    elif name == "Environment":
        if not value.strip():
            found.variables = {}
        for variable, given in unit_text.environment([value.strip()]).items():
            found.variables[variable] = (given, line)
            if comment:
                found.remarks[line.where] = comment
    return name


def requested(
    argv: Sequence[str],
    environ: Mapping[str, str],
    evidence: Evidence,
    definitions: Mapping[str, Definition],
    pid: int,
) -> list[Asked]:
    """Return everything that was asked for, in the order of the command line, then variables."""
    unit = unit_lines(evidence.unit_text)
    by_flag = flag_names(definitions)
    script = [_Line(evidence.script, n, text) for n, text in enumerate(evidence.script_text.splitlines(), 1)]
    words = list(given_flags(argv))
    rows = [_flag(by_flag, word, value, unit, script, f"/proc/{pid}/cmdline") for word, value in words]
    rows += _not_running(by_flag, {word for word, _ in words}, unit)
    rows += _variables(environ, evidence, unit, f"/proc/{pid}/environ")
    return rows


def file_options(
    argv: Sequence[str],
    read_file: Callable[[str], bytes | None] | None,
    definitions: Mapping[str, Definition],
) -> list[Asked]:
    """Return what the file behind ``--config`` asks for, with its lines; nothing where it cannot be read."""
    words = engine_words(argv)[1]
    path = dict(pairwise(words)).get("--config", "")
    by_flag = flag_names(definitions)
    try:
        data = read_file(path) if path and read_file is not None else None
        given = config_words(path, data, by_flag) if data is not None else []
    except (OSError, ValueError):
        return []
    lines = [
        _Line(path, n, text)
        for n, text in enumerate((data or b"").decode("utf-8", "replace").splitlines(), 1)
    ]
    rows = []
    for word, value in given_flags(["serve", *given]):
        key = re.compile(rf"\s*[\"']?{re.escape(word.removeprefix('--').removeprefix('no-'))}\b")
        line = next((one for one in lines if key.match(one.text)), None)
        rows.append(
            Asked(setting_of(by_flag, word), word, value, "config file", line.where if line else path)
        )
    return rows


def flag_names(definitions: Mapping[str, Definition]) -> dict[str, str]:
    """Return the setting that each option string sets."""
    names: dict[str, str] = {}
    for name, one in definitions.items():
        for flag in (*one.flags, *one.negative_flags, *one.deprecated_flags):
            names.setdefault(flag, name)
    return names


def setting_of(by_flag: Mapping[str, str], word: str) -> str:
    """Return the setting of an option string, also of one that is cut short or spelled with underscores."""
    head, dot, keys = word.partition(".")
    if dot and head.startswith("-") and (base := setting_of(by_flag, head)):
        return f"{base}.{keys.replace('-', '_').rstrip('+')}"
    if _LEVEL.fullmatch(word) and "--optimization-level" in by_flag:
        return by_flag["--optimization-level"]
    spelled = "--" + word[2:].replace("_", "-") if word.startswith("--") else word
    for one in (word, spelled):
        if one in by_flag:
            return by_flag[one]
    near = {name for flag, name in by_flag.items() if flag.startswith(spelled)} if len(spelled) > 3 else set()
    return next(iter(near)) if len(near) == 1 else word.lstrip("-").replace("-", "_")


def given_flags(argv: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield the options of a command line, secrets masked; a positional model comes as ``MODEL``."""
    word: str | None = None
    values: list[str] = []
    for part in mask(engine_words(argv)[1]):
        if part.startswith("-") and len(part) > 1 and not _NUMBER.fullmatch(part):
            if word:
                yield word, " ".join(values) or None
            word, equals, value = part.partition("=")
            values = [value] if equals else [part[2:]] if _LEVEL.fullmatch(part) and part != "-O" else []
        elif word is None:
            yield "MODEL", part
        else:
            values.append(part)
    if word:
        yield word, " ".join(values) or None


def _flag(
    by_flag: Mapping[str, str],
    word: str,
    value: str | None,
    unit: UnitLines,
    script: Sequence[_Line],
    process: str,
) -> Asked:
    name = _model(by_flag) if word == "MODEL" else setting_of(by_flag, word)
    shown = value or "" if word == "MODEL" else word
    way: Way
    line = _line_of(unit.start, shown)
    if line is not None:
        way = "drop-in" if line.file.endswith(".conf") else "unit"
    else:
        line = _line_of(script, shown)
        way = "script" if line is not None else "command line"
    first = unit.start[0].where if unit.start else ""
    remark = unit.remarks.get(first, "") if way in ("unit", "drop-in") else ""
    shown = "-O" if _LEVEL.fullmatch(shown) else shown
    return Asked(name, shown, value, way, line.where if line else process, remark)


def _model(by_flag: Mapping[str, str]) -> str:
    return by_flag.get("--model-path") or by_flag.get("--model") or "model"


def _line_of(lines: Sequence[_Line], word: str) -> _Line | None:
    """Return the line that an option stands on: the last one, which is the one in force."""
    wanted = re.compile(rf"(?:^|[\s\"'=]){re.escape(word)}(?=$|[\s\"'=\\])")
    return next((line for line in reversed(lines) if wanted.search(line.text)), None)


def _not_running(by_flag: Mapping[str, str], running: set[str], unit: UnitLines) -> list[Asked]:
    """Return options of the unit that the process was not started with: the unit was changed since."""
    text = " ".join(line.text.removesuffix("\\") for line in unit.start).partition("=")[2]
    rows = []
    for word, value in given_flags(unit_text.command(text) or [""]):
        if word != "MODEL" and word not in running and running and (line := _line_of(unit.start, word)):
            way: Way = "drop-in" if line.file.endswith(".conf") else "unit"
            rows.append(Asked(setting_of(by_flag, word), word, value, way, line.where, in_force=False))
    return rows


def _variables(environ: Mapping[str, str], evidence: Evidence, unit: UnitLines, process: str) -> list[Asked]:
    files: dict[str, tuple[str, str]] = {}
    for path, text in evidence.environment_files.items():
        for row in text.splitlines():
            number, _, rest = row.partition(":")
            name, equals, value = rest.strip().removeprefix("export ").partition("=")
            if equals:
                files[name] = (value.strip().strip("\"'"), f"{path}:{number}")
    rows = []
    for name, value in environ.items():
        shown = HIDDEN if is_secret(name) else value
        given = unit.variables.get(name)
        if name in files and files[name][0] == value:
            rows.append(Asked(name, name, shown, "environment file", files[name][1]))
        elif given is not None and given[0] == value:
            way: Way = "drop-in" if given[1].file.endswith(".conf") else "unit"
            where = given[1].where
            rows.append(Asked(name, name, shown, way, where, unit.remarks.get(where, "")))
        else:
            rows.append(Asked(name, name, shown, "environment", process))
    return rows
