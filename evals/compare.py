"""Compare two runs on what they share: the mean difference of each score, with its paired interval."""

from __future__ import annotations

from pydantic import Field

from agent.errors import UsageError
from agent.state import Record
from evals.intervals import Interval, paired
from evals.jobs import EVERY
from evals.results import Way
from evals.run import Done
from evals.summary import SCORERS, Row, by_case, summarise


class Moved(Record):
    """Hold one case whose success is another in the second run."""

    name: str
    before: float
    after: float


class WayCompared(Record):
    """Hold the differences of one way, second run minus first."""

    way: Way
    shared: int = Field(description="Rows that count in both runs.")
    only_before: list[str]
    only_after: list[str]
    differences: dict[str, Interval] = Field(
        description="By scorer, and `success`, `judged`, `turns`, `seconds`."
    )
    moved: list[Moved]


class Comparison(Record):
    """Compare a run with an earlier one."""

    before: str
    after: str
    models: tuple[str, str]
    ways: list[WayCompared]


def compare_runs(before: Done, after: Done) -> Comparison:
    """Return how the second run differs from the first; raise `UsageError` when they share nothing."""
    rows = [
        {(row.way, row.case, row.recording): row for row in summarise(done).rows if row.samples}
        for done in (before, after)
    ]
    same_judge = before.file.judge == after.file.judge
    ways = []
    for way in EVERY:
        first, second = ({key: row for key, row in found.items() if key[0] == way} for found in rows)
        if first or second:
            ways.append(_way(way, first, second, same_judge))
    if not any(way.shared for way in ways):
        raise UsageError(
            f"runs {before.file.id} and {after.file.id} share no case that counts", do="name two others"
        )
    return Comparison(
        before=before.file.id,
        after=after.file.id,
        models=(before.file.model, after.file.model),
        ways=ways,
    )


_Rows = dict[tuple[Way, str, str], Row]


def _way(way: Way, first: _Rows, second: _Rows, same_judge: bool) -> WayCompared:
    shared = [(first[key], second[key]) for key in first if key in second]
    return WayCompared(
        way=way,
        shared=len(shared),
        only_before=[row.name for key, row in first.items() if key not in second],
        only_after=[row.name for key, row in second.items() if key not in first],
        differences=_differences(shared, same_judge),
        moved=[
            Moved(name=one.name, before=one.success, after=other.success)
            for one, other in shared
            if one.success is not None and other.success is not None and one.success != other.success
        ],
    )


def _differences(shared: list[tuple[Row, Row]], same_judge: bool) -> dict[str, Interval]:
    """Return the differences; opinions of two different judges are not comparable."""
    found = {}
    for name in ("success", *SCORERS, *(("judged",) if same_judge else ()), "turns", "seconds"):
        pairs = [(one.case, _value(one, name), _value(other, name)) for one, other in shared]
        known = [(case, before, after) for case, before, after in pairs if None not in (before, after)]
        if known:
            first = by_case((case, before) for case, before, _ in known)
            second = by_case((case, after) for case, _, after in known)
            found[name] = paired(list(first.values()), list(second.values()))
    return found


def _value(row: Row, name: str) -> float | None:
    if name in ("success", "judged", "turns", "seconds"):
        value: float | None = getattr(row, name)
        return value
    return next((value for scorer, value in row.scores.items() if scorer == name), None)
