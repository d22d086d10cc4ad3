"""Publish what a described service does to GPUs and to its control group. Standard library only."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.lab.described_rules import Machine
from evals.lab.engine_facts import Hardware, Model, Noise, Scenario
from evals.lab.simulator_state import GpuState

_PERIOD_S = 0.1
"""The kernel's own period of a CPU quota."""


class DescribedGpus(GpuState):
    """Show power, utilisation, clock and memory as the service's rules say."""

    def __init__(self, hardware: Mapping[str, Any], machine: Machine, state_file: str) -> None:
        facts = Scenario("described", "", Hardware(**hardware), Model({}), state_file=state_file)
        super().__init__(facts)
        self._hardware = facts.hardware
        self._machine = machine
        self._noise = Noise(seed=1, relative=0.02)
        self._spec: Mapping[str, Any] = {}
        self._slowed_s = 0.0
        self._busy_since: float | None = None

    def show(self, spec: Mapping[str, Any] | None, busy: bool) -> None:
        """Say what the rules give now, and whether the service works."""
        self._spec = spec or {}
        now = time.monotonic()
        if self._busy_since is not None:
            self._slowed_s += now - self._busy_since
        self._busy_since = now if busy and spec else None
        self.load(1.0 if busy and spec else 0.0)

    def _value(self, name: str, default: float) -> float:
        value = self._machine.number(self._spec.get(name))
        return default if value is None else float(value)

    def _gpus(self, share: float) -> list[dict[str, Any]]:
        hardware = self._hardware
        count = int(self._value("count", 1.0)) if self._spec and self._phase != "stopped" else 0
        first = int(self._value("first", 0.0))
        rows = []
        for index in range(hardware.count):
            used = first <= index < first + count
            mine = share if used else 0.0
            drawn = random.Random(f"{index}:{mine:.3f}").gauss(0.0, self._noise.relative) if mine else 0.0
            power = hardware.idle_w + (self._value("power_w", 300.0) - hardware.idle_w) * mine
            clock = self._value("clock_mhz", float(hardware.max_sm_clock_mhz))
            held = self._value("memory_mib", 0.0) if used else 3.0
            rows.append(
                {
                    "index": index,
                    "power_w": round(min(power * (1 + drawn), hardware.power_limit_w), 2),
                    "utilization": round(self._value("utilization", 95.0) * mine),
                    "memory_used_mib": round(min(held, hardware.memory_mib)),
                    "sm_clock_mhz": round(clock if mine else hardware.idle_sm_clock_mhz),
                    "pstate": "P1" if mine else "P8",
                    **self._slowed(used, bool(mine)),
                }
            )
        return rows

    def _slowed(self, used: bool, busy: bool) -> dict[str, Any]:
        """Return what slows a GPU now, and the microseconds in which it was slowed so far."""
        spec = self._spec.get("reasons") or {} if used else {}
        if not spec:
            return {}
        counted = {
            name: round(float(self._machine.number(us)) + self._slowed_s * 1e6) for name, us in spec.items()
        }
        return {"reasons": sorted(spec) if busy else [], "counted_us": counted}


class ControlGroup:
    """Keep the files of a service's control group, where the host has any."""

    def __init__(self, unit: str, machine: Machine) -> None:
        self._folder = Path("/sys/fs/cgroup/system.slice") / unit
        self._machine = machine
        self._busy_since: float | None = None
        self._periods = self._throttled = self._cut_s = self._used_s = 0.0

    def create(self) -> None:
        """Write the files as of the service's start."""
        if not self._folder.parent.is_dir():
            return
        quota = self._machine.of("cpu_quota")
        self._folder.mkdir(exist_ok=True)
        self._write("cgroup.procs", f"{os.getpid()}\n")
        self._write("cpu.max", f"{'max' if quota is None else round(quota * 100_000)} 100000\n")
        self._write("memory.max", f"{self._machine.unit.get('MemoryMax', 'max')}\n")
        cpus = self._machine.unit.get("AllowedCPUs", "")
        self._write("cpuset.cpus", f"{cpus}\n")
        self._write("cpuset.cpus.effective", f"{cpus or self._all_cpus()}\n")
        self._count()

    def _all_cpus(self) -> str:
        count = int(self._machine.of("host.cpus") or os.cpu_count() or 1)
        return f"0-{count - 1}" if count > 1 else "0"

    def show(self, busy: bool, throttled: Any) -> None:
        """Say whether the service works now, and in which share of its periods it is cut off."""
        now = time.monotonic()
        if self._busy_since is not None:
            passed = now - self._busy_since
            if passed < _PERIOD_S and busy:
                return
            share = float(self._machine.number(throttled) or 0.0)
            quota = float(self._machine.of("cpu_quota") or self._machine.of("host.cpus") or 1.0)
            self._periods += passed / _PERIOD_S
            self._throttled += passed / _PERIOD_S * share
            self._cut_s += passed * share * quota / 2
            self._used_s += passed * quota
            self._count()
        self._busy_since = now if busy else None

    def remove(self) -> None:
        """Take the files away, as the service manager does when a service has ended."""
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                path.unlink()
            self._folder.rmdir()

    def _count(self) -> None:
        rows = {
            "usage_usec": self._used_s * 1e6,
            "nr_periods": self._periods,
            "nr_throttled": self._throttled,
            "throttled_usec": self._cut_s * 1e6,
        }
        self._write("cpu.stat", "".join(f"{name} {round(value)}\n" for name, value in rows.items()))

    def _write(self, name: str, text: str) -> None:
        with contextlib.suppress(OSError):
            (self._folder / name).write_text(text)
