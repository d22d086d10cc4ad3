"""Why a setting has the value it has: from launch flags, and from judged assignments in the source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.models.views import Facts, Quote, View, matches, rows


@dataclass(frozen=True, slots=True)
class Reason:
    """Name one launch flag that gives a setting its value, directly or through an override."""

    flag: str
    value: str
    quote: Quote | None
    override: View | None = None
    path: str = ""
    eliminated: bool = False
    """True when every other assignment was judged not to run, and this one could not be judged alone."""
    beside: tuple[str, ...] = ()
    """Other flags that the override needs as well; undoing one of them is enough."""

    @property
    def option(self) -> str:
        """Return the flag as it is written on a command line."""
        return "--" + self.flag.replace("_", "-")

    @property
    def given(self) -> str:
        """Return the flag with its value."""
        return self.option if self.value == "true" else f"{self.option} {self.value}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Collect the reasons for a value, the assignments that could not be judged, and those that hold."""

    setting: str
    reasons: list[Reason]
    undecided: list[tuple[View, View]]
    holding: list[tuple[View, View]]


def as_text(value: Any) -> str:
    """Return a flag's value as text; a bare flag is ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def explain(
    setting: str, bad_value: str, facts: Facts, greps: Sequence[View], keep: Sequence[str] = ()
) -> Explanation:
    """Find the launch flags that give ``setting`` the value, themselves or by an override that holds.

    Of an override that needs several flags, the innermost that is not to be kept is the reason.
    """
    reasons = list(_direct(setting, bad_value, facts))
    undecided: list[tuple[View, View]] = []
    holding: list[tuple[View, View]] = []
    for result, match in writes(setting, greps):
        if str(match.get("value", "")).lower() != bad_value.lower() or match.get("restores"):
            continue
        if match.get("verdict") == "true":
            holding.append((result, match))
            reasons += _through(result, match, facts, reasons, keep)
        elif match.get("verdict") == "unknown" and not match.get("note"):
            undecided.append((result, match))
    if not reasons:
        reasons += _by_elimination(undecided, facts)
    return Explanation(setting, reasons, undecided, holding)


def _by_elimination(undecided: Sequence[tuple[View, View]], facts: Facts) -> Iterator[Reason]:
    """Name the launch flags of the one assignment that is left, when just one is left and flags guard it."""
    named = [(result, match, _flags_in_guards(match, facts)) for result, match in undecided]
    left = [(result, match, flags) for result, match, flags in named if flags]
    if len(left) != 1:
        return
    result, match, flags = left[0]
    for flag in flags:
        value, quote = as_text(facts.flags[flag]), facts.flag_quote(flag)
        yield Reason(flag, value, quote, match, str(result.get("path", "")), eliminated=True)


def _flags_in_guards(match: View, facts: Facts) -> list[str]:
    conditions = " ".join(str(guard.get("condition")) for guard in rows(match, "guards"))
    attributes = set(re.findall(r"\.(\w+)", conditions))
    return [name for name in facts.flags if name in attributes]


def writes(setting: str, greps: Sequence[View]) -> Iterator[tuple[View, View]]:
    """Yield each assignment of the setting once, in the order of the files."""
    seen: set[tuple[str, int]] = set()
    for view in greps:
        for result, match in matches(view):
            place = (str(result.get("path")), int(match.get("line", 0)))
            if match.get("kind") == "write" and f".{setting}" in str(match.get("text")) and place not in seen:
                seen.add(place)
                yield result, match


def _direct(setting: str, bad_value: str, facts: Facts) -> Iterator[Reason]:
    if setting in facts.flags and as_text(facts.flags[setting]).lower() == bad_value.lower():
        yield Reason(setting, as_text(facts.flags[setting]), facts.flag_quote(setting))


def _through(
    result: View, match: View, facts: Facts, known: Sequence[Reason], keep: Sequence[str]
) -> Iterator[Reason]:
    named = {reason.flag for reason in known}
    given = {
        str(fact.get("name")): fact
        for guard in rows(match, "guards")
        for fact in rows(guard, "decided_by")
        if fact.get("origin") == "flag"
    }
    free = [name for name in given if name not in keep] or list(given)
    if not free or named & set(given):
        return
    name = free[-1]
    beside = tuple(other for other in given if other != name)
    value = as_text(given[name].get("value"))
    yield Reason(name, value, facts.flag_quote(name), match, str(result.get("path", "")), beside=beside)


def deciding(match: View) -> Iterator[Mapping[str, Any]]:
    """Yield the facts that decide the guards of a match, effective values before defaults."""
    facts = [fact for guard in match.get("guards") or [] for fact in guard.get("decided_by") or []]
    # What the server reports says more than a default that was overwritten.
    facts.sort(key=lambda fact: fact.get("origin") != "effective")
    seen: set[tuple[str, str]] = set()
    for fact in facts:
        key = (str(fact.get("name")), str(fact.get("origin")))
        if key not in seen:
            seen.add(key)
            yield fact
