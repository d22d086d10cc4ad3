"""Say how sure a mean of repeats is: Student's 95 % interval on their logarithms. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import variance

_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
_T95_REST = ((16, 2.120), (20, 2.086), (30, 2.042), (60, 2.000))


def t95(freedom: int) -> float:
    """Return the two-sided 95 % point of Student's distribution, rounded to the cautious side."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    return next((value for least, value in reversed(_T95_REST) if freedom >= least), _T95[-1])


def spread(values: Sequence[float]) -> float | None:
    """Return how far the 95 % interval of the (geometric) mean reaches, as a share of it; None if unknown."""
    if len(values) < 2 or min(values) <= 0:
        return None
    logs = [math.log(value) for value in values]
    return math.exp(t95(len(logs) - 1) * math.sqrt(variance(logs) / len(logs))) - 1
