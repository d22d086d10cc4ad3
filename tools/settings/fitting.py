"""Cut an answer about settings to what a model may see of one call, what tells least going first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

Part = dict[str, Any]


def fit(answer: Part, limit: int) -> Part:
    """Cut an answer in place until it has so few characters; what went is said."""
    for step in _STEPS:
        if _size(answer) <= limit:
            return answer
        for one in answer.get("settings", {}).values():
            step(one)
        answer["cut"] = "parts are left out; ask for fewer names"
    settings: Part = answer.get("settings", {})
    names = list(settings)
    while _size(answer) > limit and len(names) > 1:
        names = names[: len(names) * 3 // 4]
        answer["settings"] = {name: settings[name] for name in names}
        answer["cut"] = f"{len(names)} of {len(settings)} settings are shown; name those you want"
    for key in ("suspects", "problems"):
        rows = answer.get(key, [])
        while _size(answer) > limit and len(rows) > 1:
            rows = rows[: len(rows) * 3 // 4]
            answer["cut"] = f"{len(rows)} of {len(answer[key])} {key} are shown"
            answer[key] = rows
    return answer


def _size(answer: Part) -> int:
    return len(json.dumps(answer, ensure_ascii=False))


def _drop(one: Part, *names: str) -> None:
    for name in names:
        one.pop(name, None)


def _fewer(one: Part, key: str, most: int) -> None:
    rows = one.get(key, [])
    if len(rows) > most:
        one[key] = rows[:most]
        one.setdefault("cut", {})[key] = f"{most} of {len(rows)}"


def _groups(one: Part) -> Iterator[Part]:
    groups = one.get("assigned")
    yield from groups if isinstance(groups, list) else ()


def _shorter_readers(one: Part) -> None:
    for reader in one.get("readers", ()):
        _drop(reader, "then")
        reader["at"] = reader["at"][:2]


def _shorter_guards(one: Part) -> None:
    """Leave of the guards of what happens, or may, the last, which is the nearest."""
    for group in _groups(one):
        for row in group["rows"]:
            if len(row.get("guards", ())) > 1:
                row["guards"] = row["guards"][-1:]


def _without_guards(one: Part) -> None:
    for group in _groups(one):
        if group["result"] == "cannot fire":
            for row in group["rows"]:
                _drop(row, "guard", "guard_at", "of")


def _fewer_rows(one: Part) -> None:
    for group in _groups(one):
        _fewer(group, "rows", 4)


def _short_values(one: Part) -> None:
    text = json.dumps(one.get("value"))
    if len(text) > 200:
        one["value"] = f"{text[:200]} [cut]"


_STEPS: Final[tuple[Callable[[Part], None], ...]] = (
    _shorter_readers,
    lambda one: _fewer(one, "readers", 3),
    _short_values,
    _shorter_guards,
    _without_guards,
    _fewer_rows,
    lambda one: _drop(one, "observed", "alternatives", "set_for_a_while"),
    lambda one: _drop(one, "assigned", "needs"),
    lambda one: _drop(one, "readers", "log"),
)
