"""Measure `facts`: one command on the host, and its time against the slowest probe timed in the same run."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.config import Settings
from agent.errors import LeadlineError
from evals.lab import hosts
from evals.lab.sandbox import SandboxError
from evals.loopback_sshd import loopback_sshd
from tools import facts
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolSettings
from tools.execution import CommandHost
from tools.host import HostTarget, connect
from tools.redact import redact

LIMIT = 1.5
_ROUNDS = 7
_SCENARIO = "kimi-k26-pp8"


@dataclass(frozen=True, slots=True)
class FactsCost:
    """Hold the median round: the whole call, its slowest probe, and the commands it took."""

    host: str
    call_ms: float
    slowest_ms: float
    probe: str
    commands: int

    @property
    def ratio(self) -> float:
        """Return the call's time over its slowest probe's."""
        return self.call_ms / self.slowest_ms

    @property
    def ok(self) -> bool:
        """Tell whether one command was enough and the time is within the limit."""
        return self.commands == 1 and self.ratio <= LIMIT


@asynccontextmanager
async def _place(folder: Path) -> AsyncIterator[tuple[HostTarget, Settings]]:
    """Give a lab host; where no sandbox is to be had, a plain OpenSSH server on loopback."""
    settings = Settings(state_dir=folder / "state")
    try:
        lab = await asyncio.to_thread(hosts.up, _SCENARIO, settings)
    except (LeadlineError, SandboxError) as error:
        sys.stderr.write(f"no lab ({error}); measuring on loopback\n")
        async with loopback_sshd(folder) as server:
            yield server.target(), settings
        return
    try:
        yield lab.target(), settings
    finally:
        hosts.down(lab.id, settings)


async def _round(host: CommandHost, folder: Path) -> FactsCost:
    ctx = ToolContext("t1", {host.name: host}, ArtifactStore(folder / "store"), redact, ToolSettings())
    before, began = host.execs, time.monotonic()
    view = await facts.run(ctx, facts.Args())
    spent = (time.monotonic() - began) * 1000
    # "all" is the script itself; "services" is one probe: engine processes, then the units that own them.
    probes = {name: ms for name, ms in view["probe_ms"].items() if name != "all"}
    slowest = max(probes, key=lambda name: probes[name])
    return FactsCost(host.name, spent, probes[slowest], slowest, host.execs - before)


async def measure() -> FactsCost:
    """Return the round with the median ratio."""
    with tempfile.TemporaryDirectory() as name:
        async with _place(Path(name)) as (target, settings):
            host = await connect(target, settings)
            if not isinstance(host, CommandHost):
                raise TypeError(f"{host.name} does not count its commands")
            try:
                await _round(host, Path(name))  # opens the connection, fills the host's caches
                rounds = [await _round(host, Path(name)) for _ in range(_ROUNDS)]
            finally:
                await host.close()
    middle = statistics.median_low([cost.ratio for cost in rounds])
    return next(cost for cost in rounds if cost.ratio == middle)


def main() -> int:
    """Print one line; return 1 when the limit is passed."""
    cost = asyncio.run(measure())
    sys.stdout.write(
        f"facts on {cost.host}: {cost.commands} command, {cost.call_ms:.0f} ms, slowest probe {cost.probe} "
        f"{cost.slowest_ms:.0f} ms: {cost.ratio:.2f} x (limit {LIMIT})\n"
    )
    return 0 if cost.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
