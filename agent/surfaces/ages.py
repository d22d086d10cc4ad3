"""Say in a few letters how long ago something was, and how large it is."""

from __future__ import annotations

from datetime import datetime

_STEPS = ((60, "s"), (60, "m"), (24, "h"), (365, "d"))


def age(then: datetime, now: datetime) -> str:
    """Return how long ago ``then`` was, such as ``5m``, ``3h`` or ``12d``."""
    left = max(0, int((now - then).total_seconds()))
    for most, unit in _STEPS:
        if left < most:
            return f"{left}{unit}"
        left //= most
    return f"{left}y"


def size_of(count: float) -> str:
    """Return a number of bytes in four places or so, such as ``12K`` or ``3.4M``."""
    for unit in ("B", "K", "M", "G"):
        if count < 1000 or unit == "G":
            return f"{count:.0f}{unit}" if count >= 10 or unit == "B" else f"{count:.1f}{unit}"
        count /= 1024
    raise AssertionError("the last unit takes everything")
