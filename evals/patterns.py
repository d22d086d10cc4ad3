"""Search texts by the patterns of cases, each compiled once; case is ignored."""

from __future__ import annotations

import importlib
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from types import FrameType
from typing import Any

from agent.errors import UsageError

LONGEST_S = 10.0
"""One search may take up to twice as long; real ones take far less than a millisecond."""

_compiled = lru_cache(maxsize=16_384)(re.compile)
"""All cases together have more patterns than the cache of the standard library holds."""


_NOTHING = "Sphinx of black quartz, judge my vow"


class EndlessPattern(UsageError):
    """Report a pattern that backtracks as good as for ever."""

    def __init__(self, pattern: str, length: int) -> None:
        self.pattern = pattern
        super().__init__(
            f"the pattern {pattern!r} comes to no end on a text of {length} characters",
            do="have no repetition of what itself repeats, such as (a+)+, in it",
        )


def found_in(pattern: str, text: str) -> bool:
    """Tell whether a pattern stands in a text."""
    return _compiled(pattern, re.IGNORECASE).search(text) is not None


def first_in(pattern: str, text: str) -> tuple[int, int] | None:
    """Return where a pattern first stands in a text; None when it does not."""
    found = _compiled(pattern, re.IGNORECASE).search(text)
    return None if found is None else found.span()


def any_in(patterns: Iterable[str], text: str) -> bool:
    """Tell whether one of the patterns stands in a text."""
    return any(found_in(pattern, text) for pattern in patterns)


def stands_anywhere(pattern: str) -> bool:
    """Tell whether a pattern is found in a sentence about nothing, of all letters and no digit."""
    return not may_be_endless(pattern) and found_in(pattern, _NOTHING)


def may_be_endless(pattern: str) -> bool:
    """Tell whether a repetition without end holds just another, and so splits a text in too many ways."""
    return any(_nested(part) for part in _parts(_parser().parse(pattern)))


def _nested(part: tuple[Any, Any]) -> bool:
    if not _is_unbounded(part):
        return False
    inner = list(part[1][2])
    while len(inner) == 1 and str(inner[0][0]) == "SUBPATTERN":
        inner = list(inner[0][1][-1])
    ways = inner[0][1][1] if len(inner) == 1 and str(inner[0][0]) == "BRANCH" else [inner]
    return any(_is_one_repetition(list(way)) for way in ways)


def _is_one_repetition(items: Sequence[tuple[Any, Any]]) -> bool:
    """Tell whether a sequence repeats without end and all beside it may be left out."""
    needed = [item for item in items if not _may_be_absent(item)]
    return any(_is_unbounded(item) for item in items) and len(needed) <= 1 and all(map(_is_unbounded, needed))


def _is_unbounded(item: tuple[Any, Any]) -> bool:
    return str(item[0]) in ("MAX_REPEAT", "MIN_REPEAT") and str(item[1][1]) == "MAXREPEAT"


def _may_be_absent(item: tuple[Any, Any]) -> bool:
    return str(item[0]) in ("MAX_REPEAT", "MIN_REPEAT") and item[1][0] == 0


def _parts(items: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield every part of a parsed pattern, at any depth."""
    for item in items:
        yield item
        held = item[1] if isinstance(item[1], tuple) else ()
        for one in held:
            ways = one if isinstance(one, list) else [one]
            for way in ways:
                if hasattr(way, "data"):
                    yield from _parts(way)


def _parser() -> Any:
    return importlib.import_module("re._parser")


def watch(seconds: float = LONGEST_S) -> None:
    """Let `found_in` raise `EndlessPattern` from now on, in the main thread of this process."""
    seen: list[FrameType | None] = [None]

    def look(number: int, frame: FrameType | None) -> None:
        inside = frame if frame is not None and frame.f_code is found_in.__code__ else None
        if inside is not None and inside is seen[0]:  # the same search as when last looked at
            seen[0] = None
            raise EndlessPattern(inside.f_locals["pattern"], len(inside.f_locals["text"]))
        seen[0] = inside

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
