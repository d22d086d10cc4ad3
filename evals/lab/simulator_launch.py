"""Turn effective settings into what the simulated engine runs by. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evals.lab.cost_model import Plan
from evals.lab.engine_facts import Model, Scenario, holds

_STATEFUL = frozenset({"conv", "linear_attention"})
"""Kinds of layers that keep a state of fixed size for each request."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Hold what one start of the engine runs by, derived once from its effective settings."""

    fields: Mapping[str, Any]
    """Effective settings as the front end holds them."""
    scheduler_fields: Mapping[str, Any]
    """The scheduler's copy: it fills in what the front end left open."""
    plan: Plan
    context_length: int
    pool_tokens: int
    max_running: int
    micro_batch: int
    """Requests one micro-batch may hold."""
    slots: int
    """Micro-batches that may be in flight."""
    weights_gib: float
    """Weights on each GPU."""
    kv_gib: float
    """The key-value pool on each GPU: what the static share of its memory leaves."""
    graph_gib: float
    """Memory of the captured graphs on each GPU; 0 when none were captured."""
    output_changed: bool
    irreproducible: float
    """Share of the answers that differ from run to run when others run beside them."""
    rank: str
    """What the scheduler's log lines carry behind the time; the first rank speaks for all."""
    schedulers: list[str]
    """The same for each scheduler that writes about its batches: one, or one a data-parallel worker."""
    accept_length: float = 1.0
    """Tokens a request gets from one step."""
    accepted: tuple[float, float] | None = None
    """Length and rate of accepted drafts, as decode lines tell them; None without speculative decoding."""
    hybrid: bool = False
    """Has the model layers that keep a state instead of a cache?"""
    prefill_only: bool = False
    """Does another server decode?"""

    @classmethod
    def of(cls, scenario: Scenario, fields: Mapping[str, Any]) -> Launch:
        """Derive it; the rules are those of the engine's scheduler and model runner."""
        stages, tensor = int(fields["pp_size"]), int(fields["tp_size"])
        context = int(fields["context_length"] or scenario.model.context_length)
        pool = min(scenario.model.kv_pool_tokens, fields["max_total_tokens"] or scenario.model.kv_pool_tokens)
        running = max_running_requests(fields, pool, context)
        micro = int(fields["pp_max_micro_batch_size"] or max(running // stages, 1))
        captured = [] if fields["disable_cuda_graph"] else list(fields["cuda_graph_bs"] or [])
        changes, drift = scenario.hazards.output_changes, scenario.hazards.irreproducible
        weights = scenario.model.weights_gib / stages / tensor
        static = scenario.hardware.memory_mib / 1024 * float(fields["mem_fraction_static"] or 0.8)
        workers = max(1, int(fields["dp_size"]))
        accept = scenario.cost.accept_length if fields["speculative_algorithm"] else 1.0
        drafts = max(1, int(fields["speculative_num_draft_tokens"] or 2) - 1)
        plan = Plan(
            workers=workers,
            stages=stages,
            tensor=tensor,
            depth=int(fields["pp_async_batch_depth"]) if stages > 1 else 0,
            graph_batch=max(captured, default=0),
            overlap=stages == 1 and not fields["disable_overlap_schedule"],
        )
        return cls(
            fields=fields,
            scheduler_fields={**fields, "pp_max_micro_batch_size": micro},
            plan=plan,
            context_length=context,
            pool_tokens=pool,
            max_running=running,
            micro_batch=micro if stages > 1 else running,
            slots=stages + plan.depth if stages > 1 else workers,
            weights_gib=weights,
            kv_gib=max(0.5, static - weights),
            graph_gib=scenario.cost.graph_gib if captured else 0.0,
            output_changed=changes is not None and holds(changes.when, fields),
            irreproducible=drift.fraction if drift is not None else 0.0,
            rank=ranks(fields)[0],
            schedulers=_schedulers(fields),
            accept_length=accept,
            accepted=(accept, (accept - 1) / drafts) if fields["speculative_algorithm"] else None,
            hybrid=hybrid_model(scenario.model),
            prefill_only=fields["disaggregation_mode"] == "prefill",
        )

    @property
    def graphs(self) -> bool:
        """Tell whether CUDA graphs are captured at start."""
        return self.plan.graph_batch > 0


def hybrid_model(model: Model) -> bool:
    """Tell whether a model has layers that keep a state instead of a cache."""
    return bool(_STATEFUL & set(model.config.get("layer_types") or ()))


def max_running_requests(fields: Mapping[str, Any], pool: int, context: int) -> int:
    """Return how many requests may run at once: an explicit limit is clamped silently, as the engine does."""
    estimate = max(min(int(pool / context * 512), 4096), 2048)
    asked = fields["max_running_requests"]
    if asked is None:
        return min(estimate, pool // 2)
    sharing = max(1, int(fields["dp_size"])) if fields["enable_dp_attention"] else 1
    return max(1, min(int(asked) // sharing, estimate))


def ranks(fields: Mapping[str, Any]) -> list[str]:
    """Return the log prefix of every rank, such as ``" PP0"``, ``" PP1 TP3"`` or ``" DP1 TP1"``."""
    stages, tensor = int(fields["pp_size"]), int(fields["tp_size"])
    workers = max(1, int(fields["dp_size"]))
    shared = bool(fields["enable_dp_attention"])
    outer = 1 if shared else workers
    return [
        (f" DP{part * workers // tensor if shared else worker}" if workers > 1 else "")
        + (f" PP{stage}" if stages > 1 else "")
        + (f" TP{part}" if tensor > 1 else "")
        for worker in range(outer)
        for stage in range(stages)
        for part in range(tensor)
    ]


def _schedulers(fields: Mapping[str, Any]) -> list[str]:
    """Return the prefix of the first rank of each data-parallel worker."""
    first: dict[str, str] = {}
    for name in ranks(fields):
        worker = name.split()[0] if int(fields["dp_size"]) > 1 else ""
        first.setdefault(worker, name)
    return list(first.values())
