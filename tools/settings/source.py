"""Give the files of an installed engine from a local folder: site-packages, an unpacked wheel, a checkout."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path
from typing import Final, cast

from tools.contract import ToolError
from tools.settings.types import Engine

MAX_FILE: Final = 4 << 20
"""Larger files are tables that a program wrote: they are left out, and `LocalTree.skipped` says so."""
MAX_FILES: Final = 20_000
"""A package has a few thousand files; a folder with more is something else."""
MARKS: Final[Mapping[Engine, tuple[str, ...]]] = {
    "sglang": ("srt/server_args.py",),
    "vllm": ("engine/arg_utils.py",),
}
"""The file of each Python engine that tells its package folder from any other."""
_ABOVE: Final = ("", "{}", "python/{}", "src/{}", "site-packages/{}")
"""Where a package lies below the folders that people name."""
_VERSION = re.compile(rb"""^__version__\s*(?::[^=\n]*)?=[^'"#\n]*['"]([^'"\n]+)['"]""", re.MULTILINE)

_PART = re.compile(rb"[A-Z][a-z]{4,}")
_SHARED: Final = 3
"""Words of which a part is looked for before them."""


class SettingsSourceError(ToolError):
    """Say why the source of an engine cannot be read, and what to name instead."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Hold one package that was found: its engine and its folder."""

    engine: Engine
    folder: Path


@dataclass(slots=True)
class _Text:
    """Hold all files, and which of them were found to hold a word."""

    files: Mapping[str, bytes] = field(repr=False)
    found: dict[tuple[bytes, str], tuple[str, ...]] = field(default_factory=dict)

    def holding(self, word: bytes, scope: str) -> tuple[str, ...]:
        """Return the files that hold a word."""
        key = word, scope
        if key not in self.found:
            self.found[key] = tuple(path for path in self._among(word, scope) if word in self.files[path])
        return self.found[key]

    def _among(self, word: bytes, scope: str) -> Iterable[str]:
        """Return the files that are to be looked at: what holds a word holds every part of it."""
        known = [
            paths for (part, where), paths in self.found.items() if part in word and where in ("", scope)
        ]
        if known:
            return min(known, key=len)
        return [path for path in self.files if path.startswith(scope) or "/" not in path]

    def share(self, words: Iterable[bytes], scope: str) -> None:
        """Look first for what most of the words have in common."""
        counts = Counter(part for word in words for part in sorted(set(_PART.findall(word))))
        for part, count in counts.most_common(1):
            if count >= _SHARED:
                self.holding(part, scope)


class LocalTree:
    """Read the package of one engine from a folder; every file is read once and kept."""

    def __init__(self, folder: Path | str, *, engine: Engine | None = None) -> None:
        """Find the package in ``folder``; raise `SettingsSourceError` when there is none, or two."""
        place = _only(Path(folder), engine)
        self.folder = place.folder
        self.skipped: dict[str, str] = {}
        """Files that are left out, each with the reason."""
        self._engine = place.engine
        self._files: dict[str, bytes | None] = {}
        self._paths: tuple[str, ...] | None = None
        self._text: _Text | None = None
        self._info = _dist_info(place)
        self._version = self._read_version()

    @property
    def engine(self) -> Engine:
        """Return the engine that the package is."""
        return self._engine

    @property
    def version(self) -> str:
        """Return the version by its metadata, else by the package itself, else ``""``."""
        return self._version

    def read(self, path: str) -> bytes | None:
        """Return a file of the package; None when it has none of this name, or one that is skipped."""
        if path not in self._files:
            self._files[path] = self._load(path)
        return self._files[path]

    def paths(self) -> Sequence[str]:
        """Return every ``*.py`` file of the package, sorted."""
        if self._paths is None:
            self._paths = tuple(sorted(_python_files(self.folder)))
        return self._paths

    def mentions(self, words: Sequence[str], scope: str = "") -> Mapping[str, bytes]:
        """Return the ``*.py`` files whose text holds one of the words, as a part of a longer one too."""
        if self._text is None:
            self._text = _Text({path: self.read(path) or b"" for path in self.paths()})
        wanted = [word.encode() for word in words]
        self._text.share(wanted, scope)
        found = {path for word in wanted for path in self._text.holding(word, scope)}
        return {path: self.read(path) or b"" for path in sorted(found)}

    def distribution(self, name: str) -> bytes | None:
        """Return a file of the ``.dist-info`` folder beside the package, or None."""
        if self._info is None or "/" in name or name in ("", ".", ".."):
            return None
        data, _ = _bytes_of(f"{self._info}/{name}")
        return data

    def _load(self, path: str) -> bytes | None:
        if not path or path.startswith("/") or ".." in path.split("/"):
            return None
        data, why = _bytes_of(f"{self.folder}/{path}")
        if why:
            self.skipped[path] = why
        return data

    def _read_version(self) -> str:
        metadata = self.distribution("METADATA")
        if metadata is not None:
            version = HeaderParser().parsestr(metadata.decode("utf-8", "replace")).get("Version", "")
            if version.strip():
                return version.strip()
        for path in ("version.py", "_version.py"):
            found = _VERSION.search(self.read(path) or b"")
            if found:
                return found[1].decode("utf-8", "replace")
        return ""


def _only(folder: Path, engine: Engine | None) -> _Place:
    try:
        if not folder.is_dir():
            raise SettingsSourceError(f"{folder} is no folder; name one that holds sglang/ or vllm/")
        found = list(_places(folder, engine))
    except OSError as error:
        raise SettingsSourceError(f"{folder} cannot be read: {error.strerror}; name another") from None
    if not found:
        raise SettingsSourceError(_nothing(folder, engine))
    if len(found) > 1:
        both = " and ".join(str(place.folder) for place in found)
        raise SettingsSourceError(f"{folder} holds two engines, {both}; name one of them")
    return found[0]


def _places(folder: Path, engine: Engine | None) -> Iterator[_Place]:
    """Yield the package of every engine that lies in a folder, or that the folder itself is."""
    for name, marks in MARKS.items():
        if engine not in (None, name):
            continue
        for pattern in _ABOVE:
            package = folder / pattern.format(name)
            if all((package / mark).is_file() for mark in marks):
                yield _Place(name, package)
                break


def _nothing(folder: Path, engine: Engine | None) -> str:
    """Say what was looked for and not found."""
    engines = [engine] if engine in MARKS else list(MARKS)
    for name in engines:
        for pattern in _ABOVE[1:]:
            package = folder / pattern.format(name)
            if package.is_dir():
                mark = MARKS[cast(Engine, name)][0]
                return (
                    f"{package} has no {mark}: compiled or stripped, or of a version older than can be read; "
                    "name an unpacked wheel of the same version"
                )
    looked = " or ".join(f"{name}/{MARKS[cast(Engine, name)][0]}" for name in engines)
    return f"{folder} holds no {looked}; name the package's folder or the site-packages folder it lies in"


def _dist_info(place: _Place) -> Path | None:
    """Return the metadata folder of the package; where an update left two, the one written last."""
    pattern = re.compile(rf"{place.engine}-[^-]+\.dist-info", re.IGNORECASE)
    try:
        beside = [p for p in place.folder.parent.iterdir() if pattern.fullmatch(p.name) and p.is_dir()]
        return max(beside, key=lambda path: (path.stat().st_mtime, path.name), default=None)
    except OSError:
        return None


def _python_files(folder: Path) -> Iterator[str]:
    """Yield the Python files below a folder, without caches and without folders that are links."""
    base = len(str(folder)) + 1
    left = MAX_FILES
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
        found = [name for name in names if name.endswith(".py")]
        left -= len(found)
        if left < 0:
            raise SettingsSourceError(
                f"{folder} holds over {MAX_FILES} Python files; name the folder of one engine's package"
            )
        below = where[base:].replace(os.sep, "/")
        yield from (f"{below}/{name}" if below else name for name in found)


def _bytes_of(path: str) -> tuple[bytes | None, str]:
    """Return a regular file, or None and why it is left out (empty: there is none)."""
    try:
        # Not `open`: its buffers would cost half of the time that reading a package takes.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return None, "not a regular file"
            if status.st_size > MAX_FILE:
                return None, f"{status.st_size} bytes, over the bound of {MAX_FILE}"
            return _all(file, status.st_size), ""
        finally:
            os.close(file)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None, ""
    except (OSError, ValueError) as error:
        return None, f"cannot be read: {getattr(error, 'strerror', None) or error}"


def _all(file: int, size: int) -> bytes:
    data = os.read(file, size)
    while len(data) < size and (more := os.read(file, size - len(data))):
        data += more
    return data
