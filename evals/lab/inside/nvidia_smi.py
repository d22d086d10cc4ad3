"""Answer `nvidia-smi` from the scenario's hardware and the simulated engine's state."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.lab.inside.control import Output
from evals.lab.inside.nvidia_report import Gpu, report, summary, topology

_OPTIONS_WITH_VALUE = (
    "-i",
    "--id",
    "-l",
    "--loop",
    "-lms",
    "--loop-ms",
    "-d",
    "--display",
    "-f",
    "--filename",
)
_SECTIONS = (
    "UTILIZATION",
    "TEMPERATURE",
    "POWER",
    "CLOCK",
    "PERFORMANCE",
    "ECC",
    "ROW_REMAPPER",
    "MEMORY",
    "PIDS",
)
_CHANGES = ("-pm", "-pl", "-lgc", "-rgc", "-lmc", "-rmc", "-r", "-ac", "-rac", "-mig", "-e", "-c", "-p")


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
clocks.max.mem 12481 [MHz]
clocks_event_reasons.active {reasons}
clocks_throttle_reasons.active {reasons}
clocks_event_reasons.gpu_idle {gpu.idle_word}
clocks_event_reasons.sw_power_cap Not Active
clocks_event_reasons.hw_slowdown Not Active
clocks_event_reasons.sw_thermal_slowdown Not Active
clocks_event_reasons.hw_thermal_slowdown Not Active
clocks_event_reasons.hw_power_brake_slowdown Not Active
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
        reasons="0x0000000000000001" if gpu.idle else "0x0000000000000000",
        link="1" if gpu.idle else "5",
    )
    rows: dict[str, tuple[str, str]] = {}
    for line in text.strip().splitlines():
        name, _, value = line.partition(" ")
        unit = _UNIT.fullmatch(value)
        rows[name] = (unit[1], unit[2]) if unit else (value, "")
    return {**rows, **{alias: rows[name] for alias, name in _ALIASES.items()}}


@dataclass(slots=True)
class NvidiaSmi:
    """Answer for the scenario's GPUs; power, load and memory come from the engine's state file."""

    hardware: Mapping[str, Any]
    state_file: Path

    async def run(self, argv: list[str], output: Output) -> int:
        """Run one command line and return its exit code."""
        if argv and argv[0] == "topo":
            output.out(topology(self.gpus(), argv[1:]))
            return 0
        options = _options(argv)
        gpus = self._chosen(options, output)
        if not gpus:
            return 6
        if any(name in options for name in _CHANGES):
            return _change(options, gpus, output)
        if (
            loop := options.get("-l")
            or options.get("--loop")
            or options.get("-lms")
            or options.get("--loop-ms")
        ):
            return await self._loop(options, float(loop) / (1000 if "ms" in "".join(options) else 1), output)
        return self._once(options, gpus, output)

    def gpus(self) -> list[Gpu]:
        """Return the GPUs as they are now."""
        state = self._state()
        live = {row["index"]: row for row in state.get("gpus", ())}
        hardware = self.hardware
        return [Gpu.of(i, hardware, live.get(i), state.get("pid", 0)) for i in range(int(hardware["count"]))]

    def _state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads(self.state_file.read_text())
        except (OSError, ValueError):
            return {}
        alive = isinstance(state.get("pid"), int) and Path(f"/proc/{state['pid']}").exists()
        return state if alive and state.get("phase") != "stopped" else {}

    def _chosen(self, options: Mapping[str, str], output: Output) -> list[Gpu]:
        gpus = self.gpus()
        wanted = options.get("-i") or options.get("--id")
        if not wanted:
            return gpus
        chosen = [g for g in gpus if {str(g.index), g.uuid, g.bus_id} & set(wanted.split(","))]
        if not chosen:
            output.out("No devices were found\n")
        return chosen

    async def _loop(self, options: Mapping[str, str], every: float, output: Output) -> int:
        import asyncio

        first = True
        while True:
            once = dict(options)
            for name in ("--format",) if not first else ():
                once[name] = once.get(name, "csv") + ",noheader"
            self._once(once, self._chosen(options, output), output)
            await output.flush()
            await asyncio.sleep(max(every, 0.05))
            first = False

    def _once(self, options: Mapping[str, str], gpus: list[Gpu], output: Output) -> int:
        if "-L" in options or "--list-gpus" in options:
            output.out("".join(f"GPU {g.index}: {g.name} (UUID: {g.uuid})\n" for g in gpus))
            return 0
        for name, rows in (
            ("--query-gpu", [gpu_fields(gpu) for gpu in gpus]),
            ("--query-compute-apps", [_app_fields(gpu) for gpu in gpus if gpu.pid]),
            ("--query-remapped-rows", [_remapped(gpu) for gpu in gpus]),
        ):
            if name in options:
                known = (
                    gpu_fields(gpus[0])
                    if name == "--query-gpu"
                    else {**_app_fields(gpus[0]), **_remapped(gpus[0])}
                )
                return _csv(options[name], options.get("--format", ""), rows, known, output)
        if "-q" in options or "--query" in options:
            sections = (options.get("-d") or options.get("--display") or "").upper().split(",")
            output.out(report(gpus, [s for s in sections if s] or list(_SECTIONS)))
            return 0
        unknown = [
            name for name in options if name not in _OPTIONS_WITH_VALUE and not name.startswith("--format")
        ]
        if unknown:
            output.out("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n")
            return 2
        output.out(summary(gpus, _process_name))
        return 0


def _options(argv: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not equals and (name in _OPTIONS_WITH_VALUE or name in _CHANGES) and words:
            value = words.pop(0)
        options[name] = value
    return options


def _change(options: Mapping[str, str], gpus: list[Gpu], output: Output) -> int:
    """Answer settings as a driver does that already has them, or to a person without the right."""
    if "-pm" in options or ("-pl" in options and float(options["-pl"]) == gpus[0].power_limit_w):
        for gpu in gpus:
            what = (
                "Persistence mode is already Enabled"
                if "-pm" in options
                else (f"Power limit was already set to {gpu.power_limit_w:.2f} W")
            )
            output.out(f"{what} for GPU {gpu.bus_id}.\n")
        output.out("All done.\n")
        return 0
    output.out(
        f"Unable to change the setting for GPU {gpus[0].bus_id}: Insufficient Permissions\n"
        "Terminating early.\n"
    )
    return 4


def _csv(
    wanted: str,
    form: str,
    rows: list[dict[str, tuple[str, str]]],
    known: Mapping[str, tuple[str, str]],
    output: Output,
) -> int:
    names = [name.strip() for name in wanted.split(",")]
    flags = [part.strip() for part in form.split(",")]
    if "csv" not in flags:
        output.out("Error: --format= must be specified, e.g. --format=csv\n")
        return 2
    for name in names:
        if name not in known:
            output.out(f'Field "{name}" is not a valid field to query.\n\n')
            return 2
    if "noheader" not in flags:
        heads = [f"{n} [{known[n][1]}]" if known[n][1] and "%" not in known[n][1] else n for n in names]
        heads = [f"{h} [%]" if known[n][1] == "%" else h for h, n in zip(heads, names, strict=True)]
        output.out(", ".join(heads) + "\n")
    for row in rows:
        values = [
            row[n][0] if "nounits" in flags or not row[n][1] else f"{row[n][0]} {row[n][1]}" for n in names
        ]
        output.out(", ".join(values) + "\n")
    return 0


def _app_fields(gpu: Gpu) -> dict[str, tuple[str, str]]:
    fields = {
        "pid": (str(gpu.pid), ""),
        "process_name": (_process_name(gpu.pid), ""),
        "used_memory": (str(max(gpu.memory_used_mib - 4, 0)), "MiB"),
        "gpu_uuid": (gpu.uuid, ""),
        "gpu_name": (gpu.name, ""),
        "gpu_bus_id": (gpu.bus_id, ""),
    }
    return {**fields, "name": fields["process_name"], "used_gpu_memory": fields["used_memory"]}


def _remapped(gpu: Gpu) -> dict[str, tuple[str, str]]:
    zero = ("0", "")
    return {
        "gpu_bus_id": (gpu.bus_id, ""),
        "gpu_uuid": (gpu.uuid, ""),
        "remapped_rows.correctable": zero,
        "remapped_rows.uncorrectable": zero,
        "remapped_rows.pending": zero,
        "remapped_rows.failure": zero,
    }


def _process_name(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "[Not Found]"
    return os.fsdecode(words[0])
