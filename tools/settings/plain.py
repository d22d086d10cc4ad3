"""Turn single parts of an explanation into JSON types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.settings.types import Cite, Condition


def plain(value: Any) -> Any:
    """Return a value in JSON types; what has no JSON form becomes text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, set | frozenset):
        return [plain(part) for part in sorted(value, key=repr)]
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    return repr(value)[:300]


def cite_text(cite: Cite | None) -> str | None:
    """Return a citation in one word."""
    return str(cite) if cite is not None else None


def condition_view(one: Condition) -> dict[str, Any]:
    """Return a condition with its verdict and the reason."""
    view: dict[str, Any] = {
        "text": one.text,
        "verdict": one.verdict,
        "because": one.because,
        "cite": str(one.cite),
    }
    return view | ({"needs": list(one.needs)} if one.needs else {})
