"""Lay out what a host is besides its software: processors, memory, /sys, programs, closed folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from evals.lab.described import HostFacts
from evals.lab.scenario import Scenario

TOPS = ("models", "srv", "home/lab", "var", "data", "root", "opt")
"""Folders below which a scenario's files are mounted entry by entry."""
_CPU = """processor\t: {number}
vendor_id\t: AuthenticAMD
model name\t: {model}
cpu MHz\t\t: 3250.000
physical id\t: 0
siblings\t: {count}
core id\t\t: {number}
cpu cores\t: {count}
flags\t\t: fpu sse sse2 ssse3 sse4_1 sse4_2 avx avx2 f16c fma avx512f

"""
_NPROC = """#!/bin/sh
case $1 in
--all) echo {all} ;;
'') echo {allowed} ;;
*) echo "nproc: unrecognized option '$1'" >&2; exit 1 ;;
esac
"""
_PROGRAM = """import sys

sys.path.insert(0, "/run/lab/src")
from evals.lab.inside import programs

sys.exit(programs.main(sys.argv))
"""
_DISGUISE = """import sys

sys.path.insert(0, "/run/lab/src")
from evals.lab.inside import disguise

sys.exit(disguise.main())
"""


def files(scenario: Scenario, python: Path) -> Iterator[tuple[str, str, int]]:
    """Yield the generated files: path below the state folder, text, mode."""
    yield from _processors(scenario.host)
    if scenario.host.memory_gib is not None:
        yield "proc/meminfo", _meminfo(scenario.host.memory_gib), 0o644
    for path, text in scenario.files.items():
        mode = 0 if path in scenario.unreadable else 0o755 if text.startswith("#!") else 0o644
        below = path.removeprefix("/usr/local/bin/")
        yield (f"bin/{below}" if below != path else path.lstrip("/")), text, mode
    for path in scenario.program_paths:
        below = path.removeprefix("/usr/local/bin/")
        place = f"bin/{below}" if below != path else path.lstrip("/")
        yield place, f"#!{python} -ISE\n{_PROGRAM}", 0o755
    yield "lab/d", _DISGUISE, 0o644
    yield "lab/pyvenv.cfg", f"home = {python.parent}\n", 0o644


def _processors(host: HostFacts) -> Iterator[tuple[str, str, int]]:
    if host.cpus is None:
        return
    every = "".join(_CPU.format(number=n, model=host.cpu_model, count=host.cpus) for n in range(host.cpus))
    yield "proc/cpuinfo", every, 0o644
    yield "bin/nproc", _NPROC.format(all=host.cpus, allowed=host.cpus_allowed or host.cpus), 0o755
    folder = "sys/devices/system/cpu"
    for name in ("online", "possible", "present"):
        yield f"{folder}/{name}", f"0-{host.cpus - 1}\n", 0o644
    for number in range(host.cpus):
        yield f"{folder}/cpu{number}/topology/core_id", f"{number}\n", 0o644
        yield f"{folder}/cpu{number}/topology/physical_package_id", "0\n", 0o644
        yield f"{folder}/cpu{number}/topology/thread_siblings", f"{1 << number:x}\n", 0o644


def _meminfo(gib: float) -> str:
    total = round(gib * (1 << 20))
    rows = {"MemTotal": total, "MemFree": total * 6 // 10, "MemAvailable": total * 8 // 10}
    rows |= {"Buffers": 204800, "Cached": total // 5, "SwapTotal": 0, "SwapFree": 0}
    return "".join(f"{name}:{kb:>15} kB\n" for name, kb in rows.items()) + "HugePages_Total:       0\n"


def mounts(scenario: Scenario, root: Path, python: Path) -> list[str]:
    """Return bubblewrap's options for them; the folders above are there already."""
    words: list[str] = []
    for path in sorted((root / "proc").iterdir()) if (root / "proc").is_dir() else []:
        words += ["--ro-bind", str(path), f"/proc/{path.name}"]
    words += _sys(scenario, root)
    for top in TOPS:
        words += below(root / top, f"/{top}")
    for closed in scenario.unreadable:
        if closed not in scenario.files:
            words += ["--perms", "0000", "--tmpfs", closed]
    for place, disk in scenario.host.disks.items():
        words += ["--size", str(disk.mib << 20), "--perms", "0755", "--tmpfs", place]
    words += ["--symlink", str(python), "/run/lab/p"]
    for name in ("d", "pyvenv.cfg"):
        words += ["--ro-bind", str(root / "lab" / name), f"/run/lab/{name}"]
    for name in dict.fromkeys(PurePosixPath(path).name for path in scenario.program_paths):
        words += ["--ro-bind", str(python), f"/run/lab/exe/{name}"]
    return words


def disk_files(host: HostFacts) -> dict[str, int]:
    """Return what process 1 writes on the host's own file systems: path -> KiB."""
    disks = host.disks.items()
    return {f"{place}/{name}": kib for place, disk in disks for name, kib in disk.holds.items()}


def _sys(scenario: Scenario, root: Path) -> list[str]:
    """Return /sys: a writable tree of control groups, and what the scenario puts beside it."""
    if not scenario.services and not (root / "sys").is_dir():
        return []
    words = []
    for path in ("/sys", "/sys/fs"):
        words += ["--perms", "0755", "--dir", path]
    words += ["--size", str(8 << 20), "--perms", "0755", "--tmpfs", "/sys/fs/cgroup"]
    words += ["--perms", "0755", "--dir", "/sys/fs/cgroup/system.slice"]
    words += below(root / "sys/fs/cgroup", "/sys/fs/cgroup")
    tree = root / "sys"
    entries = sorted(tree.iterdir()) if tree.is_dir() else []
    return words + [w for e in entries if e.name != "fs" for w in ("--ro-bind", str(e), f"/sys/{e.name}")]


def below(folder: Path, target: str) -> list[str]:
    """Mount what a scenario puts into a folder, entry by entry, so that the folder stays writable."""
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    return [word for path in entries for word in ("--ro-bind", str(path), f"{target}/{path.name}")]


def over(real: Path, own: Path, target: str) -> list[str]:
    """Mount this machine's folder with a scenario's files among its own."""
    words = ["--perms", "0755", "--dir", target]
    mine = {path.name: path for path in own.iterdir()}
    there = {path.name: path for path in real.iterdir()} if real.is_dir() else {}
    for name in sorted({*mine, *there}):
        place = f"{target}/{name}"
        if name in mine and name in there and mine[name].is_dir() and there[name].is_dir():
            words += over(there[name], mine[name], place)
        elif name in mine:
            words += ["--ro-bind", str(mine[name]), place]
        elif there[name].is_symlink():
            words += ["--symlink", str(there[name].readlink()), place]
        else:
            words += ["--ro-bind", str(there[name]), place]
    return words
