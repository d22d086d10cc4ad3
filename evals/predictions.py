"""Hold what a change promised against what was measured.

A promise is a range of a ratio ("1.5 to 2.5 x"), a ratio alone ("about 2x"), or figures in tok/s, which are
divided by what was measured before. It is judged at the concurrency that is named last before it, else at
the level that moved most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agent.state import LevelComparison

POINT: Final = 1.15
"""A ratio that is given alone stands for the range from it divided by this to it times this."""

WIDEST: Final = 4.0
"""A range whose end is more than this times its beginning promises nothing."""

_N: Final = r"(\d+(?:\.\d+)?)"
_TO: Final = r"\s*(?:to|-|\u2013|and)\s*"
_RANGE: Final = re.compile(rf"(?<![\w.]){_N}\s*[x\u00d7]?{_TO}{_N}\s*[x\u00d7](?!\w)", re.IGNORECASE)
_ALONE: Final = re.compile(rf"(?<![\w.]){_N}\s*[x\u00d7](?!\w)|(?<!\w)[x\u00d7]\s?{_N}", re.IGNORECASE)
_SPEED: Final = re.compile(rf"(?<![\w.]){_N}(?:{_TO}{_N})?\s*(?:tok|tokens?)\s*(?:/|per )\s*s", re.IGNORECASE)
_FROM: Final = re.compile(
    rf"\bfrom\s+{_N}\s*(?:tok\w*\s*(?:/|per )\s*s\w*)?[^.;:\d]*(?:\b(?:concurrency|at)\s+\d+\s*)?\bto\s+",
    re.IGNORECASE,
)
_LEVEL: Final = re.compile(
    r"(?:concurrency|batch(?: size)?|bs)\s*(?:of\s*|=\s*)?(\d+)|(?:at\s+)(\d+)\s+(?:requests|users|streams)"
    r"|\b(one|single)\s+(?:request|stream|user)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Promise:
    """Hold one promised range of a ratio, or of tok/s, and the concurrency it is for, if that is said."""

    low: float
    high: float
    concurrency: int | None
    in_tokens: bool = False


def promises(text: str) -> list[Promise]:
    """Return what a text promises: ranges of ratios, else ratios alone, else speeds."""
    found = list(_found(_RANGE, text))
    if found:
        return found
    found = [Promise(one.low / POINT, one.high * POINT, one.concurrency) for one in _found(_ALONE, text)]
    if found:
        return found
    return [
        Promise(one.low / POINT, one.high * POINT, one.concurrency, in_tokens=True)
        if one.low == one.high
        else Promise(one.low, one.high, one.concurrency, in_tokens=True)
        for one in _found(_SPEED, _FROM.sub(" to ", text))
    ]


def _found(pattern: re.Pattern[str], text: str) -> Iterator[Promise]:
    for match in pattern.finditer(text):
        numbers = [float(group) for group in match.groups() if group]
        if numbers and min(numbers) > 0:
            yield Promise(min(numbers), max(numbers), _level_before(text, match.start()))


def _level_before(text: str, end: int) -> int | None:
    last = None
    for match in _LEVEL.finditer(text, 0, end):
        last = 1 if match[3] else int(match[1] or match[2])
    return last


def held(promise: Promise, levels: Sequence[LevelComparison]) -> float | None:
    """Return 1 when the measured ratio lies in the range, falling to 0 at twice or half its nearer end.

    None when nothing was measured that it could be held against.
    """
    measured = [level for level in levels if level.ratio]
    if not measured:
        return None
    level = next((one for one in measured if one.concurrency == promise.concurrency), None)
    level = level or max(measured, key=lambda one: abs(math.log(one.ratio or 1.0)))
    if promise.in_tokens and not level.before:
        return None
    scale = (level.before or 1.0) if promise.in_tokens else 1.0
    low, high = promise.low / scale, promise.high / scale
    ratio = level.ratio or 1.0
    if high > low * WIDEST:
        return 0.0
    edge = min(max(ratio, low), high)
    return max(0.0, 1.0 - abs(math.log2(ratio / edge)))
