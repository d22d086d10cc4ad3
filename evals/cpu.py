"""Count processor time: of this process by job, and of a lab by the processes that live in its sandbox."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from evals.lab.sandbox import Process

_TICK = os.sysconf("SC_CLK_TCK")


class Meter:
    """Add up the processor seconds of a job's lab, which are known only while its processes live.

    They count from where the lab is ready: until then its interpreters import what they need.
    """

    def __init__(self) -> None:
        self.seconds = 0.0


class CpuClock:
    """Share this process's time, and that of its ended children, out among the jobs running side by side.

    The sum over all jobs is exact. Of jobs that overlap, each gets an equal part of the overlap.
    """

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._last = process_seconds()

    def start(self, key: str) -> None:
        """Count for a job from now on."""
        self._share()
        self._used[key] = 0.0

    def stop(self, key: str) -> float:
        """Return the seconds of a job that has ended."""
        self._share()
        return self._used.pop(key)

    def _share(self) -> None:
        now = process_seconds()
        for key in self._used:
            self._used[key] += (now - self._last) / len(self._used)
        self._last = now


def process_seconds() -> float:
    """Return the processor seconds that this process and its ended children have used."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def lab_seconds(init: Process) -> float:
    """Return the processor seconds of all processes of a sandbox, the ended ones included; 0 when it is gone.

    Those that ended are counted by the process that waited for them, in the end by process 1.
    """
    try:
        namespace = Path(f"/proc/{init.pid}/ns/pid").readlink()
    except OSError:
        return 0.0
    return sum(
        _ticks(path)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and _namespace(path) == namespace
    ) / float(_TICK)


def _namespace(process: Path) -> Path | None:
    try:
        return (process / "ns" / "pid").readlink()
    except OSError:
        return None


def _ticks(process: Path) -> int:
    """Return the user and system time of a process and of the children it waited for."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(field) for field in fields[11:15])
