"""Make one HTML page of a run: no script, nothing from elsewhere, text of any origin inert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from agent.case_timeline import Turn, spans, turns
from agent.config import Settings
from agent.errors import LeadlineError
from agent.events import ConclusionChecked, Event
from agent.plots import Bar, Group, bars, strip
from agent.transcript import peek_events
from evals import recordings
from evals.compare import Comparison, compare_runs
from evals.intervals import Interval
from evals.jobs import RECORDED
from evals.results import Result
from evals.run import Done
from evals.summary import SCORERS, Means, Summary, succeeded, summarise
from evals.table import HEADINGS, verdict
from prompts.page import render_page
from tools.display import printable

_FOLDER = Path(__file__).parent
_LONGEST = 4_000
_TURNS = 60
"""Turns of a run that are shown; what is longer is in its transcript."""

_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Told:
    """Hold one sample as the page tells it; without events only why there are none."""

    result: Result
    path: Path
    turns: Sequence[Turn] = ()
    left_out: int = 0
    strip: Markup | None = None
    seconds: float = 0.0
    summary: str = ""
    why_not: str = ""

    @property
    def name(self) -> str:
        """Return how people call it."""
        again = f" #{self.result.sample + 1}" if self.result.sample else ""
        return f"{self.result.transcript if self.result.way in RECORDED else self.result.case}{again}"

    @property
    def success(self) -> bool | None:
        """Tell whether it is a success; None when it does not count."""
        return None if self.result.error else succeeded(self.result)


def write(path: Path, done: Done, before: Done | None = None) -> None:
    """Write the page of a run, with its comparison against an earlier one."""
    try:
        path.write_text(page(done, before), encoding="utf-8")
    except OSError as error:
        raise LeadlineError(f"cannot write {path}: {error.strerror}", do="name another file") from error


def page(done: Done, before: Done | None = None) -> str:
    """Return the page of a run."""
    summary = summarise(done)
    found = compare_runs(before, done) if before is not None else None
    return render_page(
        "report",
        _shown,
        _FOLDER,
        run=done.file,
        summary=summary,
        scorers=SCORERS,
        headings=HEADINGS,
        charts=_charts(summary),
        told=[tell(result, done) for result in done.results[:_ROWS]],
        left_out=max(0, len(done.results) - _ROWS),
        compared=found,
        verdict=verdict,
        compared_charts=_differences(found) if found else [],
    )


def tell(result: Result, done: Done) -> Told:
    """Return what happened in a sample, from its transcript."""
    path = _path(result, done)
    if result.error or result.way == "replay":
        return Told(result, path)
    try:
        events = _events(result, done)
    except (LeadlineError, OSError) as error:
        return Told(result, path, why_not=str(error))
    shown, left_out = turns(events)
    half = _TURNS // 2
    if len(shown) > _TURNS:
        left_out += len(shown) - _TURNS
        shown = [*shown[:half], *shown[-half:]]
    return Told(
        result=result,
        path=path,
        turns=shown,
        left_out=left_out,
        strip=strip(spans(events)),
        seconds=(events[-1].at - events[0].at).total_seconds(),
        summary=_concluded(events),
    )


def _path(result: Result, done: Done) -> Path:
    if result.way in RECORDED:
        return done.file.asked.transcripts / f"{result.transcript}.jsonl"
    return done.folder / result.transcript


def _events(result: Result, done: Done) -> Sequence[Event]:
    if result.way in RECORDED:
        return recordings.load(result.transcript, done.file.asked.transcripts, Settings().cache_dir).events
    return peek_events(_path(result, done))


def _concluded(events: Sequence[Event]) -> str:
    found = [event.conclusion.summary for event in events if isinstance(event, ConclusionChecked)]
    return found[-1] if found else "There is no conclusion."


def _charts(summary: Summary) -> list[dict[str, Any]]:
    return [
        {"title": f"{means.way}: {name}", "svg": bars(f"{means.way}: {name}", "", groups)}
        for name, found in (
            ("means", summary.means),
            ("without a playbook of their own", summary.without_playbook),
        )
        for means in found
        if (groups := _bars(means)) and means.way != "replay"
    ]


def _bars(means: Means) -> list[Group]:
    rows = [("success", means.success), ("expected", means.expected)]
    rows += [(HEADINGS[scorer], interval) for scorer, interval in means.scores.items()]
    rows += [("judge", means.judged)]
    return [Group("", [_bar(name, interval) for name, interval in rows if interval is not None])]


def _bar(name: str, found: Interval) -> Bar:
    return Bar(name, found.mean, interval=(found.low, found.high))


def _differences(found: Comparison) -> list[dict[str, Any]]:
    """Draw both ends of each difference as shares below and above no change."""
    charts = []
    for way in found.ways:
        rows = {name: one for name, one in way.differences.items() if name not in ("turns", "seconds")}
        if rows:
            charts.append({"title": f"{way.way}: {found.after} minus {found.before}", "svg": _forest(rows)})
    return charts


_WIDTH, _LEFT, _ROW = 420.0, 110.0, 24.0


def _forest(rows: dict[str, Interval]) -> Markup:
    """Draw differences from -1 to 1 as points with their intervals, the line of no change in the middle."""
    height = _ROW * len(rows) + 24
    middle = _LEFT + (_WIDTH - _LEFT - 10) / 2
    reach = (_WIDTH - _LEFT - 10) / 2

    def at(value: float) -> str:
        return f"{middle + max(-1.0, min(1.0, value)) * reach:.1f}"

    parts = [
        Markup('<line x1="{0}" x2="{0}" y1="0" y2="{1}" class="plot-limit"/>').format(
            at(0), f"{height - 20:g}"
        )
    ]
    for value in (-1, 0, 1):
        parts.append(
            Markup('<text x="{}" y="{}" class="plot-tick" text-anchor="middle">{}</text>').format(
                at(value), f"{height - 6:g}", f"{value:+d}" if value else "0"
            )
        )
    for place, (name, found) in enumerate(rows.items()):
        y = f"{_ROW * place + 12:g}"
        parts.append(
            Markup(
                '<text x="{0}" y="{1}" dy="4" class="plot-label" text-anchor="end">{2}</text>'
                '<line x1="{3}" x2="{4}" y1="{1}" y2="{1}" class="plot-interval"/>'
                '<circle cx="{5}" cy="{1}" r="4" class="bar tone-after"/>'
            ).format(f"{_LEFT - 10:g}", y, name, at(found.low), at(found.high), at(found.mean))
        )
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" class="plot" role="img">{}</svg>'
    ).format(f"{_WIDTH:g}", f"{height:g}", Markup("").join(parts))


def _shown(value: Any) -> Any:
    """Make every text on its way into the page visible and bounded; markup made here passes as it is."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    if len(value) > _LONGEST:
        value = f"{value[:_LONGEST]} … [{len(value) - _LONGEST:,} more characters, in the transcript]"
    return printable(value)
