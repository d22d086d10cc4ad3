"""Render the metrics of a described service under its engine's own names. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evals.lab.described_engine import Engine

Rows = list[tuple[str, str, float]]


def _vllm(engine: Engine) -> Rows:
    live, counts = engine.machine.live, engine.counts
    return [
        ("vllm:num_requests_running", "gauge", live["running"]),
        ("vllm:num_requests_waiting", "gauge", live["waiting"]),
        ("vllm:kv_cache_usage_perc", "gauge", live["kv_usage"]),
        ("vllm:num_preemptions_total", "counter", 0),
        ("vllm:prompt_tokens_total", "counter", counts.prompted),
        ("vllm:generation_tokens_total", "counter", counts.generated),
        ("vllm:request_success_total", "counter", counts.finished),
    ]


def _sglang(engine: Engine) -> Rows:
    live, counts = engine.machine.live, engine.counts
    return [
        ("sglang:num_running_reqs", "gauge", live["running"]),
        ("sglang:num_queue_reqs", "gauge", live["waiting"]),
        ("sglang:gen_throughput", "gauge", live.get("tokens_s", 0.0) if engine.busy else 0.0),
        ("sglang:token_usage", "gauge", live["kv_usage"]),
        ("sglang:prompt_tokens_total", "counter", counts.prompted),
        ("sglang:generation_tokens_total", "counter", counts.generated),
        ("sglang:num_requests_total", "counter", counts.finished),
    ]


def _llamacpp(engine: Engine) -> Rows:
    live, counts = engine.machine.live, engine.counts
    return [
        ("llamacpp:prompt_tokens_total", "counter", counts.prompted),
        ("llamacpp:tokens_predicted_total", "counter", counts.generated),
        ("llamacpp:n_decode_total", "counter", counts.steps),
        ("llamacpp:predicted_tokens_seconds", "gauge", live.get("tokens_s", 0.0)),
        ("llamacpp:requests_processing", "gauge", live["running"]),
        ("llamacpp:requests_deferred", "gauge", live["waiting"]),
    ]


_STYLES = {"vllm": _vllm, "sglang": _sglang, "llamacpp": _llamacpp}


def render(api: str, engine: Engine, model: str) -> str:
    """Return ``/metrics`` in Prometheus text; the rules' own series replace or follow the engine's."""
    effect: Mapping[str, Any] = engine.refresh()
    more = {name: float(engine.machine.number(value)) for name, value in effect["metrics"].items()}
    rows = [(name, kind, more.pop(name, value)) for name, kind, value in _STYLES[api](engine)]
    rows += [(name, "counter" if name.endswith("_total") else "gauge", value) for name, value in more.items()]
    quoted = model.replace("\\", "\\\\").replace('"', '\\"')
    labels = "" if api == "llamacpp" else f'engine="0",model_name="{quoted}"'
    lines = []
    for series, kind, value in rows:
        name, _, own = series.rstrip("}").partition("{")
        held = ",".join(filter(None, (labels, own)))
        lines += [f"# HELP {name} As the engine names it.", f"# TYPE {name} {kind}"]
        lines.append(f"{name}{{{held}}} {float(value)}" if held else f"{name} {float(value)}")
    return "\n".join(lines) + "\n"
