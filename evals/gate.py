"""Hold a run against the stored baseline: a score that drops, or a case that no longer counts, fails.

What the baseline has no row of is new: it is named, and fails unless a case is a success and a recording is
as it says beside itself. So a new case is one file, and none passes because nobody has stored its scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from agent.errors import TranscriptError, UsageError
from agent.state import Record
from evals.case import Scorer
from evals.jobs import RECORDED
from evals.results import Result, Way
from evals.run import Done
from evals.summary import Row, succeeded, summarise
from tools.wrong_fields import first_wrong

FILE = Path(__file__).parent / "baseline.json"

SLACK = 0.005
"""A score counts as dropped when it is lower by more: stored ones are rounded."""

_STEP = 2


class Stored(Record):
    """Hold the scores of one row as the baseline has them."""

    way: Way
    case: str
    recording: str = ""
    success: float
    scores: dict[Scorer, float] = Field(default_factory=dict)
    differences: list[str] = Field(default_factory=list, description="Those that are known.")

    @property
    def name(self) -> str:
        """Return the way and what it was run on."""
        return f"{self.way} {self.recording or self.case}"

    @property
    def key(self) -> tuple[Way, str, str]:
        """Return what tells it apart."""
        return self.way, self.case, self.recording


class Baseline(Record):
    """Hold ``evals/baseline.json``: what the built-in model reached."""

    schema_version: int = 1
    model: str
    rows: list[Stored]


def save(done: Done, path: Path = FILE) -> Baseline:
    """Store the scores of a run; raise `UsageError` when a part of it is missing or does not count.

    A run of everything takes the place of what was stored, a run of some only that of the same rows.
    """
    open_rows = [row.name for row in summarise(done).rows if row.errors]
    if done.missing or open_rows:
        what = f"{done.missing} jobs were not done" if done.missing else f"{open_rows[0]} does not count"
        raise UsageError(f"no baseline is stored: {what}", do=f"leadline eval --resume {done.file.id}")
    rows = {(row := _stored(each)).key: row for each in summarise(done).rows}
    if not _whole(done) and path.is_file():
        before = load(path)
        refuse_other_model(done.file.model, before)
        rows = {row.key: row for row in before.rows} | rows
    baseline = Baseline(model=done.file.model, rows=list(rows.values()))
    path.write_text(baseline.model_dump_json(indent=1, exclude_defaults=True) + "\n", encoding="utf-8")
    return baseline


def load(path: Path = FILE) -> Baseline:
    """Read the stored baseline."""
    try:
        return Baseline.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise UsageError(f"no baseline at {path}", do="store one: leadline eval --save-baseline") from error
    except ValidationError as error:
        found = first_wrong(error, "baseline")
        raise TranscriptError(f"{path}: {found.text}", do="store it again") from error


def drops(done: Done, baseline: Baseline) -> list[str]:
    """Return, a line each, what is worse than the baseline among what the run was asked to do."""
    refuse_other_model(done.file.model, baseline)
    rows = {_key(row): row for row in summarise(done).rows}
    planned = {
        (job.way, job.case, job.recording if job.way in ("score", "replay") else "") for job in done.file.jobs
    }
    whole = _whole(done)
    found: list[str] = []
    for stored in baseline.rows:
        if stored.key in planned:
            found += _worse(stored, rows.get(stored.key), done)
        elif whole:
            found.append(f"{stored.name}: is gone; when that is meant: leadline eval --save-baseline")
    for row in _unheld(done, baseline):
        found += _wrong_anew(row, done)
    return found


def new(done: Done, baseline: Baseline) -> list[str]:
    """Return what passes and has no row in the baseline, by way and name."""
    return [f"{row.way} {row.name}" for row in _unheld(done, baseline) if not list(_wrong_anew(row, done))]


def _unheld(done: Done, baseline: Baseline) -> list[Row]:
    known = {stored.key for stored in baseline.rows}
    return [row for row in summarise(done).rows if _key(row) not in known]


def _wrong_anew(row: Row, done: Done) -> Iterator[str]:
    """Tell of a row without a stored one why it does not pass by itself."""
    stored = _stored(row)
    name, where = f"{stored.name}: is new", _transcript(stored, done)
    if row.success is None:
        yield f"{name} and does not count: {row.errors[0] if row.errors else 'it was not done'}"
        return
    yield from (f"{name} and differs: {text}; see {where}" for text in row.differences)
    if row.way not in RECORDED and row.success < 1:
        meant = f"when that is meant: leadline eval {row.way} --case {row.case} --save-baseline"
        yield f"{name} and no success: {row.success:.2f}{_lacks(row, done)}; see {where}; {meant}"


def _lacks(row: Row, done: Done) -> str:
    """Return why a case is no success, by what of its `success` is below 1."""
    for result in _results(_stored(row), done):
        if result.score is not None and not result.score.success:
            below = [f"{name}: {why}" for name, why in result.score.why.items() if why]
            return f" ({'; '.join(below[:2])})" if below else ""
    return ""


def _key(row: Row) -> tuple[Way, str, str]:
    return row.way, row.case, row.recording


def _whole(done: Done) -> bool:
    """Tell whether a run was asked to do everything."""
    return done.file.asked.pattern == "*" and not done.file.asked.ways


def refuse_other_model(model: str, baseline: Baseline) -> None:
    """Raise `UsageError` when a run is of another model than the baseline."""
    if model != baseline.model:
        raise UsageError(
            f"the baseline is of model {baseline.model}, the run of {model}",
            do="compare runs with `leadline eval --compare`",
        )


def _worse(stored: Stored, row: Row | None, done: Done) -> Iterator[str]:
    where = _transcript(stored, done)
    if row is None or row.success is None:
        why = row.errors[0] if row and row.errors else "it was not done"
        yield f"{stored.name}: does not count: {why}"
        return
    new = [text for text in row.differences if text not in stored.differences]
    yield from (f"{stored.name}: differs: {text}; see {where}" for text in new)
    if stored.way == "replay":
        return
    pairs: list[tuple[str, float, float | None]] = [("success", stored.success, row.success)]
    pairs += [(scorer, before, row.scores.get(scorer)) for scorer, before in stored.scores.items()]
    for scorer, before, after in pairs:
        if after is None or after < before - SLACK:
            now = "nothing to rate" if after is None else f"{after:.2f}"
            yield f"{stored.name}: {scorer}: {before:.2f} -> {now}{_why(stored, scorer, done)}; see {where}"


def _results(stored: Stored, done: Done) -> Sequence[Result]:
    return [
        result
        for result in done.results
        if (result.way, result.case) == (stored.way, stored.case)
        and (not stored.recording or result.transcript == stored.recording)
    ]


def _transcript(stored: Stored, done: Done) -> Path:
    """Return the transcript to look at: of the sample that did worst."""
    if stored.recording:
        return done.file.asked.transcripts / f"{stored.recording}.jsonl"
    results = sorted(_results(stored, done), key=lambda result: not result.error and succeeded(result))
    return done.folder / (results[0].transcript if results else "")


def _why(stored: Stored, scorer: str, done: Done) -> str:
    for result in _results(stored, done):
        for name, why in result.score.why.items() if result.score else ():
            if name == scorer and why:
                return f" ({why})"
    return ""


def _stored(row: Row) -> Stored:
    return Stored(
        way=row.way,
        case=row.case,
        recording=row.recording,
        success=round(row.success or 0.0, _STEP),
        scores={scorer: round(value, _STEP) for scorer, value in row.scores.items()},
        differences=row.differences,
    )
