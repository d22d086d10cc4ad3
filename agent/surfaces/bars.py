"""Plot measurements in a terminal: before and after of a change, and a sweep over concurrency."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from agent.plots import number
from agent.state import LevelComparison
from agent.surfaces.progress import bar
from agent.surfaces.wrapping import cells

Line = tuple[str, str]
"""A text and its style."""

Row = tuple[str, float, str]
"""A label, a value, and a style."""

_LEAST = 3
"""Levels from which a benchmark is a sweep."""

_NARROWEST_BAR, _WIDEST_BAR = 6, 60


def before_after(
    levels: Sequence[LevelComparison], width: int, *, plain: bool = False
) -> list[tuple[str, str]]:
    """Return lines with their styles: two bars for each concurrency that was measured before and after."""
    rows: list[Row] = []
    for level in levels:
        if level.before is None or level.after is None:
            continue
        rows.append((f"at {level.concurrency} before", level.before, "blue"))
        rows.append(
            (f"at {level.concurrency} after", level.after, "green" if level.after >= level.before else "red")
        )
    return _drawn(rows, width, plain=plain)


def sweep(view: str, width: int, *, plain: bool = False) -> list[Line]:
    """Return lines with their styles for the result of a benchmark over several concurrencies; else none."""
    totals: dict[int, list[float]] = {}
    for run in _runs(view):
        level, total = run.get("concurrency"), run.get("output_throughput")
        if isinstance(level, int) and isinstance(total, int | float) and math.isfinite(total):
            totals.setdefault(level, []).append(float(total))
    if len(totals) < _LEAST:
        return []
    rows = [(f"at {level}", fmean(found), "cyan") for level, found in sorted(totals.items())]
    return _drawn(rows, width, plain=plain)


def _runs(view: str) -> Sequence[Mapping[str, Any]]:
    try:
        found = json.loads(view)
    except ValueError:
        return []
    runs = found.get("runs") if isinstance(found, dict) else None
    return [run for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []


def _drawn(rows: Sequence[Row], width: int, *, plain: bool) -> list[Line]:
    if not rows:
        return []
    most = max(value for _, value, _ in rows)
    labels = max(cells(label) for label, _, _ in rows)
    values = [f"{number(value)} tok/s" for _, value, _ in rows]
    room = width - labels - max(map(cells, values)) - 6
    size = min(_WIDEST_BAR, room)
    lines: list[Line] = []
    for (label, value, style), told in zip(rows, values, strict=True):
        drawn = bar(value / most if most > 0 else 0.0, size, plain=plain) if size >= _NARROWEST_BAR else ""
        full = drawn.rstrip("·.") if drawn else ""
        lines.append((f"    {label:<{labels}} {full} {told}".rstrip(), style))
    return lines
