"""Find where a symbol stands in the fetched source of a package, once: its first and last line.

The source is what scenarios are made of, so a citation's lines are held against the very text that the host
had. Where the package is not cached, or the file cannot be parsed, the answer is None and the caller says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath

from agent.config import load_settings
from tools.statements import find_symbol, first_line
from tools.syntax import Module, parse

Lines = tuple[int, int]

_SITES = ("site-packages", "dist-packages")


@lru_cache(maxsize=1)
def default_cache() -> Path:
    """Return the folder in which fetched packages lie."""
    return load_settings().cache_dir


def symbol_lines(package: str, version: str, path: str, symbol: str, cache: Path) -> Lines | None:
    """Return first and last line of ``symbol`` in a cited file; None when the source cannot tell.

    ``(0, 0)``, which no line is inside of, when the file is there and defines no such symbol.
    """
    file = package_file(package, version, path, cache)
    return None if file is None else _lines(file, symbol)


def package_file(package: str, version: str, path: str, cache: Path) -> Path | None:
    """Return the fetched file behind a path on a host; None when the package or the file is not cached."""
    folder = package_folder(package, version, cache)
    return None if folder is None else _file(folder, path)


def package_folder(package: str, version: str, cache: Path) -> Path | None:
    """Return the unpacked package; a folder that is not there yet may be fetched later, so only hits stay."""
    key = (package, version, cache)
    if key not in _folders:
        found = sorted(path for path in cache.glob(f"packages/{package}-{version}-*") if path.is_dir())
        if not found:
            return None
        _folders[key] = found[0]
    return _folders[key]


_folders: dict[tuple[str, str, Path], Path] = {}


@lru_cache(maxsize=4096)
def _file(folder: Path, path: str) -> Path | None:
    parts = PurePosixPath(path).parts
    for tail in _tails(parts):
        file = folder.joinpath(*tail)
        if ".." not in tail and file.is_file():
            return file
    if not parts or path.startswith("/"):
        return None
    ends = sorted(file for file in folder.rglob(parts[-1]) if file.as_posix().endswith(f"/{path}"))
    return ends[0] if len(ends) == 1 else None


def _tails(parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the ends of a path that may lie in a package folder, the likeliest first."""
    for site in _SITES:
        if site in parts:
            yield parts[parts.index(site) + 1 :]
            return
    for start in range(len(parts)):
        if parts[start] != "/":
            yield parts[start:]


@lru_cache(maxsize=4096)
def _lines(file: Path, symbol: str) -> Lines | None:
    module = _module(file)
    if module is None:
        return None
    found = find_symbol(module, symbol)
    if found is None:
        return (0, 0)
    return first_line(found), found.end_lineno or found.lineno


@lru_cache(maxsize=2)
def _module(file: Path) -> Module | None:
    """Parse a file; few are kept, since a tree is many times the size of its text."""
    try:
        return parse(file.read_bytes())
    except (OSError, SyntaxError):
        return None
