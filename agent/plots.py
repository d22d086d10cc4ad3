"""Draw the pictures of a case file as inline SVG: bars with intervals, and a strip of calls over time.

Colours come from classes of the page's style, so that one picture serves light, dark and print. Every text is
escaped here; no attribute ever holds text from a host or a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from tools.display import printable

Tone = Literal["plain", "before", "after", "model", "tool", "step", "failed"]

_WIDTH, _LEFT = 380.0, 78.0
_ROW, _BAR, _HEADING = 26.0, 16.0, 24.0
_LANE = 18.0
_LABEL_CHARS = 40
_DIGIT = 7.4
"""Widest a character of a value is drawn."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One measured number, with its interval where repeats gave one, and a mark to hold it against."""

    label: str
    value: float
    tone: Tone = "plain"
    interval: tuple[float, float] | None = None
    mark: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Bars that belong together, under a heading of their own (empty: none)."""

    heading: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Span:
    """One turn or call on the strip, in seconds since the start."""

    start: float
    end: float
    label: str
    tone: Tone


def number(value: float) -> str:
    """Return a number as people read it here: one decimal from 10 up, three figures below."""
    if not math.isfinite(value):
        return f"{value}"
    size = abs(value)
    figures = 0 if size >= 1000 else 1 if size >= 10 or not value else 2 - math.floor(math.log10(size))
    text = f"{value:,.{min(figures, 4)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def bars(title: str, unit: str, groups: Sequence[Group], limit: tuple[float, str] | None = None) -> Markup:
    """Draw horizontal bars from zero; ``limit`` is a line through all of them, with its name."""
    top = _top(groups, limit)
    values = [f"{number(bar.value)} {unit}" for group in groups for bar in group.bars]
    longest = min(max(map(len, values), default=0), _LABEL_CHARS) * _DIGIT
    scale = max(_WIDTH - _LEFT - 8 - longest, _WIDTH / 5) / top
    parts: list[Markup] = []
    y = 6.0 if limit is None else 22.0
    begin = y
    for group in groups:
        if group.heading:
            parts.append(_text(0, y + 15, group.heading, "plot-heading"))
            y += _HEADING
        for bar in group.bars:
            parts.append(_row(bar, y, scale, unit))
            y += _ROW
    back = [_grid(value, begin, y, scale) for value in _ticks(top)]
    if limit is not None:
        back.append(_limit(limit, y, scale))
    said = "; ".join(f"{bar.label} {number(bar.value)} {unit}" for group in groups for bar in group.bars)
    return _svg(f'viewBox="0 0 {_WIDTH:g} {y + 20:g}" class="plot"', f"{title}: {said}", [*back, *parts])


def strip(spans: Sequence[Span]) -> Markup:
    """Draw spans over time, those that overlap below each other; it is as wide as the page lets it be."""
    total = max((span.end for span in spans), default=0.0) or 1.0
    free: list[float] = []
    drawn: list[Markup] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        shown_end = max(span.end, span.start + total * 0.004)
        lane = next((index for index, end in enumerate(free) if end <= span.start), len(free))
        free[lane : lane + 1] = [shown_end]
        drawn.append(_span(span, lane, shown_end, total))
    below = len(free) * _LANE + 4
    parts: list[Markup] = []
    for value in _ticks(total):
        at = 100 * value / total
        anchor = "start" if at < 4 else "end" if at > 96 else "middle"
        parts.append(
            _text(f"{at:.2f}%", below + 14, f"{number(value)} s", "plot-tick", anchor)
            + Markup('<line x1="{0}" x2="{0}" y1="0" y2="{1}" class="plot-grid"/>').format(
                f"{at:.2f}%", f"{below:g}"
            )
        )
    head = f'width="100%" height="{below + 20:g}" class="strip"'
    return _svg(head, "Turns and calls over time", [*parts, *drawn])


def _top(groups: Sequence[Group], limit: tuple[float, str] | None) -> float:
    seen = [bar.value for group in groups for bar in group.bars]
    seen += [bar.mark for group in groups for bar in group.bars if bar.mark is not None]
    seen += [bar.interval[1] for group in groups for bar in group.bars if bar.interval is not None]
    seen += [limit[0]] if limit else []
    return max([value for value in seen if math.isfinite(value)], default=0.0) or 1.0


def _ticks(top: float) -> list[float]:
    rough = top / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return [step * index for index in range(int(top / step * 1.0001) + 1)]


def _row(bar: Bar, y: float, scale: float, unit: str) -> Markup:
    middle = y + _ROW / 2
    width = max(bar.value * scale, 1.0) if math.isfinite(bar.value) else 1.0
    parts = [
        _text(_LEFT - 8, middle + 4, bar.label, "plot-label", "end"),
        _rect(_LEFT, y + (_ROW - _BAR) / 2, width, _BAR, f"bar tone-{bar.tone}"),
    ]
    end = _LEFT + width
    if bar.mark is not None and math.isfinite(bar.mark):
        at = _LEFT + bar.mark * scale
        parts.append(_line(_LEFT + width, middle, at, middle, "plot-gap"))
        parts.append(_line(at, y + 3, at, y + _ROW - 3, "plot-mark"))
        parts.append(_text(at + 6, middle + 4, number(bar.mark), "plot-tick"))
    if bar.interval is not None and all(map(math.isfinite, bar.interval)):
        low, high = (_LEFT + edge * scale for edge in bar.interval)
        parts.append(_line(low, middle, high, middle, "plot-interval"))
        parts += [_line(at, middle - 4, at, middle + 4, "plot-interval") for at in (low, high)]
        end = max(end, high)
    parts.append(_text(end + 6, middle + 4, f"{number(bar.value)} {unit}", "plot-value"))
    return Markup("").join(parts)


def _grid(value: float, begin: float, end: float, scale: float) -> Markup:
    at = _LEFT + value * scale
    return _line(at, begin, at, end, "plot-grid") + _text(at, end + 14, number(value), "plot-tick", "middle")


def _limit(limit: tuple[float, str], end: float, scale: float) -> Markup:
    at = _LEFT + limit[0] * scale
    return _line(at, 18, at, end, "plot-limit") + _text(at, 12, limit[1], "plot-tick", "middle")


def _span(span: Span, lane: int, shown_end: float, total: float) -> Markup:
    left, width = 100 * span.start / total, 100 * (shown_end - span.start) / total
    seconds = span.end - span.start
    title = Markup("<title>{} ({} s)</title>").format(_shown(span.label), number(seconds))
    y = lane * _LANE
    box = Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="2" class="bar {}">{}</rect>').format(
        f"{left:.2f}%", f"{y:g}", f"{width:.2f}%", f"{_LANE - 3:g}", f"tone-{span.tone}", title
    )
    if width < 12:
        return box
    label = span.label if width > 25 else span.label.split(" ", 1)[0]
    return box + _text(f"{left + 0.7:.2f}%", y + 11.5, label, "strip-label")


def _svg(attributes: str, label: str, parts: Sequence[Markup]) -> Markup:
    body = Markup("").join(parts)
    head = Markup("<title>{}</title>").format(_shown(label, 400))
    return Markup('<svg xmlns="http://www.w3.org/2000/svg" {} role="img">{}{}</svg>').format(
        Markup(attributes), head, body
    )


def _rect(x: float, y: float, width: float, height: float, name: str) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="2" class="{}"/>').format(
        f"{x:.1f}", f"{y:.1f}", f"{width:.1f}", f"{height:.1f}", name
    )


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(
        f"{x1:.1f}", f"{y1:.1f}", f"{x2:.1f}", f"{y2:.1f}", name
    )


def _text(x: float | str, y: float, text: str, name: str, anchor: str = "start") -> Markup:
    at = x if isinstance(x, str) else f"{x:.1f}"
    return Markup('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        at, f"{y:.1f}", name, anchor, _shown(text)
    )


def _shown(text: str, most: int = _LABEL_CHARS) -> Markup:
    flat = " ".join(text.split())
    return escape(printable(flat if len(flat) <= most else f"{flat[: most - 1]}…"))
