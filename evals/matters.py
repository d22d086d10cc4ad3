"""Count the matters that one statement names, so that a list of everything is told from a cause.

The causes of the cases that come with Leadline are what is known to go wrong. Many of them are one matter
(CUDA graphs stay off for many reasons), so causes whose patterns find the same words count together.
"""

from __future__ import annotations

from functools import lru_cache

from agent.errors import LeadlineError
from evals import case as cases
from evals.case import Cause
from evals.patterns import any_in, first_in

MOST = 3
"""Matters that one statement may name: it may tell what is wrong from what was ruled out."""

LONGEST = 600
"""Characters of a statement that still says one thing; the longest of any recording has 194."""

_Spans = list[tuple[int, int]]


def is_list(statement: str) -> bool:
    """Tell whether a statement names so much that it asserts nothing."""
    return len(statement) > LONGEST or named(statement) > MOST


@lru_cache(maxsize=1024)
def named(statement: str) -> int:
    """Return how many matters a statement names: known causes, those that share words of it once."""
    matters: list[_Spans] = []
    for spans in filter(None, (_spans(cause, statement) for cause in _known())):
        shared = [matter for matter in matters if _overlap(matter, spans)]
        matters = [matter for matter in matters if matter not in shared]
        matters.append([*spans, *(span for matter in shared for span in matter)])
    return len(matters)


def _spans(cause: Cause, statement: str) -> _Spans:
    """Return which words of a statement name a cause; none when it is denied."""
    if any_in(cause.none, statement):
        return []
    return [span for pattern in cause.any if (span := first_in(pattern, statement)) is not None]


def _overlap(left: _Spans, right: _Spans) -> bool:
    return any(a[0] < b[1] and b[0] < a[1] for a in left for b in right)


@lru_cache(maxsize=1)
def _known() -> tuple[Cause, ...]:
    """Return the causes of all cases that can be read."""
    found: list[Cause] = []
    for name in cases.names():
        try:
            found += cases.load(name).causes
        except LeadlineError:
            continue  # it is named where it is used
    return tuple(found)
