"""Compare greedy outputs before and after a change, allowing for servers that do not reproduce their own.

Real engines may answer one prompt in two ways without any change: what runs beside a request changes the
order in which numbers are summed. So each measurement sends some prompts twice. At a concurrency where that
alone changed an output before the change, a difference after it proves nothing. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from agent.state import Change, LevelOutputs, OutputsState

_LEVEL = re.compile(r"c(\d+)\.")
_OUTPUTS = re.compile(r"\boutputs?\b", re.IGNORECASE)
_EQUAL = re.compile(r"\b(?:equal|identical|same|unchanged)\b", re.IGNORECASE)

NOT_COMPARABLE: Final = "outputs not comparable"
"""The words that go with every change that is kept without this check."""


class Outputs(NamedTuple):
    """Hold the digests of one measurement by prompt; ``again``: of the prompts that were sent twice."""

    first: Mapping[str, str]
    again: Mapping[str, str] = {}


def asks_for_equality(change: Change, more: Iterable[str] = ()) -> bool:
    """Tell whether the mechanism or a caution of a change asks that greedy outputs stay equal."""
    texts = (change.mechanism, *change.cautions, *more)
    return any(_OUTPUTS.search(text) and _EQUAL.search(text) for text in texts)


def compare_outputs(before: Outputs, after: Outputs) -> list[LevelOutputs]:
    """Compare the outputs of each concurrency by itself, in the order of the concurrencies."""
    levels: dict[int, list[str]] = {}
    for key in before.first.keys() & after.first.keys():
        levels.setdefault(_level(key), []).append(key)
    return [_at(level, keys, before, after) for level, keys in sorted(levels.items())]


def _level(key: str) -> int:
    found = _LEVEL.match(key)
    return int(found.group(1)) if found else 0


def _at(level: int, keys: Sequence[str], before: Outputs, after: Outputs) -> LevelOutputs:
    repeated, unlike = _reproduced(level, before)
    repeated_after, unlike_after = _reproduced(level, after)
    different = sum(
        any(side.get(key, before.first[key]) != before.first[key] for side in (after.first, after.again))
        for key in keys
    )
    why = ""
    if unlike:
        why = f"not reproducible by itself: {_twice(unlike, repeated)}"
    elif unlike_after:
        why = f"reproducible by itself no more: after the change {_twice(unlike_after, repeated_after)}"
    return LevelOutputs(
        concurrency=level,
        equal=None if unlike else different == 0,
        compared=len(keys),
        different=different,
        repeated=repeated,
        unlike=unlike,
        repeated_after=repeated_after,
        unlike_after=unlike_after,
        why=why,
    )


def _reproduced(level: int, outputs: Outputs) -> tuple[int, int]:
    """Return how many prompts of a level were answered twice, and how many of those in two ways."""
    twice = [key for key in outputs.first.keys() & outputs.again.keys() if _level(key) == level]
    return len(twice), sum(outputs.first[key] != outputs.again[key] for key in twice)


def _twice(unlike: int, repeated: int) -> str:
    return f"{unlike} of {repeated} differed between two runs of the same configuration"


def state_of(levels: Sequence[LevelOutputs], *, asked: bool) -> OutputsState:
    """Return one state for all concurrencies: a change that is proven first, then doubt."""
    if not levels:
        return "nothing_compared"
    if any(level.equal is False for level in levels):
        return "changed"
    if any(level.equal is None for level in levels):
        return "equality_open" if asked else "not_comparable"
    return "equal"


def counted(levels: Sequence[LevelOutputs]) -> tuple[int, int]:
    """Return how many outputs were compared where that means something, and how many of them differ."""
    clear = [level for level in levels if level.equal is not None]
    return sum(level.compared for level in clear), sum(level.different for level in clear)


def outputs_words(levels: Sequence[LevelOutputs], state: OutputsState) -> str:
    """Say what is known of the outputs in a line."""
    compared, different = counted(levels)
    if state == "nothing_compared":
        return "no greedy output could be compared"
    if state == "changed":
        more = [
            f"concurrency {one.concurrency}: {one.why}" for one in levels if one.equal is False and one.why
        ]
        return "; ".join([f"{different} of {compared} greedy outputs changed", *more])
    if state == "equal":
        return f"{compared} greedy outputs are equal"
    vague = [f"concurrency {one.concurrency}: {one.why}" for one in levels if one.equal is None]
    rest = [f"{compared} greedy outputs at other concurrencies are equal"] if compared else []
    open_ = ["equal outputs are asked for with this change and are not shown: compare answers by hand"]
    return "; ".join(
        [f"{NOT_COMPARABLE} at {', '.join(vague)}", *rest, *(open_ if state == "equality_open" else [])]
    )
