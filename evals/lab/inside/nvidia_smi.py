"""Answer `nvidia-smi` from the scenario's hardware and the simulated engine's state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.lab import tenants
from evals.lab.inside.control import Output
from evals.lab.inside.nvidia_fields import app_fields, gpu_fields, process_name, remapped_rows
from evals.lab.inside.nvidia_gpu import App, Gpu
from evals.lab.inside.nvidia_report import report, summary, topology

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


_LOST = 15
"""Exit code when a GPU has fallen off the bus."""


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
        pid = state.get("pid", 0)
        others = tenants.present(hardware)
        return [
            Gpu.of(i, hardware, live.get(i), pid, [one for one in others if one.gpu == i])
            for i in range(int(hardware["count"]))
        ]

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
        lost = [gpu for gpu in gpus if gpu.index in (self.hardware.get("lost") or ())]
        listed = "-L" in options or "--list-gpus" in options
        if listed:
            whole = (g for g in gpus if g not in lost)
            output.out("".join(f"GPU {g.index}: {g.name} (UUID: {g.uuid})\n" for g in whole))
        if lost:
            output.out(f"Unable to determine the device handle for GPU {lost[0].bus_id[4:]}: Unknown Error\n")
            return _LOST
        if listed:
            return 0
        for name, rows in (
            ("--query-gpu", [gpu_fields(gpu) for gpu in gpus]),
            ("--query-compute-apps", [app_fields(gpu, app) for gpu in gpus for app in gpu.apps]),
            ("--query-remapped-rows", [remapped_rows(gpu) for gpu in gpus]),
        ):
            if name in options:
                known = (
                    gpu_fields(gpus[0])
                    if name == "--query-gpu"
                    else {**app_fields(gpus[0], App(0, 0)), **remapped_rows(gpus[0])}
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
        output.out(summary(gpus, process_name))
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
