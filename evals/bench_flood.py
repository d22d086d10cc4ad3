"""Measure how much memory a flood of command output costs: 100 MB over SSH must stay under 64 MB."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from evals.loopback_sshd import loopback_sshd
from tools.contract import Host
from tools.host import HostSettings, connect

LIMIT_MB = 64.0
_OUTPUT = 100_000_000


@dataclass(frozen=True, slots=True)
class Flood:
    """Hold what one flood cost."""

    name: str
    read_mb: float
    growth_mb: float
    seconds: float

    @property
    def ok(self) -> bool:
        """Tell whether the growth is within the limit."""
        return self.growth_mb < LIMIT_MB


@dataclass(frozen=True, slots=True)
class _NoFiles:
    ssh_config: Path | None = None
    known_hosts: Path = Path("/nonexistent")


async def measure(*, whole: bool = True) -> list[Flood]:
    """Run the floods against OpenSSH on loopback: stopped at the default bound, and many whole outputs."""
    settings: HostSettings = _NoFiles()
    floods = []
    with tempfile.TemporaryDirectory() as folder:
        async with loopback_sshd(Path(folder)) as server:
            host = await connect(server.target(), settings)
            await host.exec(["true"])
            for name, source in (
                ("stopped past 4 MiB", "head -c {n} /dev/zero"),
                ("short lines", "yes flood | head -c {n}"),
                ("both streams", "head -c {n} /dev/zero | tee /dev/stderr"),
            ):
                before = _reset_peak_mb()
                result = await host.exec(["sh", "-c", source.format(n=_OUTPUT)], timeout_s=60)
                read = result.stdout.total + result.stderr.total
                floods.append(Flood(name, read / 1e6, _peak_mb() - before, result.duration_s))
            if whole:
                floods.append(await _whole(host))
            await host.close()
    return floods


async def _whole(host: Host) -> Flood:
    before, read, seconds = _reset_peak_mb(), 0, 0.0
    for _ in range(25):
        result = await host.exec(["head", "-c", str(_OUTPUT // 25), "/dev/zero"])
        read += len(result.stdout.data)
        seconds += result.duration_s
    return Flood("25 outputs kept whole", read / 1e6, _peak_mb() - before, seconds)


def _status_mb(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def _reset_peak_mb() -> float:
    """Forget the peak so far where the kernel lets us, and return what is in use now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status_mb("VmRSS")


def _peak_mb() -> float:
    return _status_mb("VmHWM")


def main() -> int:
    """Print one line a flood; return 1 when one grew past the limit."""
    floods = asyncio.run(measure())
    for flood in floods:
        sys.stdout.write(
            f"flood, {flood.name}: {flood.read_mb:.0f} of 100 MB read in {flood.seconds:.1f} s, "
            f"memory +{flood.growth_mb:.1f} MB (limit {LIMIT_MB:.0f})\n"
        )
    return 0 if all(flood.ok for flood in floods) else 1


if __name__ == "__main__":
    raise SystemExit(main())
