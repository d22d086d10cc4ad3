"""Evaluate the typed checks of predictions on quoted text; patterns are RE2, so none can run away."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, assert_never

from agent.quotes import cuts_word
from agent.state import Check, RatioCheck, TextCheck, ValueCheck
from tools.contract import ToolError

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def compile_pattern(pattern: str, groups: int | None = None) -> Any:
    """Return the compiled RE2 pattern; `ToolError` when it is none, or has another number of groups."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise ToolError(
            f"pattern {pattern!r} is not RE2 ({text}); look-around and back-references do not exist"
        ) from error
    if groups is not None and compiled.groups != groups:
        raise ToolError(
            f"pattern {pattern!r} has {compiled.groups} groups; give it {groups}, round the number"
        )
    return compiled


def number_in(pattern: str, text: str) -> float:
    """Return the first number that the pattern's one group finds whole in ``text``; `ToolError` if none."""
    numbers = _numbers(compile_pattern(pattern, groups=1), text)
    if not numbers:
        raise ToolError(f"pattern {pattern!r} finds no whole number in the quote")
    return numbers[0]


def _numbers(compiled: Any, text: str) -> list[float]:
    numbers: list[float] = []
    for match in compiled.finditer(text):
        for group in range(1, compiled.groups + 1):
            start, end = match.span(group)
            if start < 0 or start == end or cuts_word(text, start, end):
                continue
            try:
                number = float(match.group(group))
            except ValueError:
                continue
            if math.isfinite(number):
                numbers.append(number)
    return numbers


def validate(check: Check) -> None:
    """Raise `ToolError` when the check could never be evaluated: its pattern is broken or lacks its group."""
    if isinstance(check, TextCheck):
        compile_pattern(check.pattern)
    elif isinstance(check, ValueCheck):
        compile_pattern(check.pattern, groups=1)
    elif isinstance(check, RatioCheck) and compile_pattern(check.pattern).groups not in {1, 2}:
        raise ToolError(f"pattern {check.pattern!r} needs one group that matches twice, or two groups")


def evaluate(check: Check, quote: str, lines: str, judged: bool | None) -> bool:
    """Tell whether the quote meets the check; ``lines`` is the whole cited range, for absence.

    ``judged`` is the model's own answer and is used for judgement checks only.
    """
    if isinstance(check, TextCheck):
        compiled = compile_pattern(check.pattern)
        if check.present:
            return compiled.search(quote) is not None
        return all(compiled.search(text) is None for text in (lines, " ".join(lines.split()), quote))
    if isinstance(check, ValueCheck):
        numbers = _numbers(compile_pattern(check.pattern, groups=1), quote)
        return bool(numbers) and _COMPARE[check.op](numbers[0], check.value)
    if isinstance(check, RatioCheck):
        numbers = _numbers(compile_pattern(check.pattern), quote)
        ratio = numbers[0] / numbers[1] if len(numbers) > 1 and numbers[1] else None
        return ratio is not None and _COMPARE[check.op](ratio, check.value)
    if check.kind == "judgement":
        return judged is True
    assert_never(check.kind)
