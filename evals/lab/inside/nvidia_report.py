"""The longer outputs of the `nvidia-smi` stand-in: the table, ``-q``, and the topology."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
    SW Power Cap: Not Active
    HW Slowdown: Not Active
        HW Thermal Slowdown: Not Active
        HW Power Brake Slowdown: Not Active
    Sync Boost: Not Active
    SW Thermal Slowdown: Not Active
Clocks Event Reasons Counters
    SW Power Capping: 0 us
    Sync Boost: 0 us
    SW Thermal Slowdown: 0 us
    HW Thermal Slowdown: 0 us
    HW Power Braking: 0 us
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
    Memory: 12481 MHz
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
    pid: int

    @classmethod
    def of(cls, index: int, hardware: Mapping[str, Any], live: Mapping[str, Any] | None, pid: int) -> Gpu:
        """Build a GPU from the scenario's hardware and the engine's state; idle without the latter."""
        row = live or {}
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
            memory_used_mib=int(row.get("memory_used_mib", 2)),
            sm_clock_mhz=int(row.get("sm_clock_mhz", hardware["idle_sm_clock_mhz"])),
            memory_clock_mhz=405 if pstate == "P8" else 12481,
            pstate=pstate,
            pid=pid if live else 0,
        )

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
        return f"\n    Process ID: {self.pid}" if self.pid else ": None"

    @property
    def temperature(self) -> int:
        """Return degrees Celsius, following the power drawn."""
        return 28 + int(self.power_w / 14)


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
    busy = [gpu for gpu in gpus if gpu.pid]
    for gpu in busy:
        name = process_name(gpu.pid)
        row = f" {gpu.index:>3}   N/A  N/A {gpu.pid:>16}      C   {name:<34} {gpu.memory_used_mib:>7}MiB"
        lines.append(f"| {row:<87} |")
    if not busy:
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
    text = _SECTIONS.get(section.strip(), "").format(gpu=gpu, limit=f"{gpu.power_limit_w:.2f} W")
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
