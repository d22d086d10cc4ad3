"""Parse what ``facts.sh`` sends: its records, and the system's own formats inside them."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_RC = re.compile(r"\n?rc=(\d+)\n?\Z")
_DENIED = re.compile(r"permission denied|not permitted|insufficient permissions|access denied", re.IGNORECASE)
_HINT = "You are currently not seeing messages from other users"
_LIMITS = {"Max open files": "open_files", "Max locked memory": "locked_memory", "Max processes": "processes"}
_A_DATE_MS = 10**12
"""What is less counts from when the host booted: busybox knows no finer time."""


@dataclass(slots=True)
class Gathered:
    """Hold one run of the script: raw records, exit codes, probe times in ms, and what the host lacks."""

    records: dict[str, bytes] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    times: dict[str, tuple[int, int]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def text(self, name: str) -> str:
        """Return a record as text, or an empty one."""
        return self.records.get(name, b"").decode("utf-8", "replace")

    def of(self, kind: str) -> list[str]:
        """Return the subjects of the records named ``kind:SUBJECT``."""
        return [name.partition(":")[2] for name in self.records if name.startswith(f"{kind}:")]

    def first_ms(self) -> int | None:
        """Return when the first probe began by the host's clock, since 1970; None where it only counts."""
        first = min((start for start, _ in self.times.values()), default=0)
        return first if first > _A_DATE_MS else None

    def milliseconds(self) -> dict[str, int]:
        """Return how long each probe took."""
        return {name: end - start for name, (start, end) in self.times.items()}


def _decoded(chunks: list[bytes]) -> bytes:
    whole = b"".join(chunks)
    if b" " in chunks[0]:  # od: hex bytes between blanks; a line of base64 has none
        return bytes.fromhex(whole.decode("ascii", "replace"))
    return base64.b64decode(whole, validate=True)


def decode(output: bytes) -> Gathered:
    """Return what the script sent; lines of anyone else (a login message) are left out."""
    out = Gathered()
    chunks: dict[str, list[bytes]] = {}
    for line in output.split(b"\n"):
        match line.split(b" ", 2):
            case [b"LL1", name, chunk]:
                chunks.setdefault(name.decode("utf-8", "replace"), []).append(chunk)
            case [b"LL2", probe, numbers] if re.fullmatch(rb"\d+ \d+", numbers):
                start, _, end = numbers.partition(b" ")
                out.times[probe.decode()] = (int(start), int(end))
            case [b"LL0", b"missing", what]:
                out.missing.append(what.decode("utf-8", "replace"))
    for record, parts in chunks.items():
        try:
            data = _decoded(parts)
        except (binascii.Error, ValueError):
            out.missing.append(f"{record} (its record was damaged)")
            continue
        text = data[-16:].decode("utf-8", "replace")
        if code := _RC.search(text):
            out.codes[record] = int(code.group(1))
            data = data[: len(data) - len(code.group(0).encode())]
        out.records[record] = data
    return out


def denied(text: str) -> bool:
    """Tell whether a text says that a right is missing."""
    return _HINT in text or _DENIED.search(text) is not None


def pairs(text: str) -> dict[str, str]:
    """Return ``name=value`` lines as a mapping; the last of a name wins."""
    rows = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value for name, _, value in rows}


def os_view(text: str) -> dict[str, Any]:
    """Return the system's name, kernel, host name, uptime, load and the account used."""
    values = pairs(text)
    out: dict[str, Any] = {
        "name": values.get("PRETTY_NAME", "").strip('"'),
        "kernel": values.get("uname", ""),
        "hostname": values.get("hostname", ""),
        "account": re.sub(r"(\d+)\(([^)]+)\)", r"\2", values.get("id", "")),
    }
    if uptime := values.get("uptime", "").split():
        out["uptime_s"] = int(float(uptime[0]))
    if load := values.get("loadavg", "").split():
        out["load"] = [float(number) for number in load[:3]]
    if "container" in values:
        out["container"] = values["container"]
    return out


def clock_offset(said: float, began: float, ended: float) -> float:
    """Return how far another clock is from ours at least, by what it said between two moments; 0 inside."""
    return min(said - began, 0.0) or max(said - ended, 0.0)


def boot_time(text: str) -> int | None:
    """Return when the host booted, in seconds since 1970."""
    found = re.search(r"^(?:/proc/stat:)?btime (\d+)$", text, re.MULTILINE)
    return int(found.group(1)) if found else None


def hardware_view(text: str) -> dict[str, Any]:
    """Return processors, memory, swap and governors."""
    values = pairs(text)
    sizes = {name: int(kb) for name, kb in re.findall(r"^(\w+): +(\d+)", text, re.MULTILINE)}
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    out: dict[str, Any] = {"cpus": int(values.get("cpus") or 0)}
    if model:
        out["cpu_model"] = model.group(1)
    for name, key in (
        ("MemTotal", "memory_gib"),
        ("MemAvailable", "memory_available_gib"),
        ("SwapTotal", "swap_gib"),
        ("SwapFree", "swap_free_gib"),
    ):
        if name in sizes:
            out[key] = round(sizes[name] / (1 << 20), 1)
    governors = re.findall(r"^governor= *(\d+) (\S+)$", text, re.MULTILINE)
    if governors:
        out["governors"] = {name: int(count) for count, name in governors}
    return out


def _number(text: str) -> float | int | None:
    found = re.match(r"-?\d+(\.\d+)?", text)
    if not found:
        return None  # "[N/A]", "[Not Supported]"
    return float(text[: found.end()]) if found.group(1) else int(text[: found.end()])


_GPU_FIELDS = {
    "index": "index",
    "name": "name",
    "memory.total": "memory_mib",
    "power.draw": "power_w",
    "power.limit": "power_limit_w",
    "utilization.gpu": "utilization",
    "clocks.sm": "sm_clock_mhz",
    "clocks.current.sm": "sm_clock_mhz",
    "pstate": "pstate",
    "temperature.gpu": "temperature_c",
    "driver_version": "driver",
}


def gpu_rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of ``nvidia-smi --format=csv`` by our names; what a card does not tell is None."""
    lines = [line for line in text.splitlines() if line.strip()]
    start = next((at for at, line in enumerate(lines) if line.startswith("index,")), None)
    if start is None:
        return []
    names = [_GPU_FIELDS.get(cell.split(" [")[0].strip()) for cell in lines[start].split(",")]
    rows = []
    for line in lines[start + 1 :]:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(names):
            continue
        row: dict[str, Any] = {}
        for name, cell in zip(names, cells, strict=True):
            if name is not None:
                row[name] = cell if name in ("name", "pstate", "driver") else _number(cell)
        rows.append(row)
    return rows


def disk_rows(text: str) -> list[dict[str, Any]]:
    """Return the file systems of ``df -P``, each once."""
    rows: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        cells = line.split()
        if len(cells) >= 6 and cells[1].isdigit() and cells[3].isdigit():
            rows[cells[5]] = {
                "mount": cells[5],
                "device": cells[0],
                "size_gib": round(int(cells[1]) / (1 << 20), 1),
                "free_gib": round(int(cells[3]) / (1 << 20), 1),
                "used": cells[4],
            }
    return list(rows.values())


def _address(word: str) -> str:
    raw = bytes.fromhex(word)
    # The kernel prints each 32-bit word of an address in the host's own (little-endian) byte order.
    swapped = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return str(ipaddress.ip_address(swapped))


def port_rows(text: str) -> list[dict[str, Any]]:
    """Return listening TCP ports of ``/proc/net/tcp`` and ``tcp6``, in order."""
    seen: set[tuple[int, str]] = set()
    for line in text.splitlines():
        cells = line.split()
        if len(cells) > 3 and cells[3] == "0A" and ":" in cells[1]:
            word, _, port = cells[1].partition(":")
            seen.add((int(port, 16), _address(word)))
    return [{"port": port, "address": address} for port, address in sorted(seen)]


def limit_values(text: str) -> dict[str, str]:
    """Return the soft limits that matter to an engine."""
    out = {}
    for line in text.splitlines():
        for name, key in _LIMITS.items():
            if line.startswith(name):
                out[key] = line[len(name) :].split()[0]
    return out


def driver_view(header: str, hardware: str, gpus: list[dict[str, Any]]) -> dict[str, str | None]:
    """Return the versions of the NVIDIA driver and of the CUDA that it brings."""
    cuda = re.search(r"CUDA Version: *([\d.]+)", header)
    smi = re.search(r"Driver Version: *([\d.]+)", header)
    kernel = re.search(r"NVRM version:.*?\s(\d+\.\d[\d.]*)\s", hardware)
    known = [row["driver"] for row in gpus if row.get("driver")] or [m.group(1) for m in (smi, kernel) if m]
    return {"nvidia": known[0] if known else None, "cuda": cuda.group(1) if cuda else None}


def cgroup_unit(lines: list[str]) -> str | None:
    """Return the service that owns a process by its cgroup, innermost first."""
    for line in lines:
        for part in reversed(line.split("/")):
            if part.endswith(".service") and not part.startswith("user@"):
                return part
    return None


_CONTAINER = re.compile(r"(docker|libpod|crio|cri-containerd|nerdctl)-([0-9a-f]{12,64})")
_IN_FOLDER = re.compile(r"/(docker|kubepods|podman)\b.*?([0-9a-f]{64})")
_RUNTIMES = {
    "libpod": "podman",
    "crio": "kubernetes",
    "cri-containerd": "kubernetes",
    "kubepods": "kubernetes",
}


def started_by(lines: list[str]) -> dict[str, str]:
    """Say by its cgroup what started a process that belongs to no service: a container, or a person."""
    for line in lines:
        if found := _CONTAINER.search(line) or _IN_FOLDER.search(line):
            runtime = "kubernetes" if "kubepods" in line else _RUNTIMES.get(found[1], found[1])
            return {"kind": "container", "runtime": runtime, "id": found[2]}
    for line in lines:
        if found := re.search(r"/(session-\w+|tmux-\S+|run-\S+)\.scope", line):
            return {"kind": "hand", "by": found[1]}
    return {"kind": "hand", "by": "by hand"}


def below_ours(status: str) -> bool | None:
    """Tell whether a process is in a PID namespace below the reader's; None where the kernel does not say."""
    found = re.search(r"^NSpid:\s*(\d+(?:\s+\d+)*)\s*$", status, re.MULTILINE)
    return len(found[1].split()) > 1 if found else None


def show_values(text: str) -> Mapping[str, str]:
    """Return the properties of ``systemctl show``; a repeated one keeps all its lines."""
    out: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and re.fullmatch(r"\w+", name):
            out[name] = f"{out[name]}\n{value}" if name in out else value
    return out
