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

    @property
    def option(self) -> str:
        """Return the flag as it is written on a command line."""
        return "--" + self.flag.replace("_", "-")


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


def explain(setting: str, bad_value: str, facts: Facts, greps: Sequence[View]) -> Explanation:
    """Find every launch flag that gives ``setting`` the value, itself or by an override that holds."""
    reasons = list(_direct(setting, bad_value, facts))
    undecided: list[tuple[View, View]] = []
    holding: list[tuple[View, View]] = []
    for result, match in writes(setting, greps):
        if str(match.get("value", "")).lower() != bad_value.lower() or match.get("restores"):
            continue
        if match.get("verdict") == "true":
            holding.append((result, match))
            reasons += _through(result, match, facts, reasons)
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


def _through(result: View, match: View, facts: Facts, known: Sequence[Reason]) -> Iterator[Reason]:
    named = {reason.flag for reason in known}
    for fact in deciding(match):
        name = str(fact.get("name"))
        if fact.get("origin") == "flag" and name not in named:
            named.add(name)
            path = str(result.get("path", ""))
            yield Reason(name, as_text(fact.get("value")), facts.flag_quote(name), match, path)


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


def where_it_stands(option: str, unit_text: str) -> tuple[str, str] | None:
    """Return file and line of the last place in ``systemctl cat`` output that holds the option."""
    path, found = "", None
    for line in unit_text.splitlines():
        if line.startswith("# /"):
            path = line[2:].strip()
        elif option in line.replace("=", " ").split() and not line.lstrip().startswith("#"):
            found = (path, line.strip())
    return found


def comments_about(setting: str, unit_text: str) -> list[str]:
    """Return comment lines of the unit's files that share a word with the setting: why it was set."""
    words = {word for word in setting.split("_") if len(word) > 3} - {"disable", "enable", "size"}
    lines = [line.strip() for line in unit_text.splitlines() if line.lstrip().startswith(("#", ";"))]
    return [
        line for line in lines if not line.startswith("# /") and any(word in line.lower() for word in words)
    ]
