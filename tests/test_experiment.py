from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from agent.outputs import Outputs
from agent.state import Change, Comparison, Level, Measurement
from agent.verdicts import compare, compare_level, effective_name, mechanism, overall

NOW = datetime(2026, 5, 1, tzinfo=UTC)
STEADY = (0.99, 1.0, 1.01)


def level(speed: float, noise: tuple[float, ...] = STEADY, at: int = 1, errors: int = 0) -> Level:
    return Level(concurrency=at, throughput=[speed * factor for factor in noise], errors=errors)


def change(
    setting: str = "--disable-cuda-graph",
    mechanism: str = "is_cuda_graph 0 -> 1: cuda graphs",
    cautions: tuple[str, ...] = (),
) -> Change:
    return Change(
        id="C1",
        host="here",
        unit="engine.service",
        setting=setting,
        from_value="true",
        reason="E1",
        to_value=None,
        hypotheses=["H1"],
        predicted_effect="1.8 x",
        mechanism=mechanism,
        rollback="restore",
        cautions=list(cautions),
    )


def measured(speeds: dict[int, float], **observed: Any) -> Measurement:
    levels = [level(speed, at=at) for at, speed in speeds.items()]
    return Measurement(artifact="t9.1", taken_at=NOW, seed=1, levels=levels, observed=observed)


def judged(
    before: dict[int, float],
    after: dict[int, float],
    *,
    graph: tuple[float, float] = (0.0, 1.0),
    outputs: tuple[dict[str, str], dict[str, str]] = ({"a": "1", "b": "2"}, {"a": "1", "b": "2"}),
    again: tuple[dict[str, str], dict[str, str]] = ({}, {}),
    **more: Any,
) -> Comparison:
    seen = [{"sglang:is_cuda_graph": value} for value in graph]
    sides = (Outputs(outputs[0], again[0]), Outputs(outputs[1], again[1]))
    return compare(change(**more), measured(before, **seen[0]), measured(after, **seen[1]), sides)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (level(24.4), level(44.3), "improved"),
        (level(44.3), level(24.4), "worse"),
        (level(24.4), level(24.5), "no_effect"),
        (level(24.4, (1.0, 1.0, 1.0)), level(24.9, (1.0, 1.0, 1.0)), "no_effect"),
        (level(24.4, (0.6, 1.0, 1.5)), level(26.0, (0.6, 1.0, 1.5)), "inconclusive"),
        (level(24.4, (1.0,)), level(44.3, (1.0,)), "inconclusive"),
        (level(24.4), level(44.3, errors=1), "inconclusive"),
        (level(24.4), Level(concurrency=1, throughput=[]), "inconclusive"),
        (level(24.4), level(0.0), "inconclusive"),
    ],
)
def test_a_level_is_judged_by_its_noise(before: Level, after: Level, verdict: str) -> None:
    row = compare_level(before, after)
    assert row.verdict == verdict, row
    assert row.why or verdict in ("improved", "worse")


def test_the_interval_is_that_of_student_on_logarithms() -> None:
    before = Level(concurrency=1, throughput=[math.exp(x) for x in (1.0, 1.1, 1.2)])
    after = Level(concurrency=1, throughput=[math.exp(x) for x in (2.0, 2.2, 2.4)])
    row = compare_level(before, after)
    # Means differ by 1.1; variances 0.01 and 0.04 pool to 0.025, with four degrees of freedom.
    half = 4.604 * math.sqrt(0.025 * 2 / 3)
    assert row.ratio == pytest.approx(math.exp(1.1), rel=1e-4)
    assert row.low == pytest.approx(math.exp(1.1 - half), rel=1e-3)
    assert row.high == pytest.approx(math.exp(1.1 + half), rel=1e-3)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    source = random.Random(7)
    held = false_alarms = 0
    for _ in range(400):
        sides = [
            Level(concurrency=1, throughput=[100 * math.exp(source.gauss(0, 0.03)) for _ in range(3)])
            for _ in range(2)
        ]
        row = compare_level(*sides)
        assert row.low is not None and row.high is not None
        held += row.low <= 1 <= row.high
        false_alarms += row.verdict in ("improved", "worse")
    assert held >= 0.97 * 400
    assert false_alarms <= 0.02 * 400


def test_an_improvement_with_its_mechanism_and_equal_outputs_is_kept() -> None:
    found = judged({1: 24.4, 8: 97.7}, {1: 44.3, 8: 177.0})
    assert found.kept and found.verdict == "improved" and found.mechanism_moved is True
    assert [round(row.ratio or 0, 2) for row in found.levels] == [1.82, 1.81]


def test_better_at_one_level_and_the_same_at_the_other_is_kept() -> None:
    found = judged(
        {1: 44.3, 8: 177.0}, {1: 44.3, 8: 315.0}, setting="--pp-async-batch-depth", mechanism="none"
    )
    assert [row.verdict for row in found.levels] == ["no_effect", "improved"]
    assert found.kept and found.mechanism_moved is None
    assert "mechanism not observable" in found.why


@pytest.mark.parametrize(
    ("after", "more", "says"),
    [
        ({1: 24.4, 8: 97.9}, {}, "no effect"),
        ({1: 44.3, 8: 60.0}, {}, "worse"),
        ({1: 44.3, 8: 177.0}, {"graph": (0.0, 0.0)}, "cause unproven"),
        ({1: 44.3, 8: 177.0}, {"outputs": ({"a": "1"}, {"a": "2"})}, "1 of 1 greedy outputs changed"),
        ({1: 44.3, 8: 177.0}, {"outputs": ({"a": "1"}, {"b": "1"})}, "no greedy output could be compared"),
        ({1: 44.3}, {}, "inconclusive"),
    ],
)
def test_what_is_not_an_honest_gain_is_not_kept(
    after: dict[int, float], more: dict[str, Any], says: str
) -> None:
    found = judged({1: 24.4, 8: 97.7}, after, **more)
    assert not found.kept and says in found.why


def test_a_setting_that_did_not_take_effect_is_not_kept() -> None:
    before = measured({1: 24.4}, depth=0)
    after = measured({1: 44.3}, depth=0)
    same = Outputs({"a": "1"})
    found = compare(change("--depth", "not observable"), before, after, (same, same))
    assert found.effective is not None and not found.effective.moved
    assert not found.kept and "depth is still 0" in found.why


def test_a_mechanism_is_what_the_change_speaks_of() -> None:
    seen = {"sglang:is_cuda_graph": 0.0, "memory_usage.graph": 0.0, "gpu_power_w": 100.0}
    then = {"sglang:is_cuda_graph": 0.0, "memory_usage.graph": 1.4, "gpu_power_w": 300.0}
    values, moved, says = mechanism(change(), seen, then)
    assert moved and [value.name for value in values] == ["memory_usage.graph", "sglang:is_cuda_graph"]
    assert says == "memory_usage.graph 0 -> 1.4"
    values, moved, _ = mechanism(change("--size", "GPU power under load rises"), seen, then)
    assert moved and [value.name for value in values] == ["gpu_power_w"]
    assert mechanism(change("--depth", "none"), seen, then)[1] is None
    assert mechanism(change(), {}, then)[1] is None


def test_faster_requests_that_wait_longer_are_no_gain() -> None:
    before = Level(concurrency=8, throughput=[97, 98, 99], total=[95, 96, 97])
    for total, verdict in (([60.0, 61.0, 62.0], "worse"), ([95.0, 96.0, 97.0], "no_effect")):
        row = compare_level(before, Level(concurrency=8, throughput=[170, 171, 172], total=total))
        assert row.verdict == verdict and "waiting included" in row.why
    noisy = Level(concurrency=8, throughput=[170, 171, 172], total=[90.0, 200.0, 170.0])
    assert compare_level(before, noisy).verdict == "improved"


def test_noise_that_can_hide_no_harm_does_not_forbid_a_gain() -> None:
    gain = compare_level(level(97.7, at=8), level(177.0, at=8))
    hazy = compare_level(level(44.3, (0.97, 1.0, 1.04)), level(46.0, (0.97, 1.0, 1.04)))
    wild = compare_level(level(44.3, (0.6, 1.0, 1.5)), level(44.3, (0.6, 1.0, 1.5)))
    assert hazy.verdict == wild.verdict == "inconclusive"
    assert overall([hazy, gain]) == "improved" and overall([wild, gain]) == "inconclusive"


def test_harm_outweighs_doubt_and_doubt_outweighs_gain() -> None:
    rows = {row.verdict: row for row in judged({1: 24.4, 8: 97.7}, {1: 44.3, 8: 60.0}).levels}
    doubt = compare_level(level(1, (1.0,)), level(1, (1.0,)))
    same = compare_level(level(1), level(1))
    assert overall([rows["improved"], rows["worse"], doubt]) == "worse"
    assert overall([rows["improved"], doubt]) == "inconclusive"
    assert overall([rows["improved"], same]) == "improved"
    assert overall([same]) == "no_effect"
    assert overall([]) == "inconclusive"


def test_names_of_settings_in_force() -> None:
    assert effective_name("--pp-async-batch-depth") == "pp_async_batch_depth"
    assert effective_name("SGLANG_ENABLE_SPEC") is None
