"""The lab's cost model gives the calibration table of the founding case at the table's precision."""

from __future__ import annotations

import pytest

from evals.lab.cost_model import Plan, duty, gpu_ms, stage_ms, token_ms, tokens_per_second, watts
from evals.lab.engine_facts import Cost
from evals.lab.engine_facts import Scenario as Facts
from evals.lab.scenario import load

COST = Cost()


def cost_of(name: str) -> Cost:
    """Return the constants of a scenario."""
    return Facts.from_json(load(name).facts(package_dir="/x/sglang")).cost


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


@pytest.mark.parametrize(
    ("scenario", "tensor", "eager", "graphs"),
    [("deepseek-tp8-rtx", 8, 4.36, 10.26), ("qwen72-a100", 2, 44.1, 64.9)],
)
def test_published_pairs_of_eager_and_graph_steps(
    scenario: str, tensor: int, eager: float, graphs: float
) -> None:
    cost = cost_of(scenario)
    speeds = [
        tokens_per_second(cost, Plan(tensor=tensor, graph_batch=captured, overlap=True), [1])
        for captured in (0, 512)
    ]
    assert speeds == [pytest.approx(eager, rel=0.02), pytest.approx(graphs, rel=0.02)]


def test_scheduling_that_does_not_overlap_adds_to_every_step() -> None:
    cost = cost_of("lfm2-5090")
    apart, over = (tokens_per_second(cost, Plan(graph_batch=24, overlap=on), [1]) for on in (False, True))
    assert [apart, over] == [pytest.approx(364.3, rel=0.01), pytest.approx(498.5, rel=0.01)]
    assert 1000 / apart - 1000 / over == pytest.approx(0.74, abs=0.01)


def test_a_small_model_is_four_times_slower_above_its_captured_range() -> None:
    cost = cost_of("qwen3-l40")
    plan_ = Plan(graph_batch=32, overlap=True)
    assert token_ms(cost, plan_, [67]) / token_ms(cost, plan_, [23]) == pytest.approx(4, rel=0.05)


def test_a_long_context_slows_decode_and_not_prefill() -> None:
    cost = cost_of("kimi-k25-tp8-long")
    plan_ = Plan(tensor=8, graph_batch=512, overlap=True)
    short, long = token_ms(cost, plan_, [1]), token_ms(cost, plan_, [1], [100_000])
    assert 1000 / short == pytest.approx(65, rel=0.02)
    assert 30 < 1000 / long < 36
    whole = 100_000 / cost.prefill_tokens_per_s + 200 * long / 1000
    assert 200 / whole == pytest.approx(9.0, rel=0.02)


def test_data_parallel_workers_step_side_by_side() -> None:
    cost = cost_of("deepseek-h200-eagle")
    alone = Plan(tensor=8, graph_batch=512, overlap=True)
    eight = Plan(tensor=8, graph_batch=512, overlap=True, workers=8)
    assert token_ms(cost, eight, [6] * 8) == token_ms(cost, alone, [6])
    assert duty(cost, eight, [6] * 8) == pytest.approx(duty(cost, alone, [6]))


def test_the_first_run_and_the_next_are_as_published() -> None:
    cost = cost_of("deepseek-h200")
    speed = tokens_per_second(cost, Plan(tensor=8, graph_batch=512, overlap=True), [32])
    assert speed == pytest.approx(1185, rel=0.02)
    assert speed / 1.955 == pytest.approx(606, rel=0.02)
