"""Apply the limits of a unit to its process, as far as this sandbox and this machine allow."""

from __future__ import annotations

import contextlib
import os
import resource

from evals.lab.inside.unitfile import UnitFile


def apply(pid: int, unit: UnitFile) -> None:
    """Apply ``LimitNOFILE``, never above this sandbox's own hard limit, and ``AllowedCPUs``."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        wanted = unit.last("Service.LimitNOFILE").partition(":")[0]
        if wanted.isdigit():
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            limit = min(int(wanted), hard)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        here = numbers(unit.last("Service.AllowedCPUs")) & os.sched_getaffinity(0)
        if here:
            os.sched_setaffinity(pid, here)


def numbers(text: str) -> set[int]:
    """Return the numbers of a list such as ``0-3 8,10``."""
    found: set[int] = set()
    for part in text.replace(",", " ").split():
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found |= set(range(int(first), int(last or first) + 1))
    return found
