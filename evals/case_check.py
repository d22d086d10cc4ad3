"""Check cases as far as a program can: schema, scenario, patterns that fit each other, symbols, settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from agent.errors import LeadlineError
from evals import case as cases
from evals import case_settings, recordings, regions
from evals.case import Case, Proof
from evals.case_question import DOWN
from evals.lab import scenario as scenarios
from evals.lab.package import PINS
from evals.lab.scenario import Scenario
from evals.patterns import EndlessPattern, any_in, found_in, may_be_endless

_FIGURE = "7"
"""A statement as short as any; what is found in words about nothing is refused where a case is read."""


def problems(name: str, cache: Path, folder: Path = cases.FOLDER) -> Iterator[str]:
    """Yield what is wrong with a case, named or given as a file, a sentence each."""
    try:
        case = cases.load(name, folder)
    except LeadlineError as error:
        yield str(error)
        return
    where = scenario_of(case)
    if isinstance(where, str):
        yield _nowhere(case, cases.path_of(name, folder), where)
        return
    try:
        told = (*_endless(case, cases.path_of(name, folder)), *_patterns(case), *_proofs(case, where, cache))
    except EndlessPattern as error:
        path = cases.path_of(name, folder)
        told = (f"{path}:{cases.line_with(path, error.pattern)}: {error}",)
    yield from (f"{case.name}: {one}" for one in told)
    named = case_settings.remarks(case, cases.path_of(name, folder), where, cache)
    yield from (remark.line for remark in named if remark.unknown)


def untold(name: str, cache: Path, folder: Path = cases.FOLDER) -> Iterator[str]:
    """Yield which settings of a case nothing here knows, and nothing can call wrong either."""
    try:
        case = cases.load(name, folder)
    except LeadlineError:
        return  # one of its problems
    where = scenario_of(case)
    if isinstance(where, Scenario):
        named = case_settings.remarks(case, cases.path_of(name, folder), where, cache)
        yield from (remark.line for remark in named if not remark.unknown)


@lru_cache(maxsize=256)
def unknown_setting(name: str, folder: Path, transcripts: Path, cache: Path) -> str | None:
    """Return the line about the first setting of a case that does not exist, looked up once a process.

    A scenario that is not there counts as one. None for a case that cannot be read: what needs it says so.
    """
    try:
        case = cases.load(name, folder)
    except LeadlineError:
        return None
    where = scenario_of(case, transcripts)
    if isinstance(where, str):
        return _nowhere(case, cases.path_of(name, folder), where)
    named = case_settings.remarks(case, cases.path_of(name, folder), where, cache)
    return next((remark.line for remark in named if remark.unknown), None)


def scenario_of(case: Case, transcripts: Path = recordings.FOLDER) -> Scenario | str:
    """Return the scenario that a case takes place on, of several the first, or why one is not to be had."""
    try:
        names = case.scenarios
        if case.go_on is not None:
            names = [recordings.load(case.go_on.transcript, transcripts).started.scenario or ""]
        wheres = [scenarios.load(name) for name in names]
    except LeadlineError as error:
        return str(error)
    for pin in filter(None, (where.package for where in wheres)):
        if (pin.name, pin.version) not in PINS:
            name = f"{pin.name} {pin.version}"
            return f"the source of {name} is not pinned; add it to PINS in evals/lab/package.py"
    return wheres[0] if wheres else "every host is down"


def _nowhere(case: Case, path: Path, says: str) -> str:
    """Return the line about a scenario that is not to be had, with file, line and field."""
    place: tuple[str, ...] = ("continue", "transcript") if case.go_on else ("scenario",)
    if case.hosts:
        lost = [name for name, where in case.hosts.items() if where != DOWN and repr(where) in says]
        place = ("hosts", *lost[:1])
    return f"{path}:{cases.line_of(path, place)}: {'.'.join(place)}: {says}"


def _patterns(case: Case) -> Iterator[str]:
    """Yield patterns that match anything, and those of one cause that also name another or a distractor."""
    for cause in case.causes:
        for pattern in cause.any:
            if found_in(pattern, _FIGURE):
                yield f"causes: {cause.id}: {pattern!r} stands in any text at all"
            for distractor in case.distractors:
                if pattern in distractor.any:
                    yield f"causes: {cause.id}: {pattern!r} is also a distractor's"
        for distractor in case.distractors:
            if any_in(distractor.any, cause.says):
                yield f"distractors: {distractor.id}: stands in what the true cause {cause.id} says"
    for distractor in case.distractors:
        if any_in(distractor.any, _FIGURE):
            yield f"distractors: {distractor.id}: stands in any text at all"


def _endless(case: Case, path: Path) -> Iterator[str]:
    """Tell of patterns that some text would keep busy for ever, whether or not it was met."""
    for pattern in sorted({*_all_patterns(case)}):
        if may_be_endless(pattern):
            line = cases.line_with(path, pattern)
            yield f"line {line}: the pattern {pattern!r} repeats what itself repeats, such as (a+)+"


def _all_patterns(case: Case) -> Iterator[str]:
    for cause in case.causes:
        yield from (*cause.any, *cause.none)
    for distractor in case.distractors:
        yield from distractor.any
    for proof in case.evidence:
        yield from filter(None, (proof.label, proof.quote))
    yield from (one.command for one in case.forbidden if one.command)
    if case.answer is not None:
        yield from (*case.answer.rows, *case.answer.no_rows, *case.answer.says, *case.answer.not_says)


def _proofs(case: Case, where: Scenario, cache: Path) -> Iterator[str]:
    for proof in case.evidence:
        if proof.package and where.package is not None and proof.package != where.package.name:
            yield f"evidence: {proof.id}: the host has {where.package.name}, not {proof.package}"
        elif proof.package and proof.path:
            yield from _place(proof, where, cache)


def _place(proof: Proof, where: Scenario, cache: Path) -> Iterator[str]:
    if where.package is None:
        yield f"evidence: {proof.id}: the scenario pins no package, so no source of {proof.package} is there"
        return
    name, version = where.package.name, where.package.version
    folder = regions.package_folder(name, version, cache)
    if folder is None:
        return  # it is fetched the first time a lab of it comes up
    files = _files(folder, proof.path)
    if not files:
        yield f"evidence: {proof.id}: {name} {version} has no file that ends in {proof.path}"
    elif proof.symbol:
        found = [regions.symbol_lines(name, version, file, proof.symbol, cache) for file in files]
        where_defined = [lines for lines in found if lines is not None and lines != (0, 0)]
        if not where_defined:
            yield f"evidence: {proof.id}: {proof.path} of {name} {version} defines no {proof.symbol}"
        elif proof.lines and not any(_overlap(lines, proof.lines) for lines in where_defined):
            yield f"evidence: {proof.id}: {proof.symbol} does not stand at lines {proof.lines}"
    elif proof.lines and not any(proof.lines[1] <= _length(folder / file) for file in files):
        yield f"evidence: {proof.id}: {proof.path} ends before line {proof.lines[1]}"


def _files(folder: Path, end: str) -> list[str]:
    """Return the files of a package whose path ends so, as seen from its folder."""
    tail = end.lstrip("/")
    paths = (file.relative_to(folder).as_posix() for file in folder.rglob(Path(tail).name) if file.is_file())
    return sorted(path for path in paths if path == tail or path.endswith(f"/{tail}"))


def _length(file: Path) -> int:
    return len(file.read_bytes().splitlines())


def _overlap(left: tuple[int, int], right: tuple[int, int]) -> bool:
    return left[0] <= right[1] and right[0] <= left[1]


def check(names: Sequence[str], cache: Path) -> dict[str, list[str]]:
    """Return the problems of each case by name."""
    return {name: list(problems(name, cache)) for name in names}
