"""Fetch any release of an engine: its source by ranges of the wheel, laid out as if it were installed."""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from evals.lab import package, package_pip, package_ranges
from evals.lab.package import PackageError
from evals.lab.package_pip import Located, Pin
from tools.settings.types import Engine

_TAGS: Final[dict[Engine, tuple[tuple[str, str], ...]]] = {
    "sglang": (("cp311", "manylinux_2_34_x86_64"),),
    "vllm": (
        ("abi3", "manylinux_2_28_x86_64"),
        ("abi3", "manylinux_2_31_x86_64"),
        ("abi3", "manylinux_2_35_x86_64"),
        ("abi3", "manylinux1_x86_64"),
    ),
}
"""The ABI and platform that releases were built for."""

Progress = Callable[[str], None]


def source(engine: Engine, version: str, cache_dir: Path, progress: Progress = lambda text: None) -> Path:
    """Return the folder with a release's package and metadata, fetching it the first time.

    A release without a pin is trusted on first use: every file is what the wheel's own RECORD says.
    """
    if (engine, version) in package.PINS:
        return package.fetch(engine, version, cache_dir, progress=progress)
    held = sorted((cache_dir / "packages").glob(f"{engine}-{version}-*/{engine}"))
    if held:
        return held[0].parent
    pin = _pinned(engine, version)
    return package.fetch(engine, version, cache_dir, pin=pin, progress=progress)


def _pinned(engine: Engine, version: str) -> Pin:
    """Return the digests that the index and the wheel state now."""
    with tempfile.TemporaryDirectory() as scratch:
        for abi, platform in _TAGS[engine]:
            tags = Pin("", abi=abi, platform=platform)
            found = package_pip.locate(engine, version, tags, Path(scratch))
            if found is not None:
                return Pin(found.sha256, record=_record_digest(found), abi=abi, platform=platform)
    raise PackageError(
        f"pip finds no wheel of {engine} {version}",
        do=f"see `pip index versions {engine}` for those there are",
    )


def _record_digest(found: Located) -> str:
    try:
        remote = package_ranges.Ranged(found.url, package_ranges.trust(found.url, package_pip.certificates))
        with zipfile.ZipFile(remote) as archive:
            (name,) = (n for n in archive.namelist() if n.count("/") == 1 and n.endswith(".dist-info/RECORD"))
            return hashlib.sha256(archive.read(name)).hexdigest()
    except package_ranges.Refused as refused:
        raise PackageError(f"{found.file} cannot be read in parts: {refused}", do="try again later") from None


def laid_out(unpacked: Path, folder: Path) -> Path:
    """Return a copy of an unpacked package with every file of its wheel, those not fetched as empty ones.

    Some releases ask whether a folder of kernels' sources is there. Compiled parts stay away.
    """
    final = folder / unpacked.name
    if final.is_dir():
        return final
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=folder))
    try:
        shutil.copytree(unpacked, scratch / "site", copy_function=os.link)
        (record,) = unpacked.glob("*.dist-info/RECORD")
        for row in csv.reader(record.read_text("utf-8").splitlines()):
            path = scratch / "site" / row[0]
            if path.suffix != ".so" and path.resolve().is_relative_to(scratch) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        (scratch / "site").rename(final)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return final
