"""What lies in folders of the host: patterns of file names, where the host tells what a folder holds."""

from __future__ import annotations

import fnmatch
import posixpath
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from tools.interpreter.values import Native, Unknown, unknown_of

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_MAGIC = frozenset("*?[")


def install(machine: Machine) -> None:
    """Add the search for files."""
    machine.library["glob.glob"] = Native("glob", lambda *a, **k: _searched(machine, a, k), machine)


def matching(machine: Machine, folder: str, pattern: str) -> list[str] | Unknown:
    """Return the files of a folder that fit a pattern, in any order, or an unknown."""
    if "/" in pattern or "**" in pattern or _MAGIC & set(folder):
        return Unknown((f"files {posixpath.join(folder, pattern)}",))
    names = machine.world.facts.list_folder
    try:
        held = names(folder) if names is not None else None
    except OSError:
        held = None
    if held is None:
        return Unknown((f"files in {folder}",))
    hidden = pattern.startswith(".")
    return sorted(
        posixpath.join(folder, name)
        for name in held
        if name.startswith(".") == hidden and fnmatch.fnmatchcase(name, pattern)
    )


def either_order(found: list[Any], what: str) -> Any:
    """Return files as a host gives them: the order of several is not known."""
    return found if len(found) < 2 else Unknown((f"the order of {what}",), (found, found[::-1]))


def paths_like(machine: Machine, folder: str, pattern: Any) -> Any:
    """Return what ``Path.glob`` finds in a folder."""
    found = matching(machine, folder, pattern) if isinstance(pattern, str) else unknown_of(pattern)
    if isinstance(found, Unknown):
        machine.doubts += 1
        return found
    return either_order([PurePosixPath(path) for path in found], f"files in {folder}")


def _searched(machine: Machine, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    pattern = args[0] if len(args) == 1 and not options else Unknown(("a search for files",))
    if not isinstance(pattern, str) or not pattern.startswith("/"):
        machine.doubts += 1
        return unknown_of(pattern, need="glob.glob()")
    folder, name = posixpath.split(pattern)
    found = matching(machine, folder, name)
    if isinstance(found, Unknown):
        machine.doubts += 1
        return found
    return either_order(found, f"files in {folder}")
