"""What lies in folders of the host: patterns of file names, where the host tells what a folder holds."""

from __future__ import annotations

import fnmatch
import posixpath
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.values import Native, Unknown, unknown_of

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_MAGIC = frozenset("*?[")


def install(machine: Machine) -> None:
    """Add the search for files."""
    machine.library["pkgutil.iter_modules"] = Native(
        "iter_modules", lambda *a, **k: _modules(machine, *a, **k), machine
    )
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


_MOST_MODULES: Final = 32
"""Where a folder holds more of them, importing each would take longer than what depends on it is worth."""


def _modules(machine: Machine, path: Any = None, prefix: Any = "") -> Any:
    """Return the modules of folders of the package, as ``pkgutil.iter_modules`` does; none is imported."""
    if not isinstance(path, list) or not isinstance(prefix, str) or not all(isinstance(p, str) for p in path):
        machine.doubts += 1
        return unknown_of(path, prefix, need="pkgutil.iter_modules()")
    found: dict[str, bool] = {}
    for folder in path:
        inside = [
            one.removeprefix(f"{folder}/") for one in machine.tree.paths() if one.startswith(f"{folder}/")
        ]
        compiled = f"{machine.package}/{folder}/".encode()
        record = machine.tree.distribution("RECORD") or b""
        if not inside or any(line.startswith(compiled) and b".so," in line for line in record.splitlines()):
            machine.doubts += 1
            return Unknown((f"the modules of {folder}",))
        for name in sorted(inside):
            base, _, rest = name.partition("/")
            if rest == "__init__.py":
                found.setdefault(base, True)
            elif not rest and base.endswith(".py") and base != "__init__.py":
                found.setdefault(base.removesuffix(".py"), False)
    if len(found) > _MOST_MODULES:
        machine.doubts += 1
        return Unknown((f"the modules of {', '.join(path)}",))
    finder = Unknown(("a finder of modules",))
    return [(finder, prefix + name, is_package) for name, is_package in sorted(found.items())]
