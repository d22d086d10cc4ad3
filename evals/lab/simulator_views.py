"""Answer the simulated engine's questions about itself: server, model, metrics. Standard library only."""

from __future__ import annotations

import time
from typing import Any

from evals.lab.engine_facts import Scenario
from evals.lab.simulator_engine import Engine

MARK = "simulated by the lab of leadline"
"""Stands wherever somebody asks the engine what it is: nobody may take its figures for measured ones."""


class Views:
    """Render an engine's state in the shapes of the real server's answers."""

    def __init__(self, scenario: Scenario, engine: Engine, version: str) -> None:
        self._scenario = scenario
        self._engine = engine
        self._fields = engine.launch.fields
        self._version = version

    @property
    def served_name(self) -> str:
        """Return the name requests call the model by."""
        return str(self._fields["served_model_name"])

    def server_info(self) -> dict[str, Any]:
        """Return ``/server_info``: the front end's arguments, the scheduler's copy in ``internal_states``."""
        launch, stats = self._engine.launch, self._engine.stats
        internal = {
            **launch.scheduler_fields,
            "last_gen_throughput": round(stats.last_throughput, 4),
            "memory_usage": {
                "weight": round(launch.weights_gib, 2),
                "kvcache": round(launch.kv_gib, 2),
                "token_capacity": launch.pool_tokens,
                "graph": round(launch.graph_gib, 2),
            },
            "effective_max_running_requests_per_dp": launch.max_running,
        }
        return {
            **self._fields,
            "status": "ready",
            "max_total_num_tokens": launch.pool_tokens,
            "max_req_input_len": launch.context_length - 6,
            "internal_states": [internal for _ in range(max(1, int(self._fields["dp_size"])))],
            "version": self._version,
            "simulated": MARK,
        }

    def model_info(self) -> dict[str, Any]:
        """Return ``/model_info``."""
        config = self._scenario.model.config
        return {
            "model_path": self._fields["model_path"],
            "tokenizer_path": self._fields["tokenizer_path"],
            "is_generation": True,
            "preferred_sampling_params": self._fields["preferred_sampling_params"],
            "weight_version": self._fields["weight_version"],
            "has_image_understanding": "vision_config" in config,
            "has_audio_understanding": "audio_config" in config,
            "model_type": config.get("model_type"),
            "architectures": config.get("architectures"),
            "simulated": MARK,
        }

    def models(self) -> dict[str, Any]:
        """Return ``/v1/models``."""
        card = {
            "id": self.served_name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": self.served_name,
            "parent": None,
            "max_model_len": self._engine.launch.context_length,
        }
        return {"object": "list", "data": [card]}

    def metrics(self) -> str:
        """Return ``/metrics`` in Prometheus text; one rank speaks for all.

        The gauge ``is_cuda_graph`` stays 0, as in 0.5.11, whose scheduler exports it and never sets it; the
        counter ``cuda_graph_passes_total`` tells the two kinds of step apart.
        """
        engine, stats = self._engine, self._engine.stats
        used, pool = engine.used_tokens, engine.launch.pool_tokens
        busy = engine.running > 0
        rate = stats.hit_tokens / stats.asked_tokens if stats.asked_tokens else 0.0
        gauges: list[tuple[str, str, float]] = [
            ("num_running_reqs", "The number of running requests.", engine.running),
            ("num_queue_reqs", "The number of requests in the waiting queue.", len(engine.waiting)),
            (
                "gen_throughput",
                "The generation throughput (token/s).",
                stats.last_throughput if busy else 0.0,
            ),
            ("cache_hit_rate", "The prefix cache hit rate.", rate),
            ("token_usage", "The token usage.", used / pool),
            ("num_used_tokens", "The number of used tokens.", used),
            ("kv_available_tokens", "Number of free token slots in the KV cache pool.", pool - used),
            ("utilization", "The utilization.", -1.0),
            ("is_cuda_graph", "Whether the batch is using CUDA graph.", 0.0),
            ("max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", pool),
            ("context_len", "Maximum context length.", engine.launch.context_length),
        ]
        lines: list[str] = []
        for name, text, value in gauges:
            lines += self._metric(name, text, "gauge", [("", value)])
        eager = stats.decode_steps - stats.graph_steps
        passes = [
            ('mode="decode_cuda_graph"', float(stats.graph_steps)),
            ('mode="decode_none"', float(eager)),
            ('mode="prefill_none"', float(stats.prefills)),
        ]
        lines += self._metric(
            "cuda_graph_passes_total", "Forward passes categorized by CUDA graph.", "counter", passes
        )
        for name, text, value in (
            ("prompt_tokens_total", "Number of prefill tokens processed.", stats.prompted),
            ("generation_tokens_total", "Number of generation tokens processed.", stats.generated),
            ("num_requests_total", "Number of requests processed.", stats.finished),
        ):
            lines += self._metric(name, text, "counter", [("", float(value))])
        return "\n".join(lines) + "\n"

    def _metric(self, name: str, text: str, kind: str, values: list[tuple[str, float]]) -> list[str]:
        model = self.served_name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        labels = f'engine_type="unified",model_name="{model}",moe_ep_rank="0",pp_rank="0",tp_rank="0"'
        lines = [f"# HELP sglang:{name} {text}", f"# TYPE sglang:{name} {kind}"]
        for extra, value in values:
            lines.append(f"sglang:{name}{{{labels}{',' if extra else ''}{extra}}} {float(value)}")
        return lines
