"""Compare our evaluation with records, setting by setting: right, wrong or unknown."""

from __future__ import annotations

import dataclasses
import enum
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from evals.truth import facts, models, read
from evals.truth.read import Recorded, RecordFile
from tools.settings.evaluate import evaluate
from tools.settings.source import LocalTree
from tools.settings.types import Effective, Evaluation

Mark = Literal["agree", "wrong", "unknown"]
_AT_ONCE = 4
"""Lines of one job: few, so that processes end together."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Hold one setting of one line that came out wrong."""

    ident: str
    name: str
    recorded: Any
    ours: Any


@dataclass(slots=True)
class Outcome:
    """Hold how one line, or all lines of a release, came out."""

    engine: str
    version: str
    lines: int = 0
    refused: int = 0
    refusals: Counter[Mark] = field(default_factory=Counter)
    """By line: do we say accepted or refused as the engine did?"""
    pairs: Counter[Mark] = field(default_factory=Counter)
    """By setting and accepted line."""
    drawn: int = 0
    """Of the pairs that agree: values drawn at random, which are rightly unknown."""
    missed: int = 0
    """Of the unknown ones: those whose few alternatives lack the recorded value."""
    unknown: Counter[str] = field(default_factory=Counter)
    needs: Counter[str] = field(default_factory=Counter)
    wrong: list[Difference] = field(default_factory=list)
    misjudged: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Outcome) -> None:
        """Add the counts of another."""
        self.lines += other.lines
        self.refused += other.refused
        self.drawn += other.drawn
        self.missed += other.missed
        self.seconds += other.seconds
        for name in ("refusals", "pairs", "unknown", "needs"):
            getattr(self, name).update(getattr(other, name))
        self.wrong += other.wrong
        self.misjudged += other.misjudged

    def share(self, mark: Mark) -> float:
        """Return what part of the pairs came out so."""
        total = self.pairs.total()
        return self.pairs[mark] / total if total else 0.0


def plain(value: Any) -> Any:
    """Return a value as records hold it: JSON types, records of data as objects."""
    if isinstance(value, enum.Enum):
        return plain(value.value) if isinstance(value.value, str) else value.name
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(one) for one in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return value


def same(one: Any, other: Any) -> bool:
    """Tell whether two plain values are equal; true is not 1, while 1 and 1.0 are one number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def judged(record: Recorded, found: Evaluation, root: str) -> Outcome:
    """Compare one line's evaluation with its record."""
    result = Outcome(record.engine, record.version, lines=1, refused=not record.accepted)
    said: Mark = (
        "unknown" if found.accepted is None else "agree" if found.accepted is record.accepted else "wrong"
    )
    result.refusals[said] += 1
    if said == "wrong":
        ours = (
            f"refused by us ({found.refusal[:200]})"
            if record.accepted
            else f"recorded: {record.refusal[:200]}"
        )
        result.misjudged.append(f"{record.ident}: {ours}")
    for name, recorded in record.fields.items():
        _count(result, record, name, _placed(recorded, root), found.settings.get(name))
    result.needs = Counter({need.replace(root, "{M}"): count for need, count in result.needs.items()})
    return result


def _count(result: Outcome, record: Recorded, name: str, recorded: Any, ours: Effective | None) -> None:
    if ours is None or not ours.known:
        if record.drawn(name):
            result.drawn += 1
            result.pairs["agree"] += 1
            return
        result.pairs["unknown"] += 1
        result.unknown[name] += 1
        if ours is not None:
            result.needs.update(ours.needs[:3])
            options = [plain(one) for one in ours.alternatives]
            result.missed += bool(options) and not any(same(one, recorded) for one in options)
        return
    value = plain(ours.value)
    mark: Mark = "agree" if same(value, recorded) and not record.drawn(name) else "wrong"
    result.pairs[mark] += 1
    if mark == "wrong":
        result.wrong.append(Difference(record.ident, name, recorded, value))


def _placed(value: Any, root: str) -> Any:
    """Put the models' folder back into a recorded value."""
    if isinstance(value, str):
        return value.replace("{M}", root)
    if isinstance(value, dict):
        return {key: _placed(one, root) for key, one in value.items()}
    return [_placed(one, root) for one in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Job:
    """Name lines of one file, to be compared in one process."""

    path: str
    site: str
    models: str
    numbers: tuple[int, ...]


@cache
def _opened(path: str) -> RecordFile:
    return read.read(Path(path))


@cache
def _tree(site: str, engine: str) -> LocalTree:
    return LocalTree(Path(site) / engine)


def run(job: Job) -> list[Outcome]:
    """Evaluate and judge the lines of a job."""
    held = _opened(job.path)
    tree = _tree(job.site, held.engine)
    root, reader = job.models, facts.from_folder(Path(job.models))
    names = facts.names_from(Path(job.models))
    found = []
    for number in job.numbers:
        record = held.records[number]
        started = time.perf_counter()
        argv = [word.replace("{M}", root) for word in record.argv]
        about = facts.of_record(record, Path(job.site), reader, names)
        evaluation = evaluate(tree, argv, {**facts.ALWAYS, **record.environment}, about)
        outcome = judged(record, evaluation, root)
        outcome.seconds = time.perf_counter() - started
        found.append(outcome)
    return found


def compare(
    files: Sequence[tuple[RecordFile, Path]],
    models_folder: Path,
    *,
    jobs: int,
    every: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Outcome]:
    """Compare files of records, each with the folder of its package; one outcome a file."""
    models.write(models_folder)
    planned = [(at, job) for at, pair in enumerate(files) for job in _jobs(pair, models_folder, every)]
    results = [Outcome(one.engine, one.version) for one, _ in files]
    total, done = sum(len(job.numbers) for _, job in planned), 0
    for at, outcomes in _all(planned, jobs):
        for outcome in outcomes:
            results[at].add(outcome)
        done += len(outcomes)
        progress(done, total)
    return results


def _jobs(pair: tuple[RecordFile, Path], models_folder: Path, every: int) -> Iterator[Job]:
    held, site = pair
    numbers = range(0, len(held.records), every)
    for start in range(0, len(numbers), _AT_ONCE):
        part = tuple(numbers[start : start + _AT_ONCE])
        yield Job(str(held.path), str(site), str(models_folder), part)


def _all(planned: Sequence[tuple[int, Job]], jobs: int) -> Iterator[tuple[int, list[Outcome]]]:
    if jobs == 1:
        yield from ((at, run(job)) for at, job in planned)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from zip((at for at, _ in planned), pool.map(run, [job for _, job in planned]), strict=True)
