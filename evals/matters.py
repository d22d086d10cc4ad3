"""Count the matters that one statement names, so that a list of everything is told from a cause.

The causes of the cases that come with Leadline are what is known to go wrong. Many of them are one matter
(CUDA graphs stay off for many reasons), so causes whose patterns find the same words count together. Patterns
reach far, so a statement is also looked at piece by piece, cut at commas and at "or".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from agent.errors import LeadlineError
from evals import case as cases
from evals.case import Cause
from evals.patterns import any_in, first_in

MOST = 3
"""Matters that one statement may name: it may tell what is wrong from what was ruled out."""

LONGEST = 600
"""Characters of a statement that still says one thing; the longest of any recording has 194."""

_PIECES = re.compile(r"[,;:.]\s|\b(?:or|and|but|nor|plus|while)\b")


def is_list(statement: str) -> bool:
    """Tell whether a statement names so much that it asserts nothing."""
    return len(statement) > LONGEST or named(statement) > MOST


@lru_cache(maxsize=1024)
def named(statement: str) -> int:
    """Return how many matters a statement names: known causes, those that stand in the same words once."""
    known = [cause for cause in _known() if not any_in(cause.none, statement)]
    pieces = _PIECES.split(statement)
    words = [_words(cause, statement) for cause in known]
    apart = [{place for place, piece in enumerate(pieces) if any_in(cause.any, piece)} for cause in known]
    return max(_groups(words), _groups(apart))


def _words(cause: Cause, statement: str) -> set[int]:
    """Return the places in a statement that the patterns of a cause find."""
    spans = (first_in(pattern, statement) for pattern in cause.any)
    return {place for span in spans if span is not None for place in range(*span)}


def _groups(sets: Iterable[set[int]]) -> int:
    """Return how many are left when those that share something are taken together."""
    groups: list[set[int]] = []
    for one in filter(None, sets):
        shared = [group for group in groups if group & one]
        groups = [group for group in groups if not group & one]
        groups.append(one.union(*shared))
    return len(groups)


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
