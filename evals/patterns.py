"""Search texts by the patterns of cases, each compiled once; case is ignored."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from functools import lru_cache
from types import FrameType

from agent.errors import UsageError

LONGEST_S = 10.0
"""One search may take up to twice as long; real ones take far less than a millisecond."""

_compiled = lru_cache(maxsize=16_384)(re.compile)
"""All cases together have more patterns than the cache of the standard library holds."""


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


def any_in(patterns: Iterable[str], text: str) -> bool:
    """Tell whether one of the patterns stands in a text."""
    return any(found_in(pattern, text) for pattern in patterns)


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
