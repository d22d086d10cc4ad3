"""Read settings files one by one, so that what is wrong is told with its file and line, and what is near."""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from agent.errors import UsageError
from tools.wrong_fields import WrongField

Rank = Literal["site", "person", "project"]
RANKS: tuple[Rank, ...] = get_args(Rank)
"""In rising priority."""

NAMED = ("hosts", "models")
"""Tables whose entries stand in one file alone: half of one and half of another would be neither.

An entry counts when it is empty as well: its name alone is a host or a model.
"""

_MAX_BYTES = 1 << 20
_MAX_DEPTH = 16
"""Of tables in tables; what reads settings goes down by calling itself."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Say what gave a setting its value."""

    kind: Literal["default", "file", "environment", "flag"]
    name: str
    line: int | None = None

    @property
    def text(self) -> str:
        """Return it as people read it."""
        if self.kind == "file":
            return self.name + (f" line {self.line}" if self.line else "")
        return self.name or self.kind


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Hold what one settings file says."""

    path: Path
    rank: Rank
    data: Mapping[str, Any]
    text: str

    def says(self, location: Sequence[str | int]) -> bool:
        """Tell whether the file sets something at a location, such as ``("hosts", "gpu1", "unit")``."""
        found: Any = self.data
        for part in location:
            if not isinstance(found, Mapping) or part not in found:
                return False
            found = found[part]
        return True

    def line(self, location: Sequence[str | int]) -> int | None:
        """Return the line that sets a location, as far as a look at the text can tell."""
        return _line_of(self.text.splitlines(), [str(part) for part in location])


def read_files(paths: Iterable[Path]) -> list[ConfigFile]:
    """Return those of the three files that are there, in order; raise `UsageError` with file and place."""
    found = []
    for path, rank in zip(paths, RANKS, strict=True):
        try:
            text = _text(path)
            data = tomllib.loads(text)
            if _depth(data) > _MAX_DEPTH:
                raise RecursionError
            found.append(ConfigFile(path, rank, data, text))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path} is not TOML: {_plain(str(error))}", do="mend that line") from error
        except RecursionError as error:
            raise UsageError(f"{path} is nested too deeply for settings", do="mend it") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{path} is not UTF-8 text: {error.reason}", do="write it anew") from error
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror}", do="give rights, or remove it"
            ) from error
    _refuse_twice(found)
    return found


def _text(path: Path) -> str:
    """Return the text of a settings file; of a folder that came from elsewhere it may be no file at all."""
    if stat.S_ISREG(path.stat().st_mode):  # a pipe or a device might never end
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) <= _MAX_BYTES:
            return data.decode("utf-8").replace("\r\n", "\n")
        raise UsageError(f"{path} is larger than {_MAX_BYTES >> 20} MiB", do="it is no settings file")
    raise UsageError(f"{path} is no regular file", do="remove it, or write a file")


def _depth(data: Mapping[str, Any]) -> int:
    depth, tables = 0, [data]
    while tables:
        depth += 1
        tables = [one for table in tables for one in table.values() if isinstance(one, Mapping)]
    return depth


def _plain(said: str) -> str:
    """Return an error of tomllib as people write keys: ``hosts.gpu1`` for ``('hosts', 'gpu1')``."""
    return re.sub(r"\('([^)]*)',?\)", lambda found: found[1].replace("', '", "."), said)


def _refuse_twice(files: Sequence[ConfigFile]) -> None:
    for table in NAMED:
        seen: dict[str, Path] = {}
        for file in files:
            entries = file.data.get(table)
            for name in entries if isinstance(entries, Mapping) else ():
                if name in seen:
                    raise UsageError(
                        f"[{table}.{name}] stands in {seen[name]} and in {file.path}", do="keep one of them"
                    )
                seen[name] = file.path


def origin_in(
    files: Sequence[ConfigFile],
    location: Sequence[str],
    flags: Mapping[str, object],
    variable: str | None,
    first: Sequence[str] | None,
) -> Origin:
    """Return what gave the value of a setting; what a file says at the place ``first`` counts before all."""
    if first is not None:
        found = next((file for file in files if file.says(first)), None)
        if found is not None:
            return Origin("file", str(found.path), found.line(first))
    if location[0] in flags:
        return Origin("flag", f"--{location[0].replace('_', '-')}")
    if variable is not None:
        return Origin("environment", variable)
    for file in reversed(files):
        if file.says(location):
            return Origin("file", str(file.path), file.line(location))
    return Origin("default", "")


def wrong(files: Sequence[ConfigFile], found: WrongField, variable: str | None = None) -> UsageError:
    """Return what a person reads of a value that does not hold: field, variable or file, and what would."""
    location = found.place
    said = found.says.replace("there is no such field", "there is no such setting")
    if variable is not None:
        return UsageError(f"setting {found.field} in the variable {variable}: {said}", do=found.do)
    file = next((one for one in reversed(files) if one.says(location)), None)
    if file is None and len(location) > 1:  # a single value in place of a list has no place of its own
        file = next((one for one in reversed(files) if one.says(location[:-1])), None)
    line = file.line(location) if file is not None else None
    where = f" in {file.path}" + (f" line {line}" if line else "") if file is not None else ""
    names = ", ".join(str(one.path) for one in files) or "none"
    do = "" if where else f"see LEADLINE_* in the environment and these files: {names}"
    return UsageError(f"setting {found.field}{where}: {said}", do=found.do or do)


def _line_of(lines: Sequence[str], location: list[str]) -> int | None:
    """Return the number of the line that says a key: under its table's header, else as a dotted key."""
    table: list[str] = []
    best: int | None = None
    for number, line in enumerate(lines, 1):
        header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
        assigned = re.match(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=", line)
        if header:
            table = _keys(header[1])
            if table[: len(location)] == location:
                best = best or number
        elif assigned:
            whole = table + _keys(assigned[1])
            if whole == location[: len(whole)]:
                return number
    return best


def _keys(text: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", text)]
