"""Watch a server under load: its own metrics, and the power and utilisation of the GPUs."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tools import bounded_http
from tools.contract import Host

if TYPE_CHECKING:
    from httpx2 import AsyncClient

RUNNING = ("sglang:num_running_reqs", "vllm:num_requests_running", "llamacpp:requests_processing")
QUEUED = ("sglang:num_queue_reqs", "vllm:num_requests_waiting", "llamacpp:requests_deferred")
_GAUGES = (
    *RUNNING,
    *QUEUED,
    "sglang:is_cuda_graph",
    "sglang:gen_throughput",
    "sglang:token_usage",
    "sglang:cache_hit_rate",
    "sglang:num_retracted_reqs",
    "sglang:utilization",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "vllm:num_preemptions_total",
)
# One bounded loop a round trip: cheaper than a command a sample, and it ends by itself when we are gone.
_SAMPLE = """i=0
while [ $i -lt "$1" ]; do
  [ $i -eq 0 ] || sleep 0.5 2>/dev/null || sleep 1
  nvidia-smi --query-gpu=index,power.draw,utilization.gpu --format=csv,noheader,nounits || exit 3
  echo --
  i=$((i+1))
done"""
_PER_TRIP = 2


def parse_metrics(text: str) -> dict[str, float] | None:
    """Return the known gauges; None when the text is not a Prometheus exposition.

    Ranks of one replica report the same requests (largest value holds), replicas report their own (sum).
    """
    from prometheus_client.parser import text_string_to_metric_families

    # A server has hundreds of other series, and is asked several times a second.
    known = "".join(f"{row}\n" for row in text.split("\n") if row.startswith(_GAUGES))
    groups: dict[str, dict[str, float]] = {}
    try:
        for family in text_string_to_metric_families(known or text):
            for sample in family.samples:
                if sample.name in _GAUGES:
                    replica = sample.labels.get("dp_rank") or sample.labels.get("engine") or ""
                    values = groups.setdefault(sample.name, {})
                    values[replica] = max(values.get(replica, sample.value), sample.value)
    except ValueError:
        return None
    additive = {*RUNNING, *QUEUED, "sglang:gen_throughput", "vllm:num_preemptions_total"}
    return {
        name: round(sum(values.values()) if name in additive else max(values.values()), 4)
        for name, values in groups.items()
    }


async def metrics(client: AsyncClient) -> dict[str, float] | None:
    """Return the server's known gauges now, or None when it has no readable ``/metrics``."""
    import httpx2

    try:
        response = await bounded_http.get(client, "/metrics", timeout=5.0)
    except httpx2.HTTPError:
        return None
    return parse_metrics(response.text) if response.status_code == 200 else None


def in_flight(values: Mapping[str, float]) -> tuple[float, float] | None:
    """Return requests running and queued, or None when the server does not tell."""
    running = [values[name] for name in RUNNING if name in values]
    queued = [values[name] for name in QUEUED if name in values]
    return (sum(running), sum(queued)) if running or queued else None


@dataclass(slots=True)
class Watch:
    """Collect samples until stopped; times are monotonic seconds here."""

    host: Host
    client: AsyncClient
    gpu: list[tuple[float, list[tuple[float | None, float | None]]]] = field(default_factory=list)
    server: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    gpu_note: str | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Watch]:
        """Sample while the body runs; wait for the last round trip at its end."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_gpu())
            group.create_task(self._watch_server())
            try:
                yield self
            finally:
                self._stop.set()

    async def _watch_gpu(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            argv = ["sh", "-c", _SAMPLE, "leadline-gpu", str(_PER_TRIP)]
            result = await self.host.exec(argv, timeout_s=30.0, max_bytes=1 << 20)
            rounds = result.stdout.data.decode("utf-8", "replace").split("--\n")[:-1]
            if not rounds:
                said = result.stderr.data.decode("utf-8", "replace").strip().splitlines() or [result.outcome]
                self.gpu_note = f"no GPU samples: {said[-1][:160]}"
                return
            step = (time.monotonic() - began) / len(rounds)
            for number, text in enumerate(rounds):
                self.gpu.append((began + number * step, _gpu_rows(text)))

    async def _watch_server(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), 0.4)
                return
            at = time.monotonic()
            if values := await metrics(self.client):
                self.server.append((at, values))

    def gpu_between(self, start: float, end: float) -> dict[str, Any]:
        """Return power and utilisation of a run; its first moments, where load builds up, are left out."""
        start += min(0.3, (end - start) / 4)
        rows = [row for at, rows in self.gpu if start <= at <= end for row in rows]
        power = [watts for watts, _ in rows if watts is not None]
        use = [share for _, share in rows if share is not None]
        return {
            "power_w_mean": round(statistics.fmean(power), 1) if power else None,
            "power_w_max": max(power) if power else None,
            "utilization_mean": round(statistics.fmean(use), 1) if use else None,
            "samples": len(rows),
        }

    def server_between(self, start: float, end: float) -> dict[str, float]:
        """Return the gauges of the moment in a run when most requests were running (the latest such)."""
        seen = [(values, at) for at, values in self.server if start <= at <= end]

        def running(item: tuple[dict[str, float], float]) -> tuple[float, float]:
            busy = in_flight(item[0])
            return (busy[0] if busy else 0.0, item[1])

        return max(seen, key=running)[0] if seen else {}


def _gpu_rows(text: str) -> list[tuple[float | None, float | None]]:
    def number(cell: str) -> float | None:
        try:
            return float(cell)
        except ValueError:
            return None  # "[N/A]"

    cells = [line.split(",") for line in text.splitlines() if line.count(",") == 2]
    return [(number(row[1]), number(row[2])) for row in cells]
