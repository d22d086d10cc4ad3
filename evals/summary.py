"""Sum a run up: a row a case, and by way the means with their intervals and what did not count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import get_args

from pydantic import Field

from agent.errors import LeadlineError
from agent.state import Record
from evals import case
from evals.case import Scorer
from evals.intervals import Interval, mean_interval
from evals.jobs import EVERY
from evals.results import Result, Way
from evals.run import Done

SCORERS: tuple[Scorer, ...] = get_args(Scorer)


class Row(Record):
    """Hold what came of one case in one way, or of one recording: the mean over its samples."""

    way: Way
    case: str
    recording: str = ""
    samples: int = Field(description="Those that count.")
    scores: dict[Scorer, float] = Field(default_factory=dict)
    success: float | None = Field(default=None, description="Share of samples; None: nothing counts.")
    expected: float | None = Field(
        default=None, description="Share of samples with nothing of `expect` below 1."
    )
    judged: float | None = Field(
        default=None, description="Mean of what the judge model says; in no other figure."
    )
    turns: float | None = None
    tokens: float | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    cpu_s: float | None = None
    errors: list[str] = Field(default_factory=list, description="Why samples do not count.")
    unjudged: list[str] = Field(default_factory=list, description="Why the judge model gave no answer.")
    differences: list[str] = Field(default_factory=list)

    @property
    def name(self) -> str:
        """Return how people call it: the recording, else the case."""
        return self.recording or self.case


class Means(Record):
    """Hold the means over the rows of one way."""

    way: Way
    rows: int
    counted: int = Field(description="Samples that count.")
    not_counted: int
    success: Interval | None
    expected: Interval | None
    scores: dict[Scorer, Interval]
    judged: Interval | None = Field(default=None, description="Over the rows that the judge answered.")


class Summary(Record):
    """Hold a run as it is printed, compared and gated."""

    run: str
    model: str
    product: str
    judge: str = Field(default="", description="Model that adds an opinion; empty: none.")
    rows: list[Row]
    means: list[Means]
    without_playbook: list[Means] = Field(
        description="The same, over cases that no playbook was written for."
    )
    counted: int
    not_counted: int
    missing: int = Field(description="Jobs that were not done: the run was stopped.")
    not_recorded: dict[str, list[str]] = Field(description="Coverage: what was asked and no scenario tells.")


def summarise(done: Done) -> Summary:
    """Sum up what a run has so far."""
    rows = [_row(list(group)) for group in _grouped(done.results)]
    own = _with_playbook(done)
    counted = len(done.counted)
    return Summary(
        run=done.file.id,
        model=done.file.model,
        product=done.file.product,
        judge=done.file.judge,
        rows=rows,
        means=_means(rows, done.results),
        without_playbook=_means(
            [row for row in rows if row.case not in own and row.way != "replay"],
            [result for result in done.results if result.case not in own],
        ),
        counted=counted,
        not_counted=len(done.results) - counted,
        missing=done.missing,
        not_recorded={result.key: result.not_recorded for result in done.results if result.not_recorded},
    )


def row_key(result: Result) -> tuple[Way, str, str]:
    """Return what the samples of one row share."""
    return result.way, result.case, result.transcript if result.way in ("score", "replay") else ""


def succeeded(result: Result) -> bool:
    """Tell whether a sample that counts is a success: a replay is one when nothing differs."""
    return result.score.success if result.score is not None else not result.differences


def _grouped(results: Sequence[Result]) -> Iterable[list[Result]]:
    groups: dict[tuple[Way, str, str], list[Result]] = {}
    for result in results:
        groups.setdefault(row_key(result), []).append(result)
    return groups.values()


def _row(results: Sequence[Result]) -> Row:
    way, name, recording = row_key(results[0])
    counted = [result for result in results if not result.error]
    scored = [result.score for result in counted if result.score is not None]
    values = {
        scorer: [value for score in scored if (value := score.scores.get(scorer)) is not None]
        for scorer in SCORERS
    }
    return Row(
        way=way,
        case=name,
        recording=recording,
        samples=len(counted),
        scores={scorer: fmean(found) for scorer, found in values.items() if found},
        success=_mean(float(succeeded(result)) for result in counted),
        expected=_mean(float(not score.below) for score in scored),
        judged=_mean(result.judged for result in counted if result.judged is not None),
        turns=_mean(float(score.turns) for score in scored),
        tokens=_mean(float(score.tokens) for score in scored),
        cost_usd=_mean(score.cost_usd for score in scored),
        seconds=_mean(result.wall_s for result in counted),
        cpu_s=_mean(result.cpu_s for result in counted),
        errors=[result.error for result in results if result.error],
        unjudged=[result.judge_says for result in counted if result.judged is None and result.judge_says],
        differences=list(dict.fromkeys(text for result in counted for text in result.differences)),
    )


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None


def _means(rows: Sequence[Row], results: Sequence[Result]) -> list[Means]:
    found = []
    for way in EVERY:
        mine = [row for row in rows if row.way == way]
        if not mine:
            continue
        counts = [not result.error for result in results if result.way == way]
        found.append(
            Means(
                way=way,
                rows=len(mine),
                counted=sum(counts),
                not_counted=len(counts) - sum(counts),
                success=_interval((row.case, row.success) for row in mine),
                expected=_interval((row.case, row.expected) for row in mine),
                judged=_interval((row.case, row.judged) for row in mine),
                scores={
                    scorer: interval
                    for scorer in SCORERS
                    if (interval := _interval((row.case, row.scores.get(scorer)) for row in mine)) is not None
                },
            )
        )
    return found


def by_case(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Return one value a case, the mean of those that are known: recordings of one case are alike."""
    found: dict[str, list[float]] = {}
    for name, value in values:
        if value is not None:
            found.setdefault(name, []).append(value)
    return {name: fmean(known) for name, known in sorted(found.items())}


def _interval(values: Iterable[tuple[str, float | None]]) -> Interval | None:
    known = list(by_case(values).values())
    return mean_interval(known) if known else None


def _with_playbook(done: Done) -> set[str]:
    """Return the cases that a playbook was written for."""
    found = set()
    for name in {job.case for job in done.file.jobs}:
        try:
            if case.load(name, done.file.asked.cases).playbook is not None:
                found.add(name)
        except LeadlineError:
            continue  # it did not count, and its line says why
    return found
