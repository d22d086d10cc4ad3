"""Ask an engine what it says of itself: effective settings, memory, and how many steps ran by CUDA graph."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tools import bounded_http
from tools.contract import Host
from tools.host import ConnectError
from tools.process import effective_settings

_PASSES = "sglang:cuda_graph_passes_total"
_VOLATILE = frozenset({"random_seed", "last_gen_throughput", "status"})


@dataclass(frozen=True, slots=True)
class Observation:
    """Hold what a server answered; empty where it did not."""

    settings: dict[str, Any] = field(default_factory=dict)
    """The scheduler's copy of the settings, without secrets."""
    graph_memory_gib: float | None = None
    passes: dict[str, float] = field(default_factory=dict)
    """Decode steps since the start by how they ran: ``decode_cuda_graph``, ``decode_none``."""

    @property
    def fingerprint(self) -> str:
        """Return a digest of the settings in force; empty when the server did not tell them."""
        plain = {
            name: value
            for name, value in self.settings.items()
            if name not in _VOLATILE and not isinstance(value, float | dict | list)
        }
        text = json.dumps(plain, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest() if plain else ""


async def observe(host: Host, port: int) -> Observation:
    """Return what the server on a port of the host says now; a server that is silent gives an empty one."""
    import httpx2

    try:
        local = await host.forward(port)
    except ConnectError:
        return Observation()
    url = f"http://127.0.0.1:{local}"
    async with httpx2.AsyncClient(base_url=url, timeout=5.0, trust_env=False) as client:
        info: object = None
        for path in ("/server_info", "/get_server_info"):
            info = _parsed(await _get(client, path))
            if info is not None:
                break
        metrics = await _get(client, "/metrics")
    settings = effective_settings(info)
    return Observation(settings, _graph_memory(settings), _passes(metrics))


async def _get(client: Any, path: str) -> str:
    import httpx2

    try:
        response = await bounded_http.get(client, path)
    except httpx2.HTTPError:
        return ""
    return response.text if response.status_code == 200 else ""


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _graph_memory(settings: dict[str, Any]) -> float | None:
    usage = settings.get("memory_usage")
    value = usage.get("graph") if isinstance(usage, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _passes(text: str) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    counts: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == _PASSES and (mode := sample.labels.get("mode", "")).startswith("decode"):
                    counts[mode] = counts.get(mode, 0.0) + sample.value
    except ValueError:
        return {}
    return counts
