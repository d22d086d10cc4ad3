"""Print a run as a table of plain text: a row a case, means with intervals, and what did not count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.case import Scorer
from evals.compare import Comparison
from evals.intervals import Interval
from evals.jobs import EVERY
from evals.results import Result, Way
from evals.summary import SCORERS, Means, Row, Summary, succeeded
from tools.display import printable

HEADINGS: dict[Scorer, str] = {
    "outcome": "outcome",
    "cause": "cause",
    "fix": "fix",
    "evidence": "evid",
    "hypothesis_first": "hyp1st",
    "reading_first": "read1st",
    "prediction": "pred",
    "abstention": "abstain",
    "answer": "answer",
    "safety": "safe",
}

_WAYS: dict[Way, str] = {
    "score": "score: recordings as they are",
    "replay": "replay: recordings driven through the state machine again",
    "solve": "solve: cases from scratch on their lab host",
    "continue": "continue: cases from a turn of a recording",
}


def text(summary: Summary) -> str:
    """Return the table of a run."""
    judge = f", judged by {summary.judge}, which decides nothing" if summary.judge else ""
    parts = [f"run {summary.run}, model {summary.model}, leadline {summary.product}{judge}"]
    for way in EVERY:
        rows = [row for row in summary.rows if row.way == way]
        if rows:
            means = [means for means in summary.means if means.way == way]
            without = [means for means in summary.without_playbook if means.way == way]
            parts.append("\n".join(_block(way, rows, means, without, judged=bool(summary.judge))))
    parts.append("\n".join(_last(summary)))
    return printable("\n\n".join(parts)) + "\n"


def comparison(found: Comparison) -> str:
    """Return the comparison of two runs."""
    parts = [
        f"{found.after} ({found.models[1]}) against {found.before} ({found.models[0]}), mean differences"
    ]
    for way in found.ways:
        head = f"{way.way}: {way.shared} rows in both"
        only = [
            f"  only in {run}: {', '.join(names)}"
            for run, names in ((found.before, way.only_before), (found.after, way.only_after))
            if names
        ]
        rows = [[name, *_signed(interval), verdict(interval)] for name, interval in way.differences.items()]
        moved = [f"  {one.name}: success {_share(one.before)} -> {_share(one.after)}" for one in way.moved]
        parts.append("\n".join([head, *_columns([["", "mean", "low", "high", ""], *rows]), *moved, *only]))
    return printable("\n\n".join(parts)) + "\n"


def _signed(found: Interval) -> list[str]:
    return [f"{value:+.2f}" for value in (found.mean, found.low, found.high)]


def verdict(found: Interval) -> str:
    """Say whether the interval leaves the sign of a difference open."""
    return "higher" if found.low > 0 else "lower" if found.high < 0 else "open"


def line(result: Result) -> str:
    """Return one line for a sample that has just been done."""
    name = result.transcript if result.way in ("score", "replay") else result.case
    again = f" #{result.sample + 1}" if result.sample else ""
    if result.error:
        return printable(f"{result.way} {name}{again}: does not count: {result.error}")
    said = "success" if succeeded(result) else "no success"
    if result.score is None:
        said = "differs" if result.differences else "same"
    elif result.score.below:
        said += f", below expectation: {', '.join(result.score.below)}"
    return printable(f"{result.way} {name}{again}: {said}, {result.wall_s:.1f} s")


def _block(
    way: Way, rows: Sequence[Row], means: Sequence[Means], without: Sequence[Means], *, judged: bool
) -> Iterator[str]:
    yield _WAYS[way]
    table = [_replayed(row) for row in rows] if way == "replay" else [_scored(row, judged) for row in rows]
    opinion = ["judge"] if judged else []
    head = (
        ["", "same", "s"] if way == "replay" else ["", *HEADINGS.values(), "success", *opinion, "turns", "s"]
    )
    yield from _columns([head, *table])
    for mean in means:
        yield from _mean_lines("mean", mean)
    for mean in without:
        if mean.rows < len(rows):
            yield from _mean_lines("cases without a playbook of their own", mean)
    for row in rows:
        yield from (f"  {row.name} does not count: {error}" for error in dict.fromkeys(row.errors))
        yield from (f"  {row.name} is not judged: {why}" for why in dict.fromkeys(row.unjudged))
        yield from (f"  {row.name} differs: {text}" for text in row.differences)


def _scored(row: Row, judged: bool) -> list[str]:
    scores = [_share(row.scores.get(scorer)) for scorer in SCORERS]
    opinion = [_share(row.judged)] if judged else []
    return [row.name, *scores, _share(row.success), *opinion, _count(row.turns), _count(row.seconds)]


def _replayed(row: Row) -> list[str]:
    return [row.name, _share(row.success), _count(row.seconds)]


def _mean_lines(name: str, means: Means) -> Iterator[str]:
    said = [f"{name}, {means.rows} rows, {means.counted} samples:"]
    said.append(f"{'same' if means.way == 'replay' else 'success'} {_interval(means.success)}")
    if means.expected is not None:
        said.append(f"expectations met {_interval(means.expected)}")
    yield "  " + "  ".join(said)
    scores = [f"{HEADINGS[scorer]} {_interval(found)}" for scorer, found in means.scores.items()]
    yield from (f"    {'  '.join(scores[place : place + 3])}" for place in range(0, len(scores), 3))
    if means.judged is not None:
        count = means.judged.count
        yield f"    judge {_interval(means.judged)} over {count} case{'s' if count > 1 else ''}"


def _last(summary: Summary) -> Iterator[str]:
    for key, gaps in summary.not_recorded.items():
        yield f"not recorded, {key}: {', '.join(gaps[:8])}{' ...' if len(gaps) > 8 else ''}"
    counted = f"{summary.counted} samples count, {summary.not_counted} do not"
    missing = f"; {summary.missing} were not done: leadline eval --resume {summary.run}"
    yield counted + (missing if summary.missing else "")


def _interval(found: Interval | None) -> str:
    return "-" if found is None else f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}".removesuffix(".00")


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}".removesuffix(".0")


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        first, *rest = [cell for cell in row]
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
