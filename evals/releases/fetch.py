"""Have the source of any release of an engine in the cache, by ranges of its wheel."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evals.lab import package_pip, package_ranges
from evals.lab.package_unpack import PackageError

LIST_S = 180
_ABIS = ("cp311", "cp38", "cp310", "abi3", "none")
_PLATFORMS = (
    "manylinux1_x86_64",
    "manylinux2014_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux_2_28_x86_64",
    "manylinux_2_31_x86_64",
    "manylinux_2_34_x86_64",
    "manylinux_2_35_x86_64",
    "any",
)


_BEFORE = re.compile(r"(a|b|rc|dev)\d")
"""What the version of a pre-release holds."""


@dataclass(frozen=True, slots=True)
class Release:
    """Hold where one release lies."""

    engine: str
    version: str
    url: str
    sha256: str


def releases(engine: str) -> dict[str, Release]:
    """Return every release that the package index offers a wheel of, by version."""
    program = Path(__file__).with_name("index_program.py")
    tags = ["--python-version", "3.11", "--implementation", "cp"]
    tags += [word for abi in _ABIS for word in ("--abi", abi)]
    tags += [word for platform in _PLATFORMS for word in ("--platform", platform)]
    options = [
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        "--only-binary=:all:",
        "--pre",
        *tags,
    ]
    done = subprocess.run(
        [sys.executable, str(program), engine, *options, "--dest", tempfile.gettempdir()],
        capture_output=True,
        text=True,
        timeout=LIST_S,
        check=False,
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise PackageError(
            f"the releases of {engine} cannot be listed ({why[:200]})", do="go online and try again"
        )
    found = json.loads(done.stdout)
    return {v: Release(engine, v, url, digest) for v, (url, digest) in found.items() if not _BEFORE.search(v)}


def order(version: str) -> tuple[tuple[int, ...], str]:
    """Return what releases are sorted by: their numbers, a post-release behind what it follows."""
    return tuple(int(number) for number in re.findall(r"\d+", version)), version


def folder_of(release: Release, cache_dir: Path) -> Path:
    """Return where a release lies in the cache: where the lab looks for its own, pinned packages too."""
    return cache_dir / "packages" / f"{release.engine}-{release.version}-{release.sha256[:12]}"


def fetch(release: Release, cache_dir: Path, progress: Callable[[str], None]) -> Path:
    """Return the folder with a release's ``*.py`` and metadata, fetching it the first time.

    The wheel is named by its digest in the index; single files are proven by the RECORD that lies in it. That
    is enough for a count; the lab's packages are pinned by the digest of RECORD too.
    """
    final = folder_of(release, cache_dir)
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    try:
        package_ranges.unpack(
            release.url,
            _record_digest(release.url),
            scratch / "unpacked",
            certificates=package_pip.certificates,
            progress=progress,
        )
        (scratch / "unpacked").rename(final)
    except package_ranges.Refused as refused:
        raise PackageError(
            f"{release.engine} {release.version}: no parts of its wheel are to be had ({refused})",
            do="try again, or another package index",
        ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return final


def _record_digest(url: str) -> str:
    """Return the digest of the RECORD in a wheel."""
    remote = package_ranges.Ranged(url, package_ranges.trust(url, package_pip.certificates))
    with zipfile.ZipFile(remote) as archive:
        name = next(n for n in archive.namelist() if n.count("/") == 1 and n.endswith(".dist-info/RECORD"))
        return hashlib.sha256(archive.read(name)).hexdigest()
