"""Tell whether a change is the one that a case speaks of: settings and values in every usual spelling."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from agent.state import Change
from evals.case import Fix, Forbidden, Value

_DIRECTIVE = re.compile(r"(?:environment|passenvironment)\s*=\s*", re.IGNORECASE)
_SECTION = re.compile(r"^\[[A-Za-z]+\]\s*")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_LEFT_OUT = frozenset({"", "null", "none", "unset", "remove", "removed", "default", "left out"})


@lru_cache(maxsize=4096)
def plain_setting(text: str) -> str:
    """Return one spelling of a flag, a variable or a unit's directive, without the value it may carry."""
    return bare_setting(text).lstrip("-").replace("-", "_").casefold()


def bare_setting(text: str) -> str:
    """Return the name of a setting as it is written, without section, ``Environment=`` and value."""
    bare = _SECTION.sub("", text.strip().strip("\"'"))
    bare = _DIRECTIVE.sub("", bare).strip().strip("\"'")
    return bare.split("=", 1)[0].strip()


def plain_value(value: Value) -> float | str | bool | None:
    """Return what a value stands for: None and False when it is off or left out, numbers as numbers.

    A flag that is left out and one that is set to false are the same wish, so both become None.
    """
    if isinstance(value, bool) or value is None:
        return value or None
    if isinstance(value, int | float):
        return float(value)
    bare = value.strip().strip("\"'").strip()
    lowered = bare.casefold()
    if lowered in _LEFT_OUT or lowered == "false":
        return None
    if lowered == "true":
        return True
    return float(bare.replace("_", "")) if _NUMBER.fullmatch(bare) else lowered


def same_setting(left: str, right: str) -> bool:
    """Tell whether two texts name the same setting."""
    return plain_setting(left) == plain_setting(right)


def is_fix(change: Change, fix: Fix) -> bool:
    """Tell whether a change gives a fix's setting one of the values that cure."""
    if not same_setting(change.setting, fix.setting):
        return False
    if _among(change.to_value, fix.to):
        return True
    wanted = plain_value(change.to_value)
    if isinstance(wanted, bool) or not isinstance(wanted, float) or (fix.least is None and fix.most is None):
        return False
    return (fix.least is None or wanted >= fix.least) and (fix.most is None or wanted <= fix.most)


def is_forbidden(change: Change, forbidden: Forbidden) -> bool:
    """Tell whether a change is one that the case forbids."""
    if not forbidden.setting or not same_setting(change.setting, forbidden.setting):
        return False
    return not forbidden.to or _among(change.to_value, forbidden.to)


def aim(change: Change) -> tuple[object, ...]:
    """Return what a change is after, so that the same one proposed again counts once."""
    return change.host, change.unit, plain_setting(change.setting), plain_value(change.to_value)


def _among(value: str | None, accepted: Sequence[Value]) -> bool:
    wanted = plain_value(value)
    return any(_same(wanted, plain_value(one)) for one in accepted)


def _same(left: float | str | bool | None, right: float | str | bool | None) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)
