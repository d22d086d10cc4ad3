"""Ask pip where a wheel lies, or to download it whole; pip alone knows the index and its settings."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.lab.package_unpack import PackageError

DOWNLOAD_S = 600
LOCATE_S = 120
SETTINGS_S = 60
_CHEAP_DRY_RUN = (23, 3)
"""Since this release of pip a dry run reads a wheel's metadata alone and does not download the wheel."""
_QUIET = ("--disable-pip-version-check", "--no-input", "--retries", "2", "--timeout", "20")


@dataclass(frozen=True, slots=True)
class Pin:
    """Name one wheel exactly: its digest, and the tags by which pip finds it under any interpreter."""

    sha256: str
    record: str = ""
    """sha256 of the RECORD in it, which proves single files of it; empty: only the whole wheel is trusted."""
    python: str = "3.11"
    abi: str = "cp311"
    platform: str = "manylinux_2_34_x86_64"

    @property
    def tags(self) -> list[str]:
        """Return pip's options that ask for these tags."""
        words = ["--python-version", self.python, "--implementation", "cp"]
        return [*words, "--abi", self.abi, "--platform", self.platform]


@dataclass(frozen=True, slots=True)
class Located:
    """Hold where the index keeps a wheel, and the digest it states."""

    url: str
    sha256: str

    @property
    def file(self) -> str:
        """Return the wheel's file name."""
        return self.url.rpartition("/")[2]


def _ask(argv: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def locate(name: str, version: str, pin: Pin, scratch: Path) -> Located | None:
    """Return where pip would download a wheel from; None when it does not say."""
    way = by_report if _release() >= _CHEAP_DRY_RUN else by_finder
    try:
        return way(name, version, pin, scratch)
    except (subprocess.TimeoutExpired, OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _release() -> tuple[int, ...]:
    return tuple(int(part) for part in importlib.metadata.version("pip").split(".")[:2] if part.isdigit())


def by_report(name: str, version: str, pin: Pin, scratch: Path) -> Located:
    """Ask by pip's report of a dry run; raise when it says nothing."""
    report = scratch / "report.json"
    options = ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:", "--quiet"]
    where = ["--target", str(scratch / "never"), "--report", str(report)]
    _ask(["-m", "pip", "install", *_QUIET, *options, *pin.tags, *where, f"{name}=={version}"], LOCATE_S)
    info = json.loads(report.read_text())["install"][0]["download_info"]
    return Located(info["url"].partition("#")[0], info["archive_info"].get("hashes", {}).get("sha256", ""))


def by_finder(name: str, version: str, pin: Pin, scratch: Path) -> Located:
    """Ask pip's own finder, in a process of its own; raise when it says nothing."""
    program = Path(__file__).with_name("package_finder.py")
    options = [*_QUIET, "--no-deps", "--only-binary=:all:", *pin.tags, "--dest", str(scratch)]
    return Located(**json.loads(_ask([str(program), name, version, *options], LOCATE_S).stdout))


def certificates() -> str | None:
    """Return the bundle of certificates that pip is told to trust, if it is told of one."""
    try:
        done = _ask(["-m", "pip", "config", "list", "--disable-pip-version-check"], SETTINGS_S)
    except subprocess.TimeoutExpired:
        return None
    found = [line.partition("=") for line in done.stdout.splitlines()]
    wanted = [value.strip("'\"") for name, _, value in found if name.rpartition(".")[2] == "cert"]
    return wanted[-1] if wanted else None


def download(name: str, version: str, pin: Pin, packages: Path, scratch: Path) -> Path:
    """Download a whole wheel and return it; raise `PackageError` with what a person can do instead."""
    what = ["--no-deps", "--only-binary=:all:", *pin.tags, f"{name}=={version}", "--dest"]
    argv = ["-m", "pip", "download", *_QUIET, *what]
    try:
        done = _ask([*argv, str(scratch)], DOWNLOAD_S)
    except subprocess.TimeoutExpired:
        raise PackageError(
            f"the download of {name} {version} took over {DOWNLOAD_S} s", do="try again"
        ) from None
    found = sorted(scratch.glob("*.whl"))
    if done.returncode or not found:
        raise PackageError(
            f"{name} {version} is not in {packages} and could not be downloaded ({_why(done.stderr)})",
            do="go online and try again, or where there is a network run "
            f"`python {' '.join(argv)} .` and copy the wheel to {packages}",
        )
    return found[0]


def _why(stderr: str) -> str:
    """Return the line in which pip says what was wrong."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
    return errors[-1].removeprefix("ERROR:").strip()[:200] if errors else "pip said nothing"
