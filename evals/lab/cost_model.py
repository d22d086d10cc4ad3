"""Compute the step time and watts of a pipeline-parallel engine: the cost model the lab is calibrated by.

An estimate that reproduces published figures, not a measurement. Terms, per pipeline stage and in
milliseconds: G is the GPU time of a micro-batch, P the scheduler's work, L the time to launch its kernels one
by one. A stage takes P + max(L, G) eager, max(P, L, G) eager when the output is relayed asynchronously, G +
hop with CUDA graphs. Without asynchronous depth the output is relayed after the stage's own launch, which
costs a slot twice the stage time. Without a pipeline P is hidden behind the GPU's work when scheduling
overlaps it, and adds to every step when not. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals.lab.engine_facts import Cost


@dataclass(frozen=True, slots=True)
class Plan:
    """Say how the engine runs: what of its effective settings the cost depends on."""

    stages: int = 1
    """Pipeline stages (``pp_size``)."""
    tensor: int = 1
    """GPUs of one stage (``tp_size``)."""
    depth: int = 0
    """``pp_async_batch_depth``."""
    graph_batch: int = 0
    """Largest micro-batch that runs by CUDA graph; 0 when none was captured."""
    overlap: bool = False
    """Does scheduling overlap the GPU's work? Only without a pipeline."""
    workers: int = 1
    """Schedulers that share the work (``dp_size``), each with a micro-batch of its own."""

    def graphs(self, batch: int) -> bool:
        """Tell whether a micro-batch of this size runs by CUDA graph."""
        return batch <= self.graph_batch


def gpu_ms(cost: Cost, plan: Plan, batch: int, held: int = 0) -> float:
    """Return G: GPU milliseconds of one stage for ``batch`` requests with ``held`` tokens in the cache."""
    read = 1.0 - ((cost.routed_ratio - 1.0) / cost.routed_ratio) ** batch
    gigabytes = cost.shared_gb + cost.routed_gb * cost.routed_ratio * read
    weights = gigabytes / cost.bandwidth_tb_s / plan.stages / plan.tensor
    layers = cost.layers / plan.stages
    collectives = 2 * layers * cost.collective_ms if plan.tensor > 1 else 0.0
    return weights + collectives + cost.context_ms * held / 1000


def stage_ms(cost: Cost, plan: Plan, batch: int, held: int = 0) -> float:
    """Return s: milliseconds one stage takes for a micro-batch."""
    gpu = gpu_ms(cost, plan, batch, held)
    if plan.graphs(batch):
        bare = plan.stages == 1 and not plan.overlap
        return gpu + cost.hop_ms + (cost.schedule_ms if bare else 0.0)
    launch = cost.launch_ms * cost.launch_stages / plan.stages
    if plan.depth > 0 or plan.overlap:
        return max(cost.schedule_ms, launch, gpu)
    return cost.schedule_ms + max(launch, gpu)


def token_ms(cost: Cost, plan: Plan, batches: Sequence[int], held: Sequence[int] = ()) -> float:
    """Return the milliseconds until every micro-batch in flight has made one step.

    ``batches`` holds the number of requests of each micro-batch in flight, ``held`` their cached tokens.
    """
    tokens = held or [0] * len(batches)
    steps = [stage_ms(cost, plan, batch, own) for batch, own in zip(batches, tokens, strict=True)]
    if plan.workers > 1:
        return max(steps)
    if len(steps) == 1:
        extra = plan.depth > 0 and not plan.graphs(batches[0])
        return (plan.stages + extra) * steps[0]
    slots = sum(steps) * (1 if plan.depth > 0 else 2)
    return max((plan.stages + plan.depth) * max(steps), slots)


def duty(cost: Cost, plan: Plan, batches: Sequence[int], held: Sequence[int] = ()) -> float:
    """Return the share of time, 0 to 1, in which a GPU's kernels run."""
    if not batches:
        return 0.0
    tokens = held or [0] * len(batches)
    busy = sum(gpu_ms(cost, plan, batch, own) for batch, own in zip(batches, tokens, strict=True))
    return min(1.0, busy / plan.workers / token_ms(cost, plan, batches, held))


def watts(cost: Cost, idle_w: float, share: float) -> float:
    """Return the watts of one GPU whose kernels run for ``share`` of the time."""
    return idle_w + cost.active_w * share


def tokens_per_second(cost: Cost, plan: Plan, batches: Sequence[int]) -> float:
    """Return tokens a second of all requests together, noise left out."""
    return 1000.0 * sum(batches) / token_ms(cost, plan, batches) if batches else 0.0
