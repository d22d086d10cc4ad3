"""Draw before and after of a change as a picture: decode throughput by concurrency, with its interval."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from agent.events import Event, Judged
from agent.state import LevelComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEFORE: Final = "#8a8f98"
_AFTER: Final = "#1d8a4b"
_WORSE: Final = "#b3372f"


def has_plot(events: Sequence[Event]) -> bool:
    """Tell whether something was measured before and after."""
    return _judged(events) is not None


def before_after(events: Sequence[Event]) -> tuple[bytes, str] | None:
    """Return a PNG of the last change that was measured, and what it shows in words; None without one."""
    judged = _judged(events)
    if judged is None:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    levels = _levels(judged)
    figure = Figure(figsize=(7.2, 3.6), dpi=110)
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    _bars(axes, levels)
    axes.set_title(f"{judged.change}: decode throughput before and after", fontsize=11)
    figure.tight_layout()
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue(), _words(judged.change, levels)


def _bars(axes: Axes, levels: Sequence[LevelComparison]) -> None:
    width = 0.38
    for place, level in enumerate(levels):
        assert level.before is not None and level.after is not None  # only such levels are drawn
        tone = _WORSE if level.verdict == "worse" else _AFTER
        axes.bar(place - width / 2, level.before, width, color=_BEFORE, label="before" if not place else None)
        axes.bar(place + width / 2, level.after, width, color=tone, label="after" if not place else None)
        if level.low is not None and level.high is not None:
            low, high = level.low * level.before, level.high * level.before
            axes.vlines(place + width / 2, low, high, color="black", linewidth=1.2)
        axes.text(
            place - width / 2, level.before, f"{level.before:.1f}", ha="center", va="bottom", fontsize=9
        )
        axes.text(place + width / 2, level.after, f"{level.after:.1f}", ha="center", va="bottom", fontsize=9)
    axes.set_xticks(range(len(levels)), [f"{level.concurrency} at once" for level in levels])
    axes.set_ylabel("tokens per second")
    axes.margins(y=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)


def _judged(events: Sequence[Event]) -> Judged | None:
    found = [event for event in events if isinstance(event, Judged) and _levels(event)]
    return found[-1] if found else None


def _levels(judged: Judged) -> list[LevelComparison]:
    whole = (level for level in judged.comparison.levels)
    return [level for level in whole if level.before is not None and level.after is not None]


def _words(change: str, levels: Sequence[LevelComparison]) -> str:
    from agent.surfaces.terminal import level_line

    return f"{change}: " + "; ".join(level_line(level) for level in levels)
