"""The gate and what it has no row of: a new case is named, passes by its own success alone, and is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import Settings
from agent.errors import UsageError
from evals import gate, runs
from evals.jobs import Job
from evals.results import Result, Score
from evals.run import Done
from evals.runs import RunFile
from tests.eval_parts import asked

EMPTY = gate.Baseline(model="playbook", rows=[])


def run_of(root: Path, *results: Result, pattern: str = "*", model: str = "playbook") -> Done:
    """Return a run that has come to these results."""
    wanted = asked(root, *dict.fromkeys(result.way for result in results), pattern=pattern)
    jobs = [
        Job(way=one.way, case=one.case, recording=one.transcript if one.way in ("score", "replay") else "")
        for one in results
    ]
    file: RunFile = runs.create(Settings(state_dir=root), wanted, jobs)
    return Done(file.model_copy(update={"model": model}), root, list(results))


def solved(name: str, success: bool = True, why: str = "") -> Result:
    """Return the result of a case that was worked on."""
    score = Score(
        case=name,
        outcome="diagnosed",
        scores={"cause": float(success)},
        success=success,
        why={"cause": why} if why else {},
    )
    return Result(way="solve", case=name, transcript=f"threads/{name}/transcript.jsonl", score=score)


def test_a_new_case_that_is_a_success_passes_and_is_named(tmp_path: Path) -> None:
    done = run_of(tmp_path, solved("fresh"))
    assert gate.drops(done, EMPTY) == [] and gate.new(done, EMPTY) == ["solve fresh"]


def test_a_new_case_that_is_no_success_fails_and_says_how_to_keep_it(tmp_path: Path) -> None:
    (told,) = gate.drops(run_of(tmp_path, solved("fresh", False, "missed: graphs")), EMPTY)
    assert told.startswith("solve fresh: is new and no success: 0.00 (cause: missed: graphs); see ")
    assert told.endswith("when that is meant: leadline eval solve --case fresh --save-baseline")


def test_a_new_case_that_does_not_count_fails(tmp_path: Path) -> None:
    broken = Result(way="solve", case="fresh", transcript="threads/fresh", error="no such scenario")
    (told,) = gate.drops(run_of(tmp_path, broken), EMPTY)
    assert told == "solve fresh: is new and does not count: no such scenario"
    assert gate.new(run_of(tmp_path, broken), EMPTY) == []


def test_a_new_recording_passes_when_it_is_as_it_says_itself(tmp_path: Path) -> None:
    bad = solved("old", False).model_copy(update={"way": "score", "transcript": "bad-on-purpose"})
    assert gate.drops(run_of(tmp_path, bad), EMPTY) == []
    off = bad.model_copy(update={"differences": ["cause is 1, expected 0"]})
    (told,) = gate.drops(run_of(tmp_path, off), EMPTY)
    assert "score bad-on-purpose: is new and differs: cause is 1, expected 0; see " in told


def test_storing_a_part_keeps_the_rows_of_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    gate.save(run_of(tmp_path, solved("one"), solved("two")), path)
    stored = gate.save(run_of(tmp_path, solved("two", False), solved("three"), pattern="t*"), path)
    assert {row.case: row.success for row in stored.rows} == {"one": 1, "two": 0, "three": 1}
    assert gate.load(path) == stored
    with pytest.raises(UsageError, match="of model playbook, the run of other"):
        gate.save(run_of(tmp_path, solved("one"), pattern="one", model="other"), path)


def test_storing_a_run_of_everything_forgets_what_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    gate.save(run_of(tmp_path, solved("one"), solved("two")), path)
    whole = run_of(tmp_path, solved("one"))
    file = whole.file.model_copy(update={"asked": whole.file.asked.model_copy(update={"ways": []})})
    assert [row.case for row in gate.save(Done(file, tmp_path, whole.results), path).rows] == ["one"]
