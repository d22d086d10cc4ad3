"""Draw what changes did as a picture: decode throughput by concurrency, before and after each of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent.events import Event, Judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEFORE: Final = "#8a8f98"
_KEPT: Final = ("#1d8a4b", "#2f6fb3", "#7a4fa3", "#b07a1f")
_NOT_KEPT: Final = "#d9a6a2"


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one measured state: its name, and by concurrency its throughput and interval."""

    label: str
    colour: str
    at: dict[int, tuple[float, float, float]]


def has_plot(events: Sequence[Event]) -> bool:
    """Tell whether something was measured before and after."""
    return len(_rows(events)) > 1


def before_after(events: Sequence[Event]) -> tuple[bytes, str] | None:
    """Return a PNG of every change that was measured, and what it shows in words; None without one."""
    rows = _rows(events)
    if len(rows) < 2:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.8), dpi=110)
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    _bars(axes, rows)
    axes.set_title("Decode throughput before and after", fontsize=11)
    figure.tight_layout()
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue(), _words(events)


def _rows(events: Sequence[Event]) -> list[Row]:
    """Return the state at first, then the one after each change, in the order in which they were tried."""
    rows: list[Row] = []
    for event in events:
        if not isinstance(event, Judged):
            continue
        levels = [level for level in event.comparison.levels if level.before and level.after]
        if not levels:
            continue
        if not rows:
            rows.append(Row("before", _BEFORE, {one.concurrency: _exact(one.before) for one in levels}))
        kept = event.comparison.kept
        colour = _KEPT[(len(rows) - 1) % len(_KEPT)] if kept else _NOT_KEPT
        at = {
            one.concurrency: (
                one.after or 0.0,
                (one.low or 0.0) * (one.before or 0.0) or (one.after or 0.0),
                (one.high or 0.0) * (one.before or 0.0) or (one.after or 0.0),
            )
            for one in levels
        }
        rows.append(Row(f"after {event.change}{'' if kept else ' (not kept)'}", colour, at))
    return rows


def _exact(value: float | None) -> tuple[float, float, float]:
    number = value or 0.0
    return number, number, number


def _bars(axes: Axes, rows: Sequence[Row]) -> None:
    levels = sorted({level for row in rows for level in row.at})
    width = 0.8 / len(rows)
    top = max(high for row in rows for _, _, high in row.at.values())
    for number, row in enumerate(rows):
        for place, level in enumerate(levels):
            if level not in row.at:
                continue
            value, low, high = row.at[level]
            x = place + (number - (len(rows) - 1) / 2) * width
            axes.bar(x, value, width * 0.95, color=row.colour, label=row.label if not place else None)
            if high > low:
                axes.vlines(x, low, high, color="black", linewidth=1.2)
            axes.text(x, max(value, high) + top * 0.015, f"{value:.1f}", ha="center", va="bottom", fontsize=9)
    axes.set_xticks(range(len(levels)), [f"{level} at once" for level in levels])
    axes.set_ylabel("tokens per second")
    axes.margins(y=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left")


def _words(events: Sequence[Event]) -> str:
    from agent.surfaces.answer_text import level_line

    judged = [event for event in events if isinstance(event, Judged)]
    return "\n".join(
        f"{event.change}: " + "; ".join(level_line(level) for level in event.comparison.levels)
        for event in judged
    )
