"""Measure `grep` on the SGLang tree: what conditions cost, and the call against plain ``ssh host rg``."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.config import Settings
from evals.lab.package import fetch
from evals.loopback_sshd import LoopbackServer, loopback_sshd
from tools import grep
from tools.artifacts import ArtifactStore
from tools.contract import Host, ToolContext, ToolSettings
from tools.findings import Findings, contents_of
from tools.host import connect
from tools.process import load_process
from tools.redact import redact
from tools.search import Query, search

PATTERN = "disable_cuda_graph"
COLD_LIMIT_MS = 500.0
WARM_LIMIT_MS = 20.0
RATIO_LIMIT = 1.2
_ROUNDS = 9


@dataclass(frozen=True, slots=True)
class GrepCost:
    """Hold medians: what conditions add the first time and later, and both ways to search.

    The first time is what a first call takes over a later one, where the search is the same and everything
    else is kept: files are brought, parsed, stored and judged.
    """

    matches: int
    cold_ms: float
    warm_ms: float
    grep_ms: float
    ssh_ms: float

    @property
    def ratio(self) -> float:
        """Return the time of a call over that of the same search through ssh."""
        return self.grep_ms / self.ssh_ms

    @property
    def ok(self) -> bool:
        """Tell whether all three are within their limits."""
        cheap = self.cold_ms <= COLD_LIMIT_MS and self.warm_ms <= WARM_LIMIT_MS
        return cheap and self.ratio <= RATIO_LIMIT


@contextlib.contextmanager
def engine_process(package: Path) -> Iterator[int]:
    """Run a process that looks like the engine of the founding case; it only waits."""
    code = "import time; time.sleep(600)"
    flags = ["-m", "sglang.launch_server", "--pp-size", "8", "--disable-cuda-graph", "--port", "9"]
    environment = {"PYTHONPATH": str(package.parent), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen([sys.executable, "-S", "-c", code, *flags], env=environment, cwd="/")
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def _kept_ssh(server: LoopbackServer) -> AsyncIterator[list[str]]:
    """Give the words of an ``ssh`` that goes through a connection that is open already."""
    control = server.root / "control"
    words = ["ssh", "-F", "none", "-p", str(server.port), "-i", str(server.root / "client_key")]
    words += ["-o", f"UserKnownHostsFile={server.root / 'known_hosts'}", "-o", "BatchMode=yes"]
    words += ["-o", f"ControlPath={control}"]
    user = server.target().user or "root"
    master = await asyncio.create_subprocess_exec(
        *words, "-M", "-N", f"{user}@127.0.0.1", stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            if control.exists():
                break
            await asyncio.sleep(0.05)
        yield [*words, f"{user}@127.0.0.1"]
    finally:
        master.terminate()
        await master.wait()


async def _call(host: Host, store: ArtifactStore, cache: dict[str, Any], pid: int) -> float:
    ctx = _context(host, store, cache)
    began = time.monotonic()
    view = await grep.run(ctx, grep.Args(pattern=PATTERN, pid=pid))
    cache["matches"] = view["matches"]
    return (time.monotonic() - began) * 1000


async def _conditions(
    host: Host, store: ArtifactStore, cache: dict[str, Any], pid: int, package: Path
) -> float:
    """Return what is spent on conditions after the search came back, with everything in the cache."""
    ctx = _context(host, store, cache)
    process = await load_process(ctx, host, pid)
    found = await search(host, Query(str(package), PATTERN), list(contents_of(ctx, host)))
    findings = Findings(ctx, host, process, found, datetime.now(UTC))
    listing = findings.keep(b"", "listing")
    began = time.monotonic()
    findings.results(findings.hits(), listing)
    return (time.monotonic() - began) * 1000


def _context(host: Host, store: ArtifactStore, cache: dict[str, Any]) -> ToolContext:
    return ToolContext("t1", {host.name: host}, store, redact, ToolSettings(), cache)


async def _plain(words: list[str], package: Path) -> float:
    command = f"exec rg --json --no-config --no-ignore --hidden -e {PATTERN} -- {package}"
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(*words, command, stdout=subprocess.PIPE)
    await process.communicate()
    return (time.monotonic() - began) * 1000


async def _fresh_cache(host: Host, store: ArtifactStore, pid: int) -> dict[str, Any]:
    """Return a cache that knows the process and nothing else."""
    ctx = _context(host, store, {})
    await load_process(ctx, host, pid)
    return ctx.cache


async def measure() -> GrepCost:
    """Measure in turns, so that what else the machine does falls on both sides."""
    package = fetch("sglang", "0.5.11", Settings().cache_dir) / "sglang"
    cold: list[float] = []
    warm: list[float] = []
    calls: list[float] = []
    plain: list[float] = []
    with tempfile.TemporaryDirectory() as name, engine_process(package) as pid:
        async with loopback_sshd(Path(name)) as server, _kept_ssh(server) as words:
            host = await connect(server.target(), Settings(state_dir=Path(name) / "state"))
            store = ArtifactStore(Path(name) / "store")
            for round_ in range(_ROUNDS):
                if round_ % 2 == 0:
                    cache = await _fresh_cache(host, store, pid)
                    cold.append(await _call(host, store, cache, pid))
                calls.append(await _call(host, store, cache, pid))
                plain.append(await _plain(words, package))
                warm.append(await _conditions(host, store, cache, pid, package))
            await host.close()
    middle = statistics.median
    return GrepCost(
        matches=cache["matches"],
        cold_ms=middle(cold) - middle(calls),
        warm_ms=middle(warm),
        grep_ms=middle(calls),
        ssh_ms=middle(plain),
    )


def main() -> int:
    """Print one line; return 1 when a limit is passed."""
    cost = asyncio.run(measure())
    sys.stdout.write(
        f"grep {PATTERN}: {cost.matches} matches, conditions add {cost.cold_ms:.0f} ms cold "
        f"(limit {COLD_LIMIT_MS:.0f}), {cost.warm_ms:.0f} ms warm (limit {WARM_LIMIT_MS:.0f}); "
        f"{cost.grep_ms:.0f} ms against {cost.ssh_ms:.0f} ms of ssh rg: {cost.ratio:.2f} x "
        f"(limit {RATIO_LIMIT})\n"
    )
    return 0 if cost.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
