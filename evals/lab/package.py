"""Fetch an engine's released source from the package index, once, by its pinned digests."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evals.lab import package_pip, package_ranges, package_unpack
from evals.lab.package_pip import Pin
from evals.lab.package_unpack import PackageError

__all__ = ["PINS", "PackageError", "Pin", "fetch"]

Progress = Callable[[str], None]

PINS: dict[tuple[str, str], Pin] = {
    ("sglang", "0.5.11"): Pin(
        "fe0748beaff218d3e16c9018a5e19f018db06fc3c7ac4f90d2f93da1cf074b6f",
        record="2bac0839cd5250a63ecc6447b0136079588df5b56102108cd7ad740503ce0065",
    ),
    ("sglang", "0.5.20"): Pin(
        "1573527042f4f6b4ead838302818595fc77fdc611dbcc2e40cd150fbc8f8513c",
        record="f3771da9d265f08af41bb1d7b8241ea05557df42257624d89724eebd9db0d07e",
    ),
    ("sglang", "0.5.23"): Pin(
        "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",
        record="7f4f1bc07cd125db49b23bfc29fc7eeab82d67520cbdd29289940ed42fad6da1",
    ),
    ("vllm", "0.11.0"): Pin(
        "3861c75ff2b12e24f6d179ff5c084d791b42ded8675d76c8706697c79f68cd62",
        record="3a166234519915523303fcc647e0a5cac13eed114b5b0a5a925bee02b2c16a54",
        abi="abi3",
        platform="manylinux1_x86_64",
    ),
    ("vllm", "0.33.0"): Pin(
        "4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa",
        record="a860951d44545b1b68c2d1484b9a03bbde52f6eae34850a6c22741c60ac386c4",
        abi="abi3",
        platform="manylinux_2_28_x86_64",
    ),
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
    name is complete. A wheel laid into ``CACHE/packages`` by hand is used when its digest is the pinned one;
    else only the needed files are read where the index gives ranges, else the whole wheel is downloaded.
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
                _obtain(name, version, pin, packages, scratch, progress)
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


def _obtain(name: str, version: str, pin: Pin, packages: Path, scratch: Path, progress: Progress) -> None:
    """Fill ``SCRATCH/unpacked`` by the cheapest way there is."""
    wheel = next(
        (p for p in sorted(packages.glob(f"{name}-{version}-*.whl")) if _digest(p) == pin.sha256), None
    )
    if wheel is None and pin.record and _by_ranges(name, version, pin, scratch, progress):
        return
    if wheel is None:
        progress(f"downloading {name} {version} (once)")
        wheel = package_pip.download(name, version, pin, packages, scratch)
        if (digest := _digest(wheel)) != pin.sha256:
            raise _other(wheel.name, digest, pin)
    progress(f"unpacking {wheel.name}")
    package_unpack.unpack(wheel, scratch / "unpacked")


def _by_ranges(name: str, version: str, pin: Pin, scratch: Path, progress: Progress) -> bool:
    """Read just the needed files; False where the index does not let us."""
    progress(f"asking pip where {name} {version} lies (once)")
    found = package_pip.locate(name, version, pin, scratch)
    if found is None or not found.url.startswith(("http:", "https:")):
        return False
    if found.sha256 and found.sha256 != pin.sha256:
        raise _other(found.file, found.sha256, pin)
    folder = scratch / "unpacked"
    try:
        package_ranges.unpack(
            found.url, pin.record, folder, certificates=package_pip.certificates, progress=progress
        )
    except package_ranges.Refused as refused:
        progress(f"no parts of {found.file} to be had: {refused}")
        shutil.rmtree(folder, ignore_errors=True)
        return False
    return True


def _other(wheel: str, digest: str, pin: Pin) -> PackageError:
    return PackageError(
        f"{wheel} has the digest {digest}, pinned is {pin.sha256}",
        do="do not use it; check where your package index gets it from",
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
