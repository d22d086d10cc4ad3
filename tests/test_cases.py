"""The cases that come with Leadline: they load, their proofs exist, and their patterns tell causes apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.config import Settings
from evals import recordings
from evals.case import Case, Proof, load, names, path_of
from evals.lab import package
from evals.lab import scenario as scenarios
from evals.lab.package import PackageError
from tests.paraphrases import phrases
from tools.statements import find_symbol
from tools.syntax import parse

ROOT = Path(__file__).parent.parent
PHRASES = phrases("case_paraphrases.yaml")
MISSING_RECORDINGS = {"founding-continued"}
"""May name a recording that is made later."""


def scenario_of(case: Case) -> scenarios.Scenario | None:
    """Return the host of a case; None while its recording is missing."""
    if case.go_on is None:
        return scenarios.load(case.scenarios[0])
    if case.go_on.transcript not in recordings.names():
        assert case.name in MISSING_RECORDINGS
        return None
    return scenarios.load(recordings.load(case.go_on.transcript).started.scenario or "")


def sources() -> list[tuple[str, Proof]]:
    """Return every proof that names a file of a package."""
    return [(name, proof) for name in names() for proof in load(name).evidence if proof.package]


def region(path: Path, proof: Proof) -> list[str] | None:
    """Return the lines of a file that a proof asks for; None when it has no such symbol."""
    data = path.read_bytes()
    lines = data.decode().splitlines()
    first, last = proof.lines or (1, len(lines))
    if proof.symbol:
        statement = find_symbol(parse(data), proof.symbol)
        if statement is None:
            return None
        first, last = max(first, statement.lineno), min(last, statement.end_lineno or last)
    return lines[first - 1 : last]


@pytest.mark.parametrize("name", names())
def test_every_case_names_a_host_that_exists(name: str) -> None:
    case = load(name)
    assert case.name == name
    host = scenario_of(case)
    if host is not None and case.scenario:
        assert case.symptom and host.units


@pytest.mark.parametrize("name", names())
def test_no_number_of_a_thread_is_taken_for_a_comment(name: str) -> None:
    text = path_of(name).read_text(encoding="utf-8")
    said = [word for line in text.splitlines() if line.startswith("source: ") for word in line.split()]
    numbers = {word.strip('",;') for word in said if word.startswith("#")}
    assert all(number in load(name).source for number in numbers)


def test_a_missing_recording_is_the_only_thing_that_may_be_missing() -> None:
    known = set(recordings.names())
    lacking = {name for name in names() if (go_on := load(name).go_on) and go_on.transcript not in known}
    assert lacking <= MISSING_RECORDINGS


@pytest.mark.parametrize(("name", "proof"), sources(), ids=lambda value: getattr(value, "id", value))
def test_every_source_proof_stands_in_the_released_source(name: str, proof: Proof) -> None:
    host = scenario_of(load(name))
    version = host.package.version if host is not None and host.package is not None else "0.5.11"
    try:
        folder = package.fetch(proof.package, version, Settings().cache_dir)
    except PackageError as error:
        pytest.skip(str(error))
    found = [path for path in folder.rglob(Path(proof.path).name) if str(path).endswith(f"/{proof.path}")]
    regions = [region(path, proof) for path in found]
    texts = [text for text in regions if text is not None]
    assert len(texts) == 1, f"{proof.symbol or 'the file'} stands in {len(texts)} of {found}"
    text = texts[0]
    assert any(re.search(proof.quote, line, re.IGNORECASE) for line in text)


def test_every_case_of_an_sglang_host_has_paraphrases() -> None:
    sglang = set()
    for name in names():
        if load(name).answer is not None:
            continue  # a question has no cause to be told in other words
        host = scenario_of(load(name))
        if host is None or (host.package is not None and host.package.name == "sglang"):
            sglang.add(name)
    assert sglang == set(PHRASES)


def test_some_cases_hold_nothing_to_fix() -> None:
    fine = [name for name in PHRASES if load(name).nothing_to_fix]
    assert len(fine) >= 4
    for name in fine:
        assert "abstention" in load(name).success
        assert "configuration_fine" in load(name).outcomes
