"""Find other people's processes that a scenario puts on the GPUs. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Tenant:
    """Hold one process on one GPU."""

    pid: int
    gpu: int
    memory_mib: int
    utilization: int = 0
    power_w: float = 0.0


def present(hardware: Mapping[str, Any], proc: Path = Path("/proc")) -> list[Tenant]:
    """Return those of ``hardware["tenants"]`` whose process runs."""
    wanted = hardware.get("tenants") or ()
    if not wanted:
        return []
    lines = {pid: line for pid in _pids(proc) if (line := _line(proc, pid))}
    found = []
    for one in wanted:
        facts = {key: value for key, value in one.items() if key != "process"}
        pids = [pid for pid, line in lines.items() if re.search(one["process"], line)]
        found += [Tenant(pid, **facts) for pid in pids[:1]]
    return found


def _pids(proc: Path) -> list[int]:
    return sorted(int(path.name) for path in proc.iterdir() if path.name.isdigit())


def _line(proc: Path, pid: int) -> str:
    try:
        return (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
