"""One GPU as the `nvidia-smi` stand-in shows it: hardware, the engine's state, other tenants."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.lab.tenants import Tenant

REASONS = {
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
"""What may slow the clocks of a GPU that works: the driver's names and bits."""
_OWN_MIB = 4
"""Memory that the driver keeps on a GPU without any process."""


@dataclass(frozen=True, slots=True)
class App:
    """Hold one process on a GPU and the memory it has there."""

    pid: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """Hold one GPU as it is now."""

    index: int
    count: int
    name: str
    driver: str
    cuda: str
    capability: str
    memory_mib: int
    power_limit_w: float
    max_sm_clock_mhz: int
    power_w: float
    utilization: int
    memory_used_mib: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    pstate: str
    apps: tuple[App, ...]
    max_memory_clock_mhz: int = 12481
    reasons: frozenset[str] = frozenset()
    counted_us: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        index: int,
        hardware: Mapping[str, Any],
        live: Mapping[str, Any] | None,
        pid: int,
        others: Sequence[Tenant] = (),
    ) -> Gpu:
        """Build a GPU from the scenario's hardware, the engine's state (idle without it), and its tenants."""
        row = dict(live or {})
        held = int(row.get("memory_used_mib", 2))
        apps = [App(pid, held - _OWN_MIB)] if pid and held > _OWN_MIB else []
        apps += [App(one.pid, one.memory_mib) for one in others]
        if busy := [one for one in others if one.utilization]:
            row["utilization"] = max(int(row.get("utilization", 0)), *(one.utilization for one in busy))
            row["power_w"] = max(float(row.get("power_w", 0.0)), *(one.power_w for one in busy))
            row["sm_clock_mhz"], row["pstate"] = hardware["max_sm_clock_mhz"], "P2"
        major, minor = hardware["capability"]
        pstate = str(row.get("pstate", "P8"))
        return cls(
            index=index,
            count=int(hardware["count"]),
            name=str(hardware["gpu_name"]),
            driver=str(hardware["driver"]),
            cuda=str(hardware["cuda"]),
            capability=f"{major}.{minor}",
            memory_mib=int(hardware["memory_mib"]),
            power_limit_w=float(hardware["power_limit_w"]),
            max_sm_clock_mhz=int(hardware["max_sm_clock_mhz"]),
            power_w=float(row.get("power_w", float(hardware["idle_w"]) / 2)),
            utilization=int(row.get("utilization", 0)),
            memory_used_mib=held + sum(one.memory_mib for one in others),
            sm_clock_mhz=int(row.get("sm_clock_mhz", hardware["idle_sm_clock_mhz"])),
            memory_clock_mhz=405 if pstate == "P8" else int(hardware.get("max_memory_clock_mhz", 12481)),
            pstate=pstate,
            apps=tuple(apps),
            max_memory_clock_mhz=int(hardware.get("max_memory_clock_mhz", 12481)),
            reasons=frozenset(row.get("reasons", ())),
            counted_us=row.get("counted_us", {}),
        )

    def active(self, reason: str) -> str:
        """Return whether a reason slows it now, as the tool says it."""
        return "Active" if reason in self.reasons else "Not Active"

    @property
    def reason_mask(self) -> int:
        """Return the reasons for lower clocks as one number."""
        return sum(REASONS[name] for name in self.reasons) | int(self.idle)

    @property
    def uuid(self) -> str:
        """Return an id that is stable for the host."""
        return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{self.name} {self.index}')}"

    @property
    def bus_id(self) -> str:
        """Return the PCI address; two GPUs a root port."""
        return f"00000000:{(0x01, 0x11, 0x21, 0x31, 0x81, 0x91, 0xA1, 0xB1)[self.index % 8]:02X}:00.0"

    @property
    def idle(self) -> bool:
        """Tell whether nothing runs on it."""
        return self.utilization == 0

    @property
    def idle_word(self) -> str:
        """Return whether being idle holds its clocks down, as the tool says it."""
        return "Active" if self.idle else "Not Active"

    @property
    def memory_free_mib(self) -> int:
        """Return the memory that nothing has taken."""
        return self.memory_mib - self.memory_used_mib

    @property
    def memory_utilization(self) -> int:
        """Return the share of time in which memory is read or written, in per cent."""
        return self.utilization // 2

    @property
    def temperature_left(self) -> int:
        """Return the degrees left until it slows down."""
        return 92 - self.temperature

    @property
    def process_row(self) -> str:
        """Return what follows the title of its processes."""
        return "".join(f"\n    Process ID: {app.pid}" for app in self.apps) or ": None"

    @property
    def temperature(self) -> int:
        """Return degrees Celsius, following the power drawn."""
        return 28 + int(self.power_w / 14)
