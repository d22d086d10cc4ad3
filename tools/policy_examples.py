"""Try a rule with its own examples: what it must let through, and what it must not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tools.policy_rules import KINDS, Rule

if TYPE_CHECKING:
    from tools.policy import Decision
    from tools.policy_load import Limit

Judge = Callable[[str], "Decision"]


def problem_of_rule(rule: Rule, judge: Judge) -> str | None:
    """Return field and reason why a rule cannot be used, or None."""
    if not rule.accepts:
        return "accepts: give examples that must be allowed"
    if not rule.rejects:
        return "rejects: give examples that must not"
    for field, value in _expressions(rule):
        if why := _unusable(value):
            return f"{field}: {why}"
    for field, kind in _kinds(rule):
        if why := _unusable_kind(kind):
            return f"{field}: {why}"
    for field in ("accepts", "rejects"):
        for example in getattr(rule, field):
            if why := _wrong(rule, field, example, judge):
                return f"{field}: {why}"
    return None


def problem_of_limit(limit: Limit, judge: Judge) -> str | None:
    """Return field and reason why a limit cannot be used, or None."""
    for pattern in limit.when:
        if why := _unusable(pattern):
            return f"when: {why}"
    for example in limit.matches:
        if (decision := judge(example)).verdict != limit.verdict or limit.why not in decision.reason:
            return f"matches: {example!r} is not held back: {decision.verdict}, {decision.reason}"
    for example in limit.passes:
        if (decision := judge(example)).verdict != "allow":
            return f"passes: {example!r} is not allowed: {decision.reason}"
    return None


def _wrong(rule: Rule, field: str, example: str, judge: Judge) -> str | None:
    words = example.split()
    if not words or words[0].rsplit("/", 1)[-1] not in rule.names:
        return f"{example!r} is not an example of {', '.join(rule.names)}"
    decision = judge(example)
    if field == "accepts" and decision.verdict != "allow":
        return f"{example!r} is not allowed: {decision.reason}"
    if field == "rejects" and decision.verdict == "allow":
        return f"{example!r} is allowed"
    return None


def _expressions(rule: Rule) -> Iterator[tuple[str, str]]:
    for field in ("words", "requires", "danger"):
        yield from ((field, value) for value in getattr(rule, field))
    for field in ("leading", "trailing"):
        if (value := getattr(rule, field)) is not None:
            yield field, value
    for one, other in rule.conflicts.items():
        yield from (("conflicts", one), ("conflicts", other))
    for verb, inner in rule.verbs.items():
        yield from ((f"verbs.{verb}.{field}", value) for field, value in _expressions(inner))


def _kinds(rule: Rule) -> Iterator[tuple[str, str]]:
    for field in ("values", "long_values", "pairs"):
        yield from ((field, kind) for kind in getattr(rule, field).values())
    for field in ("args", "first"):
        if (kind := getattr(rule, field)) is not None:
            yield field, kind
    for verb, inner in rule.verbs.items():
        yield from ((f"verbs.{verb}.{field}", kind) for field, kind in _kinds(inner))


def _unusable(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"{pattern!r} is not a pattern: {error}"
    return None


def _unusable_kind(kind: str) -> str | None:
    if kind in KINDS:
        return None
    if len(kind) > 1 and kind[0] == kind[-1] == "/":
        return _unusable(kind[1:-1])
    return f"{kind!r} is no kind of value: {', '.join(sorted(KINDS))}, or /a pattern/"
