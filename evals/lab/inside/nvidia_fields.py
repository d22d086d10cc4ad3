"""The fields of the `nvidia-smi` stand-in's queries: names, values, units."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from evals.lab.inside.nvidia_gpu import REASONS, App, Gpu

_FIELDS = """
index {gpu.index}
count {gpu.count}
name {gpu.name}
uuid {gpu.uuid}
serial [N/A]
driver_version {gpu.driver}
pci.bus_id {gpu.bus_id}
compute_cap {gpu.capability}
timestamp {now}
persistence_mode Enabled
compute_mode Default
pstate {gpu.pstate}
utilization.gpu {gpu.utilization} [%]
utilization.memory {gpu.memory_utilization} [%]
memory.total {gpu.memory_mib} [MiB]
memory.used {gpu.memory_used_mib} [MiB]
memory.free {gpu.memory_free_mib} [MiB]
memory.reserved 0 [MiB]
temperature.gpu {gpu.temperature}
temperature.memory N/A
power.draw {gpu.power_w:.2f} [W]
power.draw.instant {gpu.power_w:.2f} [W]
power.draw.average {gpu.power_w:.2f} [W]
power.limit {gpu.power_limit_w:.2f} [W]
power.default_limit {gpu.power_limit_w:.2f} [W]
power.min_limit 300.00 [W]
power.max_limit {gpu.power_limit_w:.2f} [W]
enforced.power.limit {gpu.power_limit_w:.2f} [W]
clocks.sm {gpu.sm_clock_mhz} [MHz]
clocks.gr {gpu.sm_clock_mhz} [MHz]
clocks.mem {gpu.memory_clock_mhz} [MHz]
clocks.max.sm {gpu.max_sm_clock_mhz} [MHz]
clocks.max.gr {gpu.max_sm_clock_mhz} [MHz]
clocks.max.mem {gpu.max_memory_clock_mhz} [MHz]
clocks_event_reasons.active {reasons}
clocks_throttle_reasons.active {reasons}
clocks_event_reasons.gpu_idle {gpu.idle_word}
clocks_event_reasons.sw_power_cap {on[sw_power_cap]}
clocks_event_reasons.hw_slowdown {on[hw_slowdown]}
clocks_event_reasons.sw_thermal_slowdown {on[sw_thermal_slowdown]}
clocks_event_reasons.hw_thermal_slowdown {on[hw_thermal_slowdown]}
clocks_event_reasons.hw_power_brake_slowdown {on[hw_power_brake_slowdown]}
pcie.link.gen.current {link}
pcie.link.gen.max 5
pcie.link.width.current 16
pcie.link.width.max 16
ecc.mode.current Enabled
ecc.errors.corrected.volatile.total 0
ecc.errors.uncorrected.volatile.total 0
fan.speed [N/A] [%]
mig.mode.current Disabled
vbios_version 98.02.2E.00.03
"""
"""The fields of ``--query-gpu``: name, value, and the unit in brackets where one is printed."""

_ALIASES = {
    "gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "clocks.current.sm": "clocks.sm",
    "clocks.current.memory": "clocks.mem", "clocks.current.graphics": "clocks.gr",
    "clocks.max.graphics": "clocks.max.gr", "clocks.max.memory": "clocks.max.mem",
}  # fmt: skip
_UNIT = re.compile(r"(.*) \[(%|MiB|W|MHz)\]")


def gpu_fields(gpu: Gpu) -> dict[str, tuple[str, str]]:
    """Return the fields of ``--query-gpu`` with value and unit."""
    text = _FIELDS.format(
        gpu=gpu,
        now=time.strftime("%Y/%m/%d %H:%M:%S.000", time.gmtime()),
        reasons=f"0x{gpu.reason_mask:016x}",
        on={name: gpu.active(name) for name in REASONS},
        link="1" if gpu.idle else "5",
    )
    rows: dict[str, tuple[str, str]] = {}
    for line in text.strip().splitlines():
        name, _, value = line.partition(" ")
        unit = _UNIT.fullmatch(value)
        rows[name] = (unit[1], unit[2]) if unit else (value, "")
    return {**rows, **{alias: rows[name] for alias, name in _ALIASES.items()}}


def app_fields(gpu: Gpu, app: App) -> dict[str, tuple[str, str]]:
    """Return the fields of ``--query-compute-apps`` with value and unit."""
    fields = {
        "pid": (str(app.pid), ""),
        "process_name": (process_name(app.pid), ""),
        "used_memory": (str(app.memory_mib), "MiB"),
        "gpu_uuid": (gpu.uuid, ""),
        "gpu_name": (gpu.name, ""),
        "gpu_bus_id": (gpu.bus_id, ""),
    }
    return {**fields, "name": fields["process_name"], "used_gpu_memory": fields["used_memory"]}


def remapped_rows(gpu: Gpu) -> dict[str, tuple[str, str]]:
    """Return the fields of ``--query-remapped-rows``; no memory of these GPUs was ever replaced."""
    zero = ("0", "")
    return {
        "gpu_bus_id": (gpu.bus_id, ""),
        "gpu_uuid": (gpu.uuid, ""),
        "remapped_rows.correctable": zero,
        "remapped_rows.uncorrectable": zero,
        "remapped_rows.pending": zero,
        "remapped_rows.failure": zero,
    }


def process_name(pid: int) -> str:
    """Return the program of a process, as its command line names it."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "[Not Found]"
    return os.fsdecode(words[0])
