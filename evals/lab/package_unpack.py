"""Say what of a wheel is kept, and write it out; its RECORD tells what every file must be."""

from __future__ import annotations

import base64
import csv
import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent.errors import LeadlineError

SUFFIXES = frozenset({".json", ".jinja", ".md", ".toml", ".txt", ".typed", ".yaml", ".yml"})
"""Data files that are unpacked beside the source; compiled parts never are."""
MAX_DATA = 256 << 10
MAX_SOURCE = 16 << 20
"""No file that is kept is larger: what is read at once stays small, whatever a wheel holds."""


class PackageError(LeadlineError):
    """Report that an engine's source is neither cached nor to be had, or is not what was pinned."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Hold one row of a wheel's RECORD; ``digest`` is a sha256 in urlsafe base64, empty for RECORD itself."""

    path: str
    digest: str
    size: int


def needed(path: PurePosixPath, size: int) -> bool:
    """Tell whether a file of a wheel is source, metadata or small data."""
    if path.suffix == ".py" or path.parts[0].endswith(".dist-info"):
        return size <= MAX_SOURCE
    return path.suffix in SUFFIXES and size <= MAX_DATA


def listed(record: bytes, wheel: str) -> Iterator[Listed]:
    """Yield the rows of a RECORD whose files are kept; raise `PackageError` for one that proves nothing."""
    for row in csv.reader(record.decode("utf-8").splitlines()):
        path, how, size = row if len(row) == 3 else (str(row), "", "")
        kind, _, digest = how.partition("=")
        if kind == "sha256" and size.isdigit():
            if needed(PurePosixPath(path), int(size)):
                yield Listed(path, digest, int(size))
        elif not PurePosixPath(path).name.startswith("RECORD"):  # RECORD and its signatures list no digest
            raise PackageError(f"{wheel}: RECORD gives no sha256 for {path[:120]}", do="do not use it")


def proven(data: bytes, row: Listed) -> bool:
    """Tell whether a file's content is what RECORD says."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return len(data) == row.size and digest == row.digest


def put(folder: Path, name: str, data: bytes, wheel: str) -> None:
    """Write one file of a wheel; raise `PackageError` for a name that reaches out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise PackageError(f"{wheel} holds the path {name}", do="do not use it")
    target = folder.joinpath(*path.parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(0o644)


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack source, metadata and small data files of a whole wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if not entry.is_dir() and needed(PurePosixPath(entry.filename), entry.file_size):
                put(folder, entry.filename, archive.read(entry), wheel.name)
