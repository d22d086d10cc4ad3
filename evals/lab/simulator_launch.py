"""Turn effective settings into what the simulated engine runs by. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evals.lab.cost_model import Plan
from evals.lab.engine_facts import Scenario, holds


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
        plan = Plan(
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
            slots=stages + plan.depth if stages > 1 else 1,
            weights_gib=weights,
            kv_gib=max(0.5, static - weights),
            graph_gib=scenario.cost.graph_gib if captured else 0.0,
            output_changed=changes is not None and holds(changes.when, fields),
            irreproducible=drift.fraction if drift is not None else 0.0,
            rank=ranks(fields)[0],
        )

    @property
    def graphs(self) -> bool:
        """Tell whether CUDA graphs are captured at start."""
        return self.plan.graph_batch > 0


def max_running_requests(fields: Mapping[str, Any], pool: int, context: int) -> int:
    """Return how many requests may run at once: an explicit limit is clamped silently, as the engine does."""
    estimate = max(min(int(pool / context * 512), 4096), 2048)
    asked = fields["max_running_requests"]
    if asked is None:
        return min(estimate, pool // 2)
    return max(1, min(int(asked) // max(1, int(fields["dp_size"])), estimate))


def ranks(fields: Mapping[str, Any]) -> list[str]:
    """Return the log prefix of every rank, such as ``" PP0"`` or ``" PP1 TP3"``."""
    stages, tensor = int(fields["pp_size"]), int(fields["tp_size"])
    return [
        (f" PP{stage}" if stages > 1 else "") + (f" TP{part}" if tensor > 1 else "")
        for stage in range(stages)
        for part in range(tensor)
    ]
