"""Eval runs: what is recorded is rated and repeated, a kill costs nothing, and what is broken is named."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from agent.errors import ExitCode, TranscriptError, UsageError
from evals import gate, runs
from evals.compare import compare_runs
from evals.context import RunContext
from evals.jobs import Job, plan
from evals.pool import Pool
from evals.results import Result
from evals.run import Done, Run
from evals.summary import summarise
from evals.table import comparison, text
from tests.eval_parts import asked, case_file, copies, edit, evaluate, results, start


def done(root: Path, *ways: Any, **more: Any) -> Done:
    """Run in this process, as the command does."""
    settings = Settings(state_dir=root / "state")
    jobs = plan(wanted := asked(root, *ways, **more))
    return Run(settings, runs.create(settings, wanted, jobs)).work()


def test_a_recording_is_rated_and_goes_the_same_way_again(small: Path) -> None:
    found = done(small, "score", "replay")
    rated, repeated = found.results
    assert rated.score is not None and rated.score.success and not rated.error
    assert rated.score.scores["cause"] == 1 and rated.model == "scripted"
    assert repeated.differences == [] and not repeated.error and repeated.score is None
    assert all(min(result.cpu_s, result.wall_s) > 0 for result in found.results)
    summary = summarise(found)
    assert (summary.counted, summary.not_counted, summary.missing) == (2, 0, 0)
    assert "small-right" in text(summary) and "2 samples count" in text(summary)


def test_a_changed_prompt_schema_and_ledger_result_are_differences(small: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[0]["prompts"]["tool:run"] = "0" * 64
        rows[0]["prompts"]["system.md.j2"] = "1" * 64
        first = next(row for row in rows if row["type"] == "tool_finished" and row["tool"] == "hypothesis")
        first["view"] = json.dumps({"hypotheses": [{"id": "H7"}]})

    edit(small / "transcripts" / "small-right.jsonl", change)
    (result,) = done(small, "replay").results
    told = "\n".join(result.differences)
    assert "tool run has changed since the recording" in told
    assert "system.md.j2 has changed since the recording" in told
    assert "before turn 2" in told and "H7" in told


def test_a_rating_outside_the_bounds_kept_beside_it_is_a_difference(small: Path) -> None:
    about = small / "transcripts" / "small-right.yaml"
    about.write_text(about.read_text() + "expect: {cause: 0, success: 1}\n")
    (result,) = done(small, "score").results
    assert result.differences == ["cause is 1, expected 0"]


def test_an_altered_output_is_no_fault_of_the_run_whatever_is_expected_of_it(small: Path) -> None:
    about = small / "transcripts" / "small-right.yaml"
    about.write_text(about.read_text() + "expect: {outcome: 1}\n")
    for file in (small / "transcripts" / "artifacts").iterdir():
        file.write_bytes(file.read_bytes() + b" ")
    (result,) = done(small, "score").results
    assert result.score is None and "was changed on disk" in result.error


@pytest.mark.slow
def test_after_kill_9_only_what_is_missing_is_done(small: Path) -> None:
    copies(small / "transcripts", "small-right", 24)
    process = start(small, "replay")
    log = _await_results(small, 3)
    process.kill()
    process.communicate()
    _, before = results(small)
    assert 3 <= len(before) < 25, "it was killed too late to say anything"

    again = evaluate(small, "--resume", log.parent.name)
    assert again.returncode == 0, again.stderr
    _, after = results(small)
    assert [result.key for result in after[: len(before)]] == [result.key for result in before]
    assert Counter(result.key for result in after) == Counter(
        f"replay/small/{name}" for name in ["small-right", *(f"small-right-{n:03}" for n in range(24))]
    )
    assert evaluate(small, "--resume", log.parent.name).returncode == 0
    assert len(results(small)[1]) == 25, "a whole run that is resumed does nothing"


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(small: Path) -> None:
    copies(small / "transcripts", "small-right", 40)
    process = start(small, "replay")
    log = _await_results(small, 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert f"leadline eval --resume {log.parent.name}" in err and "were not done" in out
    assert len(results(small)[1]) >= 2


def _await_results(root: Path, count: int) -> Path:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for log in (root / "state").glob("evals/*/results.jsonl"):
            if log.read_bytes().count(b"\n") >= count:
                return log
        time.sleep(0.005)
    raise AssertionError("no result came")


@pytest.mark.slow
async def test_a_worker_that_dies_costs_only_what_it_had_in_hand(small: Path) -> None:
    copies(small / "transcripts", "small-right", 30)
    wanted = asked(small, "replay")
    jobs = plan(wanted)
    folder = small / "state" / "run"
    folder.mkdir(parents=True)
    seen: list[Result] = []

    def take(result: Result) -> None:
        seen.append(result)
        if len(seen) == 1:
            for child in _children(os.getpid()):
                if b"evals.worker" in (Path("/proc") / str(child) / "cmdline").read_bytes():
                    os.kill(child, signal.SIGKILL)
                    return

    await asyncio.wait_for(Pool(RunContext(folder=folder, asked=wanted), [], take).run(jobs), 120)
    assert Counter(result.key for result in seen) == Counter(job.key for job in jobs)
    lost = [result for result in seen if result.error]
    assert lost and len(lost) <= 16
    assert all("ended by signal 9" in result.error for result in lost)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def newer(path: Path) -> None:
    edit(path, lambda rows: rows[0].update(schema_version=99))


def without_artifact(path: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        view = next(row for row in rows if row["type"] == "tool_finished" and row["artifacts"])
        view["artifacts"][0]["sha256"] = "ab" * 32

    edit(path, change)


def wrong_field(path: Path) -> None:
    edit(path, lambda rows: rows[1].update(surprise=1))


BREAKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "torn": (torn, "torn.jsonl:"),
    "newer": (newer, "newer.jsonl:1: schema_version: 99"),
    "without-artifact": (without_artifact, "abababababab"),
    "wrong-field": (wrong_field, "wrong-field.jsonl:2: "),
}


def test_broken_recordings_do_not_count_and_the_others_go_on(small: Path) -> None:
    folder = small / "transcripts"
    for name, (breaks, _) in BREAKS.items():
        for ending in (".jsonl", ".yaml"):
            shutil.copy(folder / f"small-right{ending}", folder / f"{name}{ending}")
        breaks(folder / f"{name}.jsonl")
    told = evaluate(small, "score", "replay", "--json")
    assert told.returncode == 0, told.stderr
    shown = json.loads(told.stdout)
    assert (shown["summary"]["counted"], shown["summary"]["not_counted"]) == (2, 2 * len(BREAKS))
    for result in shown["results"]:
        _, says = BREAKS.get(result["transcript"], (None, ""))
        assert bool(result["error"]) == bool(says) and says in result["error"], result["error"]


def test_broken_cases_do_not_count_and_name_file_line_and_field(small: Path) -> None:
    case_file(small, "broken-host", scenario="no-such-host")
    case_file(small, "broken-field", surprise=1)
    case_file(small, "broken-pattern", causes=[{"id": "a", "says": "b", "any": ["("]}])
    host = small / "unfetchable.yaml"
    host.write_text("base: kimi-k26-pp8\npackage: {name: sglang, version: 0.0.0}\n")
    case_file(small, "broken-package", scenario=str(host))
    found = done(small, "solve", pattern="broken-*")
    told = {result.case: result.error for result in found.results if result.error}
    assert "no scenario 'no-such-host'" in told["broken-host"]
    assert "broken-field.yaml:20: surprise: there is no such field" in told["broken-field"]
    assert "broken-pattern.yaml:" in told["broken-pattern"] and "causes.0.any" in told["broken-pattern"]
    assert "sglang" in told["broken-package"] and "0.0.0" in told["broken-package"]
    summary = summarise(found)
    assert "scenario: no scenario 'no-such-host'" in text(summary)


def test_a_run_in_which_nothing_counts_fails_with_a_code_of_its_own(small: Path) -> None:
    torn(small / "transcripts" / "small-right.jsonl")
    told = evaluate(small, "score")
    assert told.returncode == int(ExitCode.NOTHING_COUNTED)
    assert "no sample counts" in told.stderr


def test_what_matches_nothing_is_no_run(small: Path) -> None:
    told = evaluate(small, "score", "--case", "none-of-them")
    assert told.returncode == ExitCode.USAGE and "small-right" in told.stderr
    assert not list((small / "state").glob("evals/*"))


def test_recordings_of_the_shell_agent_are_rated_and_not_repeated(small: Path) -> None:
    about = small / "transcripts" / "small-right.yaml"
    about.write_text(about.read_text().replace("recorded: scripted", "recorded: baseline:some-model"))
    assert [job.way for job in plan(asked(small, "score", "replay"))] == ["score"]


def test_a_second_owner_of_a_run_is_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_WAIT_S", 0.2)
    settings = Settings(state_dir=small / "state")
    file = runs.create(settings, asked(small, "score"), plan(asked(small, "score")))
    lock = runs.lock(runs.folder_of(settings, file.id))
    with pytest.raises(UsageError, match="at work in another process"):
        Run(settings, file).work()
    os.close(lock)


def test_a_torn_result_is_done_again_and_a_damaged_one_is_named(small: Path) -> None:
    found = done(small, "score")
    log = found.folder / "results.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[:-9])
    again = Run(Settings(state_dir=small / "state"), found.file).work()
    assert len(again.counted) == 1 and log.read_bytes().count(b"\n") == 1
    log.write_bytes(b'{"way": "guess"}\n')
    with pytest.raises(TranscriptError, match=r"results.jsonl:1: way"):
        runs.read(found.folder)


def test_a_drop_against_the_baseline_fails_and_names_the_transcript(small: Path) -> None:
    found = done(small, "score", "replay")
    path = small / "baseline.json"
    stored = gate.save(found, path)
    assert gate.drops(found, gate.load(path)) == []
    worse = found.results[0].score
    assert worse is not None
    lower = worse.model_copy(
        update={
            "scores": {**worse.scores, "cause": 0.0},
            "success": False,
            "why": {"cause": "missed: graphs"},
        }
    )
    first = found.results[0].model_copy(update={"score": lower})
    second = found.results[1].model_copy(update={"differences": ["outcome 1: recorded a, now b"]})
    told = gate.drops(Done(found.file, found.folder, [first, second]), stored)
    assert len(told) == 3
    assert told[0].startswith("score small-right: success: 1.00 -> 0.00")
    assert told[1].startswith("score small-right: cause: 1.00 -> 0.00 (missed: graphs); see ")
    assert told[1].endswith("transcripts/small-right.jsonl")
    assert "replay small-right: differs: outcome 1" in told[2]
    uncounted = found.results[0].model_copy(update={"score": None, "error": "torn"})
    (gone,) = gate.drops(Done(found.file, found.folder, [uncounted, found.results[1]]), stored)
    assert gone == "score small-right: does not count: torn"
    with pytest.raises(UsageError, match="does not count"):
        gate.save(Done(found.file, found.folder, [uncounted, found.results[1]]), path)


def test_the_gate_has_an_exit_code_of_its_own(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evals import evaluate as body

    found = done(small, "score")
    better = gate.save(found, small / "baseline.json").model_dump()
    monkeypatch.setattr(gate, "load", lambda: gate.Baseline.model_validate(better))
    options = body.Options(
        asked=asked(small, "score"),
        report=None,
        resume=found.file.id,
        compare=None,
        gate=True,
        save_baseline=False,
        list_runs=False,
        as_json=True,
    )
    monkeypatch.setattr(body, "load_settings", lambda: Settings(state_dir=small / "state"))
    body.run(options)
    better["rows"][0]["scores"]["outcome"] = 2.0
    with pytest.raises(SystemExit) as left:
        body.run(options)
    assert left.value.code == int(ExitCode.WORSE)


def test_two_runs_are_compared_on_what_they_share(small: Path) -> None:
    copies(small / "transcripts", "small-right", 2)
    before, after = done(small, "score"), done(small, "score", pattern="small-right*")
    changed = [
        result.model_copy(
            update={"score": result.score and result.score.model_copy(update={"success": False})}
        )
        for result in after.results[:2]
    ]
    found = compare_runs(before, Done(after.file, after.folder, changed))
    (way,) = found.ways
    assert way.shared == 2 and way.only_before == ["small-right-001"] and way.only_after == []
    assert way.differences["success"].mean == -1 and way.differences["cause"].mean == 0
    assert [one.name for one in way.moved] == ["small-right", "small-right-000"]
    assert "only in" in comparison(found)
    with pytest.raises(UsageError, match="share no case"):
        compare_runs(before, Done(after.file, after.folder, []))


def test_a_job_has_one_key_however_often_it_is_tried() -> None:
    job = Job(way="solve", case="A case/with.signs", sample=2)
    assert job.thread == "solve-a-case-with-signs-2"
    assert (
        job.key
        == job.result(error="x").key
        == "solve/A case/with.signs/threads/solve-a-case-with-signs-2/" + ("transcript.jsonl")
    )
