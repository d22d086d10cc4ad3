"""Say how sure a mean score is: seeded bootstrap intervals, of one run and of the difference of two.

Give one value a case: the samples of a case are alike, so that a run which repeats a case is no surer for
it. The same values and the same seed give the same interval. Where all values are equal the interval is a
point, which says that the bootstrap saw no spread, not that there is none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Final

from pydantic import Field

from agent.errors import UsageError
from agent.state import Record

RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95


class Interval(Record):
    """Hold a mean with the ends of its interval at 95 %."""

    mean: float
    low: float
    high: float
    count: int = Field(description="Values, or pairs of them, that it rests on.")


def mean_interval(values: Sequence[float], seed: int = 1, *, resamples: int = RESAMPLES) -> Interval:
    """Return the mean of scores from 0 to 1 with its interval; `UsageError` when there is none.

    A single score leaves every mean open: its interval is 0 to 1.
    """
    if not values:
        raise UsageError("a run without samples has no mean", do="see which samples did not count, and why")
    mean = fmean(values)
    low, high = _ends(values, seed, resamples) if len(values) > 1 else (0.0, 1.0)
    return Interval(mean=mean, low=low, high=high, count=len(values))


def paired(
    before: Sequence[float], after: Sequence[float], seed: int = 1, *, resamples: int = RESAMPLES
) -> Interval:
    """Return how far ``after`` is above ``before``, place by place, with its interval.

    A single pair leaves the sign open: its interval holds 0.
    """
    if not before or len(before) != len(after):
        raise UsageError(
            f"{len(before)} values cannot be paired with {len(after)}", do="compare runs over the same cases"
        )
    differences = [new - old for old, new in zip(before, after, strict=True)]
    mean = fmean(differences)
    if len(differences) == 1:
        reach = max(1.0, abs(mean))
        return Interval(mean=mean, low=mean - reach, high=mean + reach, count=1)
    low, high = _ends(differences, seed, resamples)
    return Interval(mean=mean, low=low, high=high, count=len(differences))


def _ends(values: Sequence[float], seed: int, resamples: int) -> tuple[float, float]:
    """Return the percentiles of the means of resamples; the order of the values does not matter."""
    ordered, count = sorted(values), len(values)
    draw = random.Random(seed)
    means = sorted(sum(draw.choices(ordered, k=count)) / count for _ in range(resamples))
    tail = (1.0 - CONFIDENCE) / 2
    return _quantile(means, tail), _quantile(means, 1.0 - tail)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile, between two neighbours in proportion."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
