"""The longer outputs of the `nvidia-smi` stand-in: the table, ``-q``, and the topology."""

from __future__ import annotations

import time
from collections.abc import Callable

from evals.lab.inside.nvidia_gpu import REASONS, Gpu

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the interconnect between NUMA nodes
  NODE = Connection traversing PCIe as well as PCIe host bridges within a NUMA node
"""


_SECTIONS = {
    "PERFORMANCE": """
Performance State: {gpu.pstate}
Clocks Event Reasons
    Idle: {gpu.idle_word}
    Applications Clocks Setting: Not Active
    SW Power Cap: {on[sw_power_cap]}
    HW Slowdown: {on[hw_slowdown]}
        HW Thermal Slowdown: {on[hw_thermal_slowdown]}
        HW Power Brake Slowdown: {on[hw_power_brake_slowdown]}
    Sync Boost: Not Active
    SW Thermal Slowdown: {on[sw_thermal_slowdown]}
Clocks Event Reasons Counters
    SW Power Capping: {us[sw_power_cap]} us
    Sync Boost: 0 us
    SW Thermal Slowdown: {us[sw_thermal_slowdown]} us
    HW Thermal Slowdown: {us[hw_thermal_slowdown]} us
    HW Power Braking: {us[hw_power_brake_slowdown]} us
""",
    "POWER": """
GPU Power Readings
    Average Power Draw: {gpu.power_w:.2f} W
    Instantaneous Power Draw: {gpu.power_w:.2f} W
    Current Power Limit: {limit}
    Requested Power Limit: {limit}
    Default Power Limit: {limit}
    Min Power Limit: 300.00 W
    Max Power Limit: {limit}
""",
    "CLOCK": """
Clocks
    Graphics: {gpu.sm_clock_mhz} MHz
    SM: {gpu.sm_clock_mhz} MHz
    Memory: {gpu.memory_clock_mhz} MHz
Max Clocks
    SM: {gpu.max_sm_clock_mhz} MHz
    Memory: {gpu.max_memory_clock_mhz} MHz
""",
    "TEMPERATURE": """
Temperature
    GPU Current Temp: {gpu.temperature} C
    GPU T.Limit Temp: {gpu.temperature_left} C
""",
    "UTILIZATION": """
Utilization
    GPU: {gpu.utilization} %
    Memory: {gpu.memory_utilization} %
""",
    "MEMORY": """
FB Memory Usage
    Total: {gpu.memory_mib} MiB
    Used: {gpu.memory_used_mib} MiB
    Free: {gpu.memory_free_mib} MiB
""",
    "ECC": """
ECC Mode
    Current: Enabled
    Pending: Enabled
ECC Errors
    Volatile
        SRAM Correctable: 0
        SRAM Uncorrectable Parity: 0
        DRAM Correctable: 0
        DRAM Uncorrectable: 0
""",
    "ROW_REMAPPER": """
Remapped Rows
    Correctable Error: 0
    Uncorrectable Error: 0
    Pending: No
    Remapping Failure Occurred: No
""",
    "PIDS": """
Processes{gpu.process_row}
""",
}
"""The sections of ``-q``, before a GPU's values are put in."""


def summary(gpus: list[Gpu], process_name: Callable[[int], str]) -> str:
    """Return the table that is printed without options."""
    head = gpus[0]
    bar = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
    lines = [
        time.strftime("%a %b %e %H:%M:%S %Y", time.gmtime()),
        "+" + "-" * 89 + "+",
        f"| NVIDIA-SMI {head.driver:<22} Driver Version: {head.driver:<14} CUDA Version: {head.cuda:<8} |",
        bar,
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|" + "=" * 41 + "+" + "=" * 24 + "+" + "=" * 22 + "|",
    ]
    for gpu in gpus:
        name = gpu.name if len(gpu.name) <= 26 else gpu.name[:23] + "..."
        power = f"{gpu.power_w:.0f}W / {gpu.power_limit_w:>4.0f}W"
        memory = f"{gpu.memory_used_mib}MiB / {gpu.memory_mib:>6}MiB"
        lines += [
            f"| {gpu.index:>3}  {name:<26}     On  | {gpu.bus_id:<16}   Off |                    0 |",
            f"| N/A {gpu.temperature:>4}C    {gpu.pstate:<4} {power:>22} | {memory:>22} |"
            f" {gpu.utilization:>7}%      Default |",
            bar,
        ]
    lines += ["", "+" + "-" * 89 + "+", f"| {'Processes:':<87} |"]
    lines.append(
        f"| {' GPU   GI   CI              PID   Type   Process name                       GPU Memory':<87} |"
    )
    lines.append("|" + "=" * 89 + "|")
    apps = [(gpu.index, app) for gpu in gpus for app in gpu.apps]
    for index, app in apps:
        name = process_name(app.pid)
        row = f" {index:>3}   N/A  N/A {app.pid:>16}      C   {name:<34} {app.memory_mib:>7}MiB"
        lines.append(f"| {row:<87} |")
    if not apps:
        lines.append(f"| {' No running processes found':<87} |")
    lines.append("+" + "-" * 89 + "+")
    return "\n".join(lines) + "\n"


def report(gpus: list[Gpu], sections: list[str]) -> str:
    """Return the long form of ``-q``, cut to the sections asked for."""
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        f"Timestamp                                 : {time.strftime('%a %b %e %H:%M:%S %Y', time.gmtime())}",
        f"Driver Version                            : {gpus[0].driver}",
        f"CUDA Version                              : {gpus[0].cuda}",
        "",
        f"Attached GPUs                             : {len(gpus)}",
    ]
    for gpu in gpus:
        lines.append(f"GPU {gpu.bus_id}")
        lines.append(f"    {'Product Name':<38}: {gpu.name}")
        for section in sections:
            lines += [_row(name, value) for name, value in _section(gpu, section)]
        lines.append("")
    return "\n".join(lines)


def _row(name: str, value: str) -> str:
    depth = len(name) - len(name.lstrip())
    return f"    {name:<38}: {value}" if value else f"    {' ' * depth}{name.lstrip()}"


def _section(gpu: Gpu, section: str) -> list[tuple[str, str]]:
    """Return the names, indented as they are printed, and values of a section; a title has no value."""
    text = _SECTIONS.get(section.strip(), "").format(
        gpu=gpu,
        limit=f"{gpu.power_limit_w:.2f} W",
        on={name: gpu.active(name) for name in REASONS},
        us={name: gpu.counted_us.get(name, 0) for name in REASONS},
    )
    split = (line.partition(": ") for line in text.splitlines() if line)
    return [(name, value) for name, _, value in split]


def topology(gpus: list[Gpu], argv: list[str]) -> str:
    """Return ``topo -m`` (half of the GPUs on each NUMA node) or ``topo -p2p``."""
    names = [f"GPU{gpu.index}" for gpu in gpus]
    half = (len(gpus) + 1) // 2

    def link(a: int, b: int) -> str:
        if a == b:
            return " X "
        if argv and argv[0].startswith("-p2p"):
            return "OK"
        return "NODE" if a // half == b // half else "SYS"

    extra = [] if argv and argv[0].startswith("-p2p") else ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    lines = ["\t" + "\t".join([*names, *extra])]
    for a, name in enumerate(names):
        cells = [link(a, b) for b in range(len(gpus))]
        node = a // half
        cells += [f"{node * 48}-{node * 48 + 47}", str(node), "N/A"] if extra else []
        lines.append(name + "\t" + "\t".join(cells))
    return "\n".join(lines) + "\n" + (_LEGEND if extra else "")
