"""Bring the view of a search down to the size a model sees, the most telling parts first."""

from __future__ import annotations

import json
from typing import Any

_DETAILS = ("guards", "test")
_SHARE_FOR_DETAILS = 0.75

Row = dict[str, Any]


def fit(view: Row, limit: int, left_out: int, handle: str) -> Row:
    """Return the view within ``limit`` characters: conditions go before matches, matches before files."""
    results: list[Row] = view["results"]
    heads = [{key: value for key, value in result.items() if key != "matches"} for result in results]
    budget = limit - size(view | {"results": []}) - 700
    if size(results) > budget:
        for result in results:
            result["matches"] = [_lean(match) for match in result["matches"]]
    shown = _chosen(results, heads, budget)
    view["results"] = _assembled(results, heads, shown)
    counts = {
        str(result["path"]): missing
        for where, result in enumerate(results)
        if (missing := sum((where, place) not in shown for place in range(len(result["matches"]))))
    }
    without = sum("conditions_left_out" in match for match in shown.values())
    if left_out or counts or without:
        view["cut"] = _cut(left_out + sum(counts.values()), without, counts, handle)
    return view


def _chosen(results: list[Row], heads: list[Row], budget: float) -> dict[tuple[int, int], Row]:
    """Return the matches that fit, by place, the most telling first; some without conditions."""
    ranked = sorted(
        (rank(match, first=where == 0), where, place)
        for where, result in enumerate(results)
        for place, match in enumerate(result["matches"])
    )
    for_details = budget * _SHARE_FOR_DETAILS
    shown: dict[tuple[int, int], Row] = {}
    opened: set[int] = set()
    for _, where, place in ranked:
        match: Row = results[where]["matches"][place]
        head = 0 if where in opened else size(heads[where]) + 16
        for form, room in ((match, min(for_details, budget)), (_brief(match), budget)):
            cost = size(form) + head
            if cost <= room:
                shown[where, place] = form
                opened.add(where)
                budget -= cost
                for_details -= cost
                break
    return shown


def size(part: Any) -> int:
    """Return how many characters a part of a view takes when it is written out."""
    return len(json.dumps(part, ensure_ascii=False)) + 2


def rank(match: Row, *, first: bool) -> int:
    """Order matches by how much they say; ``first`` is true in the file that defines the settings."""
    if match.get("kind") == "write" and "note" not in match:
        return 0 if first else 2
    if match.get("test", {}).get("verdict") == "true":
        return 1
    return {"definition": 1 if first else 4, "write": 4, "read": 3, "mention": 5}.get(
        str(match.get("kind")), 4
    )


def _lean(match: Row) -> Row:
    """Return a match that is not reached with the one condition that decides so."""
    guards = match.get("guards") or []
    deciding = next((guard for guard in guards if guard["verdict"] == "false"), None)
    if deciding is None or len(guards) == 1:
        return match
    return match | {"guards": [deciding], "other_conditions": len(guards) - 1}


def _brief(match: Row) -> Row:
    """Return a match without its conditions, with how many there are."""
    brief = {key: value for key, value in match.items() if key not in _DETAILS}
    number = len(match.get("guards") or []) + ("test" in match)
    return brief | {"conditions_left_out": number} if number else brief


def _assembled(results: list[Row], heads: list[Row], shown: dict[tuple[int, int], Row]) -> list[Row]:
    kept = []
    for where, head in enumerate(heads):
        places = range(len(results[where]["matches"]))
        matches = [shown[where, place] for place in places if (where, place) in shown]
        if matches:
            kept.append(head | {"matches": matches})
    return kept


def _cut(dropped: int, without: int, counts: dict[str, int], handle: str) -> Row:
    cut: Row = {"artifact": handle}
    if dropped:
        cut["matches_left_out"] = dropped
    if counts:
        cut["by_file"] = dict(list(counts.items())[:5])
        if len(counts) > 5:
            cut["more_files"] = len(counts) - 5
    if without:
        cut["matches_without_conditions"] = without
        cut["do"] = "grep in one of these files, or for less, to see the conditions"
    return cut
