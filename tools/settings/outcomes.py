"""Sum up judged conditions: whether an assignment happens, and what says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tools.settings.types import Cite, Condition

Result = Literal["fires", "cannot fire", "unknown"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold whether an assignment happens in a process, why, and what would decide it."""

    result: Result
    because: str
    cite: Cite | None = None
    """The first condition that is false."""
    needs: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


def summed(own: list[Condition], ways: list[tuple[list[Condition], bool]], never: bool) -> Outcome:
    """Sum up the conditions of an assignment and of the ways to it; ``never`` says that none is come to."""
    own_false = next((c for c in own if c.verdict == "false"), None)
    open_ways = [way for way in ways if not any(c.verdict == "false" for c in way[0])]
    chosen = _best(open_ways or ways)
    conditions = tuple([*(chosen[0] if chosen is not None else []), *own])
    if own_false is not None:
        return Outcome("cannot fire", _reason(own_false), own_false.cite, (), conditions)
    first = next((c for c in conditions if c.verdict == "false"), None)
    if never and first is not None:
        return Outcome("cannot fire", _reason(first), first.cite, (), conditions)
    unknown = [c for c in conditions if c.verdict == "unknown"]
    if not unknown and chosen is not None and chosen in open_ways and chosen[1]:
        because = "; ".join(_reason(c) for c in own) or "nothing stands before it"
        return Outcome("fires", because, None, (), conditions)
    needs = tuple(dict.fromkeys(n for c in unknown for n in (c.needs or (c.text,))))
    if not needs:
        needs = ("whether its function is called",)
    because = _reason(unknown[0]) if unknown else "nothing shows that its function is called"
    return Outcome("unknown", because, None, needs, conditions)


def _best(ways: Iterable[tuple[list[Condition], bool]]) -> tuple[list[Condition], bool] | None:
    """Return the way with the fewest open conditions, one from an entry point before others."""
    return min(ways, key=lambda way: (not way[1], sum(c.verdict == "unknown" for c in way[0])), default=None)


def _reason(condition: Condition) -> str:
    return f"{condition.text} is {condition.verdict}: {condition.because}"
