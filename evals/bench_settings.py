"""Measure how long it takes to explain settings of SGLang 0.5.11, and what crosses the wire for it.

Each round is a process of its own, on one core: seconds of processor, without what is imported.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import pkgutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agent.config import Settings
from evals.bench_grep import engine_process
from evals.lab.package import fetch
from evals.loopback_sshd import loopback_sshd
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolSettings
from tools.redact import redact

NAME = "disable_cuda_graph"
ONE_COLD_S = 0.5
ONE_WARM_S = 0.02
ALL_S = 5.0
REMOTE_MB = 2.0
_ROUNDS = 5
_LINE = "--model-path /models/x --pp-size 8 --disable-cuda-graph"


def main() -> int:
    """Print one line; return 1 when a limit is passed."""
    package = fetch("sglang", "0.5.11", Settings().cache_dir) / "sglang"
    if sys.argv[1:] == ["--round"]:
        sys.stdout.write(json.dumps(_round(package)))
        return 0
    rounds = [_in_a_process() for _ in range(_ROUNDS)]
    cold, warm, every = (statistics.median(one[key] for one in rounds) for key in ("cold", "warm", "all"))
    received, trips = asyncio.run(_remote(package))
    sys.stdout.write(
        f"settings {NAME}: cold {cold:.2f} s (limit {ONE_COLD_S}), warm {warm * 1000:.0f} ms "
        f"(limit {ONE_WARM_S * 1000:.0f}); all {rounds[0]['count']:.0f} settings {every:.2f} s "
        f"(limit {ALL_S:.0f}); cold over SSH {received / 1e6:.2f} MB in {trips} commands "
        f"(limit {REMOTE_MB:.0f})\n"
    )
    late = cold > ONE_COLD_S or warm > ONE_WARM_S or every > ALL_S
    return int(late or received > REMOTE_MB * 1e6)


def _in_a_process() -> dict[str, float]:
    core = min(os.sched_getaffinity(0))
    words = ["taskset", "-c", str(core), sys.executable, "-m", "evals.bench_settings", "--round"]
    done = subprocess.run(words, capture_output=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _round(package: Path) -> dict[str, float]:
    """Explain one setting, the same again, and then all; nothing of the package was read before."""
    from tools.settings import host_facts, view
    from tools.settings.subject import named, of_source, words_of

    _import_all()
    facts = host_facts.of_words(["gpu_arch=sm120"], host_facts.read_local, host_facts.list_local)
    began = time.process_time()
    subject = of_source(package, words_of(_LINE), {}, facts)
    view.settings_view(subject, [named(subject, NAME)])
    cold = time.process_time()
    view.settings_view(subject, [named(subject, NAME)])
    warm = time.process_time()
    subject.compare()
    every = view.settings_view(subject)
    done = time.process_time()
    return {"cold": cold - began, "warm": warm - cold, "all": done - warm + cold - began, "count": len(every)}


def _import_all() -> None:
    """Import what is imported where it is used, else: imports do not count."""
    for package in ("tools.settings", "tools.interpreter", "tools.interpreter.library"):
        folder = importlib.import_module(package).__path__
        for module in pkgutil.iter_modules(folder, f"{package}."):
            if not module.name.endswith("_program"):  # what runs on hosts
                importlib.import_module(module.name)


async def _remote(package: Path) -> tuple[int, int]:
    """Return the bytes that come in, and the commands, for one setting of a process behind SSH."""
    from tools.host import connect
    from tools.settings import answer
    from tools.settings.tool import Args

    with tempfile.TemporaryDirectory() as name, engine_process(package) as pid:
        async with loopback_sshd(Path(name)) as server:
            host = await connect(server.target(), Settings(state_dir=Path(name) / "state"))
            store = ArtifactStore(Path(name) / "store")
            ctx = ToolContext("t1", {host.name: host}, store, redact, ToolSettings(), {})
            view = await answer.full_view(ctx, Args(names=[NAME], pid=pid))
            await host.close()
    place = next(part for part in view.values() if isinstance(part, dict) and "bytes_received" in part)
    return int(place["bytes_received"]), int(place["commands"])


if __name__ == "__main__":
    raise SystemExit(main())
