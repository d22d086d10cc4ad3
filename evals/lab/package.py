"""Fetch an engine's released source from the package index, once, by its pinned digest."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent.errors import LeadlineError

Progress = Callable[[str], None]

SUFFIXES = frozenset({".json", ".jinja", ".md", ".toml", ".txt", ".typed", ".yaml", ".yml"})
"""Data files that are unpacked beside the source; compiled parts never are."""
MAX_DATA = 256 << 10
DOWNLOAD_S = 600


class PackageError(LeadlineError):
    """Report that an engine's source is neither cached nor to be had, or is not what was pinned."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Name one wheel exactly: its digest, and the tags by which pip finds it under any interpreter."""

    sha256: str
    python: str = "3.11"
    abi: str = "cp311"
    platform: str = "manylinux_2_34_x86_64"


PINS: dict[tuple[str, str], Pin] = {
    ("sglang", "0.5.11"): Pin("fe0748beaff218d3e16c9018a5e19f018db06fc3c7ac4f90d2f93da1cf074b6f"),
}
"""What scenarios may ask for."""


def fetch(
    name: str,
    version: str,
    cache_dir: Path,
    *,
    pin: Pin | None = None,
    progress: Progress = lambda text: None,
) -> Path:
    """Return the folder that holds the package and its ``*.dist-info``, fetching it the first time.

    Safe when several processes ask at once and when one is killed at any moment: a folder under its final
    name is complete. A wheel laid into ``CACHE/packages`` by hand is used when its digest is the pinned one.
    """
    pin = pin or PINS.get((name, version))
    if pin is None:
        raise PackageError(
            f"no digest is pinned for {name} {version}", do=f"add it to PINS in {Path(__file__).name}"
        )
    packages = cache_dir / "packages"
    final = packages / f"{name}-{version}-{pin.sha256[:12]}"
    if final.is_dir():
        return final
    packages.mkdir(parents=True, exist_ok=True)
    with _lock(packages / f".{final.name}.lock"):
        if not final.is_dir():
            _clear(packages, final.name)
            scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=packages))
            try:
                wheel = _wheel(name, version, pin, packages, scratch, progress)
                progress(f"unpacking {wheel.name}")
                _unpack(wheel, scratch / "unpacked")
                (scratch / "unpacked").rename(final)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return final


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock among processes; it falls with the process."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _clear(packages: Path, name: str) -> None:
    """Remove what killed processes left; only the holder of the lock may."""
    for path in packages.glob(f".{name}.*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def _wheel(name: str, version: str, pin: Pin, packages: Path, scratch: Path, progress: Progress) -> Path:
    for path in sorted(packages.glob(f"{name}-{version}-*.whl")):
        if _digest(path) == pin.sha256:
            return path
    progress(f"downloading {name} {version} (once)")
    argv = _pip(name, version, pin, scratch)
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DOWNLOAD_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise PackageError(
            f"the download of {name} {version} took over {DOWNLOAD_S} s", do="try again"
        ) from None
    found = sorted(scratch.glob("*.whl"))
    if done.returncode or not found:
        raise PackageError(
            f"{name} {version} is not in {packages} and could not be downloaded ({_why(done.stderr)})",
            do="go online and try again, or where there is a network run "
            f"`python -m {' '.join(argv[2:-1])} .` and copy the wheel to {packages}",
        )
    if (digest := _digest(found[0])) != pin.sha256:
        raise PackageError(
            f"{found[0].name} has the digest {digest}, pinned is {pin.sha256}",
            do="do not use it; check where your package index gets it from",
        )
    return found[0]


def _pip(name: str, version: str, pin: Pin, folder: Path) -> list[str]:
    tags = [
        "--python-version",
        pin.python,
        "--implementation",
        "cp",
        "--abi",
        pin.abi,
        "--platform",
        pin.platform,
    ]
    quiet = ["--disable-pip-version-check", "--no-input", "--retries", "2", "--timeout", "20"]
    what = ["--no-deps", "--only-binary=:all:", *tags, f"{name}=={version}", "--dest", str(folder)]
    return [sys.executable, "-m", "pip", "download", *quiet, *what]


def _why(stderr: str) -> str:
    """Return the line in which pip says what was wrong."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
    return errors[-1].removeprefix("ERROR:").strip()[:200] if errors else "pip said nothing"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(wheel: Path, folder: Path) -> None:
    """Unpack source, metadata and small data files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = PurePosixPath(entry.filename)
            if entry.is_dir() or not _needed(path, entry.file_size):
                continue
            if path.is_absolute() or ".." in path.parts:
                raise PackageError(f"{wheel.name} holds the path {entry.filename}", do="do not use it")
            target = folder.joinpath(*path.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(entry))
            target.chmod(0o644)


def _needed(path: PurePosixPath, size: int) -> bool:
    if path.suffix == ".py" or path.parts[0].endswith(".dist-info"):
        return True
    return path.suffix in SUFFIXES and size <= MAX_DATA
