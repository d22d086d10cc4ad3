"""Judge two measurements from their own noise: improved, worse, no effect or inconclusive; keep or not.

The effect is the ratio of decode throughput, after over before. Its interval, at 99 %, is Student's on the
logarithms of the repeats, so it needs two on either side; at 95 % one trial in ten, of two levels, would end
wrong. A change that makes requests wait can decode each of them faster and all of them slower: the total
throughput, waiting included, may overrule a gain. No I/O.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import fmean, variance

from agent.outputs import Outputs, asks_for_equality, compare_outputs, counted, outputs_words, state_of
from agent.state import (
    Change,
    Comparison,
    Level,
    LevelComparison,
    Measurement,
    MechanismValue,
    OutputsState,
    Scalar,
    TrialVerdict,
)
from tools.intervals import t99

SMALLEST_EFFECT = 0.03
"""A smaller change of throughput counts as none, however sure it is."""

WIDEST = 0.13
"""An interval that holds 1 and reaches further than this to either side could hide a real effect."""

HARM = 0.15
"""A level that is too noisy to judge does not forbid a gain elsewhere when it cannot hide more harm."""

_METRICS: tuple[tuple[str, str], ...] = (
    ("decode_steps_by_cuda_graph", r"cuda[ _-]?graph"),
    ("memory_usage.graph", r"cuda[ _-]?graph"),
    # Last: some releases export this gauge and never set it.
    ("sglang:is_cuda_graph", r"cuda[ _-]?graph"),
    ("gpu_power_w", r"\b(?:power|watts?)\b"),
)
"""What can be observed, and what a change's mechanism or setting must speak of to mean it."""


def compare_level(before: Level, after: Level) -> LevelComparison:
    """Compare the repeats at one concurrency."""
    repeats = min(len(before.throughput), len(after.throughput))
    means = [fmean(level.throughput) if level.throughput else None for level in (before, after)]
    row = LevelComparison(
        concurrency=before.concurrency,
        before=_rounded(means[0]),
        after=_rounded(means[1]),
        ratio=None,
        low=None,
        high=None,
        verdict="inconclusive",
        repeats=repeats,
    )
    failed = before.errors + after.errors
    if not means[0] or not means[1]:
        return row.model_copy(update={"why": "no request was completed on one side"})
    ratio, low, high = _interval(before.throughput, after.throughput)
    row = row.model_copy(update={"ratio": _rounded(ratio), "low": _rounded(low), "high": _rounded(high)})
    if failed:
        return row.model_copy(update={"why": f"{failed} requests failed"})
    if low is None or high is None:
        return row.model_copy(update={"why": "one repeat says nothing of the noise"})
    verdict, why = _verdict(ratio, low, high)
    if verdict == "improved":
        verdict, why = _overruled(before, after)
    return row.model_copy(update={"verdict": verdict, "why": why})


def _overruled(before: Level, after: Level) -> tuple[TrialVerdict, str]:
    """Return what the total throughput leaves of a gain in decode speed; noise leaves it alone."""
    if min(len(before.total), len(after.total)) < 2 or min(*before.total, *after.total) <= 0:
        return "improved", ""
    ratio, low, high = _interval(before.total, after.total)
    if low is None or high is None:
        return "improved", ""
    verdict, _ = _verdict(ratio, low, high)
    if verdict in ("worse", "no_effect"):
        return verdict, f"each request decodes faster, but in all, waiting included, it is x{ratio:.2f}"
    return "improved", ""


def _interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the ratio of the (geometric) means, after over before, and the ends of its interval."""
    if min(*before, *after) <= 0:
        return fmean(after) / fmean(before), None, None
    logs = [[math.log(value) for value in side] for side in (before, after)]
    centre = fmean(logs[1]) - fmean(logs[0])
    if min(len(side) for side in logs) < 2:
        return math.exp(centre), None, None
    sizes = [len(side) for side in logs]
    freedom = sum(sizes) - 2
    pooled = sum((size - 1) * variance(side) for size, side in zip(sizes, logs, strict=True)) / freedom
    half = t99(freedom) * math.sqrt(pooled * sum(1 / size for size in sizes))
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)


def _verdict(ratio: float, low: float, high: float) -> tuple[TrialVerdict, str]:
    if low <= 1 <= high:
        if low < 1 - WIDEST or high > 1 + WIDEST:
            return "inconclusive", "the repeats differ too much to tell"
        return "no_effect", "the interval holds 1"
    if abs(ratio - 1) < SMALLEST_EFFECT:
        return "no_effect", f"less than {SMALLEST_EFFECT:.0%}"
    return ("improved" if ratio > 1 else "worse"), ""


def overall(levels: Sequence[LevelComparison]) -> TrialVerdict:
    """Return one verdict for all levels: harm first, then doubt that may hide harm, then gain."""
    gain = any(level.verdict == "improved" for level in levels)
    found = {
        level.verdict
        for level in levels
        if not (gain and level.verdict == "inconclusive" and (level.low or 0.0) >= 1 - HARM)
    }
    order: tuple[TrialVerdict, ...] = ("worse", "inconclusive", "improved", "no_effect")
    return next((verdict for verdict in order if verdict in found), "inconclusive")


def mechanism(
    change: Change, before: Mapping[str, Scalar], after: Mapping[str, Scalar]
) -> tuple[list[MechanismValue], bool | None, str]:
    """Return the metrics that the change's mechanism speaks of, whether they moved, and that in words."""
    text = f"{change.mechanism} {change.setting}".lower()
    spoken = [name for name, pattern in _METRICS if re.search(pattern, text)]
    values = [
        value(name, before[name], after[name])
        for name in spoken
        if before.get(name) is not None and after.get(name) is not None
    ]
    if not values:
        return [], None, "mechanism not observable"
    moved = any(item.moved for item in values)
    shown = [item for item in values if item.moved] or values
    words = "; ".join(f"{item.name} {_said(item.before)} -> {_said(item.after)}" for item in shown)
    return values, moved, words if moved else f"did not move: {words}"


def value(name: str, before: Scalar, after: Scalar) -> MechanismValue:
    """Compare one observed value; numbers move when they differ by more than 5 %."""
    numbers = [item for item in (before, after) if isinstance(item, int | float)]
    moved = before != after
    if len(numbers) == 2:
        moved = abs(numbers[1] - numbers[0]) > 0.05 * max(abs(numbers[0]), abs(numbers[1]))
    return MechanismValue(name=name, before=before, after=after, moved=moved)


def effective_name(setting: str) -> str | None:
    """Return the name a launch flag has among the settings in force; None for a variable."""
    return setting.lstrip("-").replace("-", "_") if setting.startswith("-") else None


def compare(
    change: Change,
    before: Measurement,
    after: Measurement,
    outputs: tuple[Outputs, Outputs],
    cautions: Sequence[str] = (),
) -> Comparison:
    """Judge a change by the measurements before and after it and the digests of the greedy outputs.

    ``cautions`` are those known for its setting, beside the ones that the change itself names.
    """
    others = {level.concurrency: level for level in after.levels}
    levels = [
        compare_level(
            level, others.get(level.concurrency, Level(concurrency=level.concurrency, throughput=[]))
        )
        for level in before.levels
    ]
    verdict = overall(levels)
    values, moved, says = mechanism(change, before.observed, after.observed)
    name = effective_name(change.setting)
    effective = None
    if name is not None and name in before.observed and name in after.observed:
        effective = value(name, before.observed[name], after.observed[name])
    seen = compare_outputs(*outputs)
    state = state_of(seen, asked=asks_for_equality(change, cautions))
    compared, different = counted(seen)
    said = outputs_words(seen, state)
    kept, why = _keep(verdict, levels, moved, effective, state, said)
    return Comparison(
        levels=levels,
        verdict=verdict,
        mechanism=values,
        mechanism_moved=moved,
        mechanism_says=says,
        effective=effective,
        outputs_equal={"equal": True, "changed": False}.get(state),
        outputs_compared=compared,
        outputs_different=different,
        outputs_state=state,
        outputs_says=said,
        outputs=seen,
        kept=kept,
        why=why,
    )


def _keep(
    verdict: TrialVerdict,
    levels: Sequence[LevelComparison],
    moved: bool | None,
    effective: MechanismValue | None,
    outputs: OutputsState,
    said: str,
) -> tuple[bool, str]:
    """Apply the rule: improved somewhere, worse nowhere, outputs equal, and the mechanism moved if seen.

    Outputs that the server changes by itself forbid nothing; the reason says so then.
    """
    spread = ", ".join(f"{level.verdict.replace('_', ' ')} at {level.concurrency}" for level in levels)
    if outputs == "changed":
        return False, f"{said} ({spread})"
    if effective is not None and effective.before == effective.after:
        return False, f"it did not take effect: {effective.name} is still {_said(effective.after)} ({spread})"
    if verdict != "improved":
        return False, f"{verdict.replace('_', ' ')} at concurrency: {spread}"
    if moved is False:
        return False, f"improved, cause unproven: the mechanism did not move ({spread})"
    if outputs == "nothing_compared":
        return False, f"{said} ({spread})"
    seen = "mechanism moved" if moved else "mechanism not observable"
    return True, f"{spread}; {seen}; {said}"


def measured_words(levels: Sequence[LevelComparison]) -> str:
    """Say the effect in a line, to stand beside what was predicted."""
    return ", ".join(
        f"x{level.ratio:.2f} at concurrency {level.concurrency}"
        if level.ratio is not None
        else f"nothing at concurrency {level.concurrency}"
        for level in levels
    )


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def _said(item: Scalar) -> str:
    return f"{item:.4g}" if isinstance(item, float) else str(item)
