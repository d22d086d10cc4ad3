"""Intervals: the same values give the same ends, few values a wide interval, and no value is an error."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import UsageError
from evals.intervals import Interval, mean_interval, paired

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def width(found: Interval) -> float:
    return found.high - found.low


def test_the_same_values_give_the_same_interval_in_any_order() -> None:
    values = [n / 7 for n in (1, 5, 2, 7, 0, 3, 3)]
    assert mean_interval(values) == mean_interval(values[::-1])
    assert mean_interval(values, 1, resamples=20) != mean_interval(values, 2, resamples=20)


def test_more_cases_make_a_mean_surer() -> None:
    few, many = ([float(n % 2) for n in range(count)] for count in (10, 160))
    assert width(mean_interval(many)) < width(mean_interval(few)) / 3


def test_a_single_value_leaves_everything_open() -> None:
    assert mean_interval([0.75]) == Interval(mean=0.75, low=0, high=1, count=1)
    for before, after in ((0.0, 1.0), (9.0, 2.0), (0.5, 0.5)):
        found = paired([before], [after])
        assert found.low <= 0 <= found.high and found.mean == after - before


def test_no_value_is_an_error() -> None:
    with pytest.raises(UsageError, match="without samples"):
        mean_interval([])
    with pytest.raises(UsageError, match="paired"):
        paired([], [])
    with pytest.raises(UsageError, match="2 values cannot be paired with 1"):
        paired([1.0, 0.0], [1.0])


def test_pairing_sees_a_gain_that_differences_between_cases_would_hide() -> None:
    before = [n / 20 for n in range(20)]
    after = [value + 0.05 for value in before]
    found = paired(before, after)
    assert found.low == pytest.approx(0.05) and found.high == pytest.approx(0.05)
    assert mean_interval(before).high > mean_interval(after).low


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    draw = random.Random(3)
    hits = 0
    for trial in range(200):
        found = mean_interval([float(draw.random() < 0.6) for _ in range(40)], trial, resamples=300)
        hits += found.low <= 0.6 <= found.high
    assert 178 <= hits <= 198


@given(SCORES)
def test_the_mean_is_plain_and_the_ends_are_ordered(values: list[float]) -> None:
    found = mean_interval(values, resamples=200)
    assert found.mean == pytest.approx(fmean(values))
    assert -1e-9 <= found.low <= found.high <= 1 + 1e-9


@given(SCORES, SCORES)
def test_the_other_way_round_is_the_other_sign(one: list[float], other: list[float]) -> None:
    count = min(len(one), len(other))
    there, back = (
        paired(before[:count], after[:count], resamples=100) for before, after in ((one, other), (other, one))
    )
    assert there.mean == pytest.approx(-back.mean)


@given(SCORES)
def test_a_run_differs_from_itself_by_nothing(values: list[float]) -> None:
    found = paired(values, values, resamples=100)
    assert found.mean == 0
    assert (found.low, found.high) == ((0, 0) if len(values) > 1 else (-1, 1))
