"""The lab's cost model gives the calibration table of the founding case at the table's precision."""

from __future__ import annotations

import pytest

from evals.lab.cost_model import Plan, duty, gpu_ms, stage_ms, token_ms, tokens_per_second, watts
from evals.lab.engine_facts import Cost

COST = Cost()
APART, TOGETHER = [1] * 8, [8]


def plan(*, graphs: bool = False, depth: int = 0) -> Plan:
    return Plan(stages=8, depth=depth, graph_batch=256 if graphs else 0)


@pytest.mark.parametrize(
    ("graphs", "depth", "one", "apart", "together"),
    [
        (False, 0, 24.4, 97.7, 95.6),
        (False, 1, 32.5, 260, 101),
        (True, 0, 44.3, 177, 112),
        (True, 1, 44.3, 315, 112),
    ],
)
def test_calibration_table(graphs: bool, depth: int, one: float, apart: float, together: float) -> None:
    how = plan(graphs=graphs, depth=depth)
    for batches, expected in (([1], one), (APART, apart), (TOGETHER, together)):
        digits = 1 if expected < 100 else 0
        assert round(tokens_per_second(COST, how, batches), digits) == expected


@pytest.mark.parametrize(
    ("how", "batches", "expected"),
    [
        (plan(), [1], 86),
        (plan(), APART, 151),
        (plan(), TOGETHER, 100),
        (plan(graphs=True, depth=1), APART, 342),
        (plan(graphs=True, depth=1), TOGETHER, 106),
    ],
)
def test_watts_of_the_table(how: Plan, batches: list[int], expected: int) -> None:
    assert round(watts(COST, 65.0, duty(COST, how, batches))) == expected


def test_an_idle_engine_draws_idle_watts() -> None:
    assert watts(COST, 65.0, duty(COST, plan(), [])) == 65.0
    assert tokens_per_second(COST, plan(), []) == 0.0


def test_one_token_reads_shared_and_routed_weights_once() -> None:
    assert gpu_ms(COST, Plan(), 1) == pytest.approx(32.7 / 1.56)


def test_micro_batches_of_different_size_wait_for_the_slowest() -> None:
    how = plan()
    mixed = token_ms(COST, how, [8, 1])
    assert mixed == pytest.approx(8 * stage_ms(COST, how, 8))
    assert mixed > token_ms(COST, how, [1, 1])


def test_a_batch_above_the_largest_graph_runs_eager() -> None:
    how = Plan(stages=8, graph_batch=4)
    assert stage_ms(COST, how, 4) == pytest.approx(gpu_ms(COST, how, 4) + COST.hop_ms)
    assert stage_ms(COST, how, 8) == pytest.approx(COST.schedule_ms + gpu_ms(COST, how, 8))


def test_tensor_parallelism_is_near_the_published_single_stream() -> None:
    how = Plan(tensor=8, graph_batch=512, overlap=True)
    assert tokens_per_second(COST, how, [1]) == pytest.approx(91.5, rel=0.05)
