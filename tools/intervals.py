"""Say how sure a mean of repeats is: Student's 99 % interval on their logarithms. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import variance

_T99 = (63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977)
_T99_REST = ((16, 2.921), (20, 2.845), (30, 2.750), (60, 2.660))


def t99(freedom: int) -> float:
    """Return the two-sided 99 % point of Student's distribution, rounded to the cautious side."""
    if freedom <= len(_T99):
        return _T99[freedom - 1]
    return next((value for least, value in reversed(_T99_REST) if freedom >= least), _T99[-1])


def spread(values: Sequence[float]) -> float | None:
    """Return how far the 99 % interval of the (geometric) mean reaches, as a share of it; None if unknown."""
    if len(values) < 2 or min(values) <= 0:
        return None
    logs = [math.log(value) for value in values]
    return math.exp(t99(len(logs) - 1) * math.sqrt(variance(logs) / len(logs))) - 1
