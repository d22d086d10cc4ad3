"""Say what an engine's code would ask of its host: from what a host told, or from words of a person."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools.contract import ToolError
from tools.definitions import HIDDEN
from tools.settings.locate import Location
from tools.settings.types import HostFacts

PLATFORMS: Final = ("cuda", "hip", "cpu", "xpu", "npu", "hpu", "musa")
_NUMBERS: Final = ("gpu_count", "gpu_memory_mib")
_DIST = re.compile(r"(.+?)-(\d[^-]*)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_HARMLESS: Final = re.compile(
    r"HOME|LANG|LANGUAGE|LC_\w+|LOGNAME|PATH|PWD|OLDPWD|SHELL|SHLVL|TERM|TZ|USER|_|MAIL|HOSTNAME|XDG_\w+"
    r"|INVOCATION_ID|JOURNAL_STREAM|MANAGERPID|SYSTEMD_EXEC_PID|MEMORY_PRESSURE_\w+|NOTIFY_SOCKET|LEADLINE_\w+"
)
"""Variables that no engine decides a setting by."""


class Installed(Mapping[str, "str | None"]):
    """Answer for every distribution or module: its version (``""`` when none is known), or None: absent."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self._versions = {_plain(name): version for name, version in versions.items()}

    def __getitem__(self, name: str) -> str | None:
        return self._versions.get(_plain(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)


def _packages(records: Mapping[str, str]) -> Mapping[str, str | None] | None:
    """Return what is installed; what is not listed is absent only where the listing is surely whole.

    The process runs, so what its package cannot do without is there: where such a one is not in the listing,
    the interpreter finds packages elsewhere as well, and a name that is not listed says nothing.
    """
    if not records.get("packages"):
        return None
    found = installed(records["packages"])
    required = re.findall(r"^([A-Za-z0-9][\w.-]*)[^;\n]*$", records.get("requires", ""), re.MULTILINE)
    if required and all(found[name] is not None for name in required):
        return found
    return dict(found)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(listing: str) -> Installed:
    """Return what the names in site-packages folders say is installed."""
    versions: dict[str, str] = {}
    for name in listing.split("\n"):
        if found := _DIST.fullmatch(name):
            versions[found[1]] = found[2]
        elif re.fullmatch(r"[A-Za-z_]\w*(\.py|\..*\.so|\.so)?", name):
            versions.setdefault(name.partition(".")[0], "")
    return Installed(versions)


def of_location(
    location: Location,
    read_file: Callable[[str], bytes | None] | None = None,
    list_folder: Callable[[str], Sequence[str]] | None = None,
) -> HostFacts:
    """Return the facts of the host that a process runs on, as far as the host told them."""
    records = location.records
    gpus = [row.rsplit(",", 2) for row in records.get("gpus", "").splitlines() if row.count(",") >= 2]
    torch = records.get("torch", "")
    cuda = re.search(r"^cuda\b[^=\n]*= *'([^']+)'", torch, re.MULTILINE)
    hip = re.search(r"^hip\b[^=\n]*= *'([^']+)'", torch, re.MULTILINE)
    gfx = re.search(r"gfx_target_version ([1-9]\d+)", records.get("gfx", ""))
    packages = _packages(records)
    base = HostFacts(
        packages=packages,
        environment_complete=location.variables is not None and not _unread(location),
        read_file=read_file,
        list_folder=list_folder,
        cuda_version=cuda[1] if cuda else _cuda_of(packages),
    )
    if gpus and not hip:
        return dataclasses.replace(base, platform="cuda", **_nvidia(gpus, location.process.environ))
    if gfx:
        return dataclasses.replace(base, platform="hip", gpu_arch=_gfx(int(gfx[1])))
    return dataclasses.replace(base, platform="cuda" if cuda else "hip" if hip else None)


def _nvidia(gpus: list[list[str]], environ: Mapping[str, str]) -> dict[str, Any]:
    names, memory, capability = ({row[at].strip() for row in gpus} for at in range(3))
    (arch,) = capability if len(capability) == 1 else ("",)
    (size,) = memory if len(memory) == 1 else ("",)
    (name,) = names if len(names) == 1 else ("",)
    return {
        "gpu_arch": "sm" + arch.replace(".", "") if re.fullmatch(r"\d+\.\d", arch) else None,
        "gpu_name": name or None,
        "gpu_memory_mib": int(size) if size.isdigit() else None,
        "gpu_count": _visible(len(gpus), environ.get("CUDA_VISIBLE_DEVICES")),
    }


def _visible(count: int, devices: str | None) -> int | None:
    """Return how many GPUs the process sees; None when its list cannot be counted."""
    if devices is None:
        return count
    words = [word.strip() for word in devices.split(",")] if devices.strip() else []
    seen = 0
    for word in words:  # CUDA stops at the first one that is not there
        if (word.isdigit() and int(word) >= count) or word.startswith("-"):
            break
        if not word.isdigit() and not word.startswith(("GPU-", "MIG-")):
            return None
        seen += 1
    return seen


def _gfx(version: int) -> str:
    """Return ``gfx942`` for the kernel's 90402, ``gfx90a`` for 90010."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _cuda_of(packages: Mapping[str, str | None] | None) -> str | None:
    """Return the CUDA that PyTorch was built for, by its version or the runtime that it pins."""
    if packages is None:
        return None
    if found := re.search(r"\+cu(\d+)(\d)$", packages.get("torch") or ""):
        return f"{found[1]}.{found[2]}"
    for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12"):
        if found := re.match(r"\d+\.\d+", packages.get(name) or ""):
            return found[0]
    return None


def _unread(location: Location) -> set[str]:
    """Return the variables that are set but were not read, and that an engine might ask for."""
    known = {name for name, value in location.process.environ.items() if value != HIDDEN}
    return {n for n in location.variables or () if n not in known and not _HARMLESS.fullmatch(n)}


def environment_of(location: Location) -> dict[str, str]:
    """Return the variables of a process whose values were read."""
    return {name: value for name, value in location.process.environ.items() if value != HIDDEN}


def of_words(
    words: Sequence[str],
    read_file: Callable[[str], bytes | None] | None = None,
    list_folder: Callable[[str], Sequence[str]] | None = None,
) -> HostFacts:
    """Return facts from ``NAME=VALUE`` words; raise `ToolError` that names the word and what may stand."""
    values: dict[str, Any] = {}
    packages: dict[str, str | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ToolError(f"--set {word}: write NAME=VALUE; names are {_names()}")
        if name.startswith("package."):
            packages[name.removeprefix("package.")] = None if value == "absent" else value
        else:
            values[name] = _value(word, name, value)
    arch = values.get("gpu_arch", "")
    if arch and "platform" not in values:
        values["platform"] = "hip" if arch.startswith("gfx") else "cuda"
    return HostFacts(**values, packages=packages or None, read_file=read_file, list_folder=list_folder)


def _value(word: str, name: str, value: str) -> str | int:
    if name == "platform" and value not in PLATFORMS:
        raise ToolError(f"--set {word}: platforms are {', '.join(PLATFORMS)}")
    if name == "gpu_arch" and not re.fullmatch(r"sm\d{2,3}a?|gfx[0-9a-f]{3,4}", value):
        raise ToolError(f"--set {word}: architectures look like sm90, sm120, gfx942")
    if name in _NUMBERS:
        if not value.isdecimal():
            raise ToolError(f"--set {word}: {name} is a whole number")
        return int(value)
    if name not in ("platform", "gpu_arch", "gpu_name", "cuda_version"):
        raise ToolError(f"--set {word}: there is no fact {name}; names are {_names()}")
    return value


def _names() -> str:
    fields = [one.name for one in dataclasses.fields(HostFacts)]
    kept = [name for name in fields if name not in _NOT_SAID]
    return ", ".join([*kept, "package.NAME (a version, or absent)"])


_NOT_SAID: Final = ("packages", "environment_complete", "read_file", "list_folder")


def list_local(path: str) -> Sequence[str]:
    """Name what lies in a folder of this machine; raise `OSError` where it cannot be told."""
    with os.scandir(path) as entries:
        names = [entry.name for entry in itertools.islice(entries, _MOST_NAMES + 1)]
    if len(names) > _MOST_NAMES:
        raise OSError(f"{path} holds more than {_MOST_NAMES} files")
    return [name for name in names if not name.startswith(".")]


_MOST_NAMES: Final = 5_000
_FILES: Final = (".json", ".yaml", ".yml", ".txt", ".py", ".jinja")


def read_local(path: str) -> bytes | None:
    """Read a file of this machine: None when absent, `OSError` for a folder or where it cannot be told."""
    place = Path(path)
    if not place.is_absolute() and not place.exists():
        # A name such as ORG/MODEL may be one of a hub: that it is no folder here says nothing.
        raise OSError(f"{path} is no path on this machine")
    if not place.parent.exists():
        raise OSError(f"{place.parent} is not on this machine")
    try:
        if place.stat().st_size > 8 << 20:
            raise OSError(f"{path} is larger than a configuration file")
        return place.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if place.suffix not in _FILES and not (place.parent / "config.json").exists():
            # Likely a folder of the machine that the launch line is for: it says nothing that none is here.
            raise OSError(f"{path} is not on this machine") from None
        return None
