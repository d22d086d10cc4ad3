"""Eval runs under abuse: a full disk, two owners, endless patterns and files cut short end in a line each."""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.config import Settings
from agent.errors import LeadlineError, UsageError
from evals import case_commands, patterns, runs, worker
from evals import recorded as recorded_jobs
from evals.context import RunContext
from evals.jobs import plan
from evals.patterns import EndlessPattern
from evals.pool import Pool
from evals.results import Result
from evals.run import Run
from evals.transcript_commands import app
from evals.worker import Worker
from tests.eval_parts import asked, case_file, edit, evaluate

ENDLESS = r"(\w+\s?)+[#]"


@contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_result_that_does_not_fit_leaves_nothing_of_itself(tmp_path: Path) -> None:
    results = runs.Results(tmp_path)
    results.add(Result(way="score", case="fits"))
    whole = results.path.read_bytes()
    with (
        _files_of_at_most(len(whole) + 50),
        pytest.raises(LeadlineError, match=rf"results.jsonl: cannot be written: .*--resume {tmp_path.name}"),
    ):
        results.add(Result(way="score", case="does-not-fit"))
    assert results.path.read_bytes() == whole
    results.add(Result(way="score", case="fits-now"))
    results.close()
    assert [result.case for result in runs.read(tmp_path).values()] == ["fits", "fits-now"]


async def test_a_run_whose_results_cannot_be_kept_ends_with_the_reason(small: Path) -> None:
    wanted = asked(small, "score")
    folder = small / "state" / "run"
    folder.mkdir(parents=True)

    def take(result: Result) -> None:
        raise LeadlineError(f"no room for {result.case}")

    work = Pool(RunContext(folder=folder, asked=wanted), [], take).run(plan(wanted))
    with pytest.raises(LeadlineError, match="no room for small"):
        await asyncio.wait_for(work, 120)


def test_what_another_process_did_meanwhile_is_not_done_again(small: Path) -> None:
    settings = Settings(state_dir=small / "state")
    file = runs.create(settings, asked(small, "score"), plan(asked(small, "score")))
    first, second = Run(settings, file), Run(settings, file)
    assert len(first.work().counted) == 1
    seen: list[Result] = []
    assert len(second.work(seen.append).counted) == 1
    assert not seen and (second.folder / "results.jsonl").read_bytes().count(b"\n") == 1


def test_a_damaged_run_hides_no_other_in_the_list(small: Path) -> None:
    settings = Settings(state_dir=small / "state")
    jobs = plan(asked(small, "score"))
    sound, broken = (runs.create(settings, asked(small, "score"), jobs) for _ in range(2))
    (runs.folder_of(settings, broken.id) / "results.jsonl").write_text("{}\n")
    told = evaluate(small, "--list")
    assert told.returncode == 1 and f"{sound.id}  0/1 jobs" in told.stdout
    assert f"{broken.id}/results.jsonl:1: " in told.stderr and "Traceback" not in told.stderr


def test_files_nested_too_deep_or_cut_short_do_not_count(small: Path) -> None:
    deep = "[" * 5_000 + "]" * 5_000
    folder = small / "transcripts"
    for name in ("deep-case", "deep-line", "cut", "empty"):
        for ending in (".jsonl", ".yaml"):
            shutil.copy(folder / f"small-right{ending}", folder / f"{name}{ending}")
    about = folder / "deep-case.yaml"
    about.write_text(about.read_text().replace("case: small", "case: deep"))
    (case_file(small, "deep") / "deep.yaml").write_text(f"description: {deep}\n")
    (folder / "deep-line.jsonl").write_text("[" * 100_000 + "]" * 100_000 + "\n")
    edit(folder / "cut.jsonl", lambda rows: rows.__delitem__(slice(8, None)))
    (folder / "empty.jsonl").write_bytes(b"")
    told = evaluate(small, "score", "--json")
    assert told.returncode == 0, told.stderr
    errors = {result["transcript"]: result["error"] for result in json.loads(told.stdout)["results"]}
    assert errors.pop("small-right") == ""
    assert "deep.yaml:1: is not YAML: " in errors["deep-case"] and "nest" in errors["deep-case"]
    assert "deep-line.jsonl:1: line: nested too deep" in errors["deep-line"]
    assert "cut.jsonl:8: line: the transcript has 8 events" in errors["cut"]
    assert "empty.jsonl:1: line: the file is empty" in errors["empty"]


def test_a_search_without_an_end_is_broken_off_and_a_long_row_of_short_ones_is_not() -> None:
    code = (
        "from evals import patterns\n"
        "import time\n"
        "patterns.watch(0.05)\n"
        "end = time.monotonic() + 0.5\n"
        "while time.monotonic() < end:\n"
        "    patterns.found_in('graphs? off', 'CUDA graphs are off ' * 50)\n"
        f"patterns.found_in({ENDLESS!r}, 'a' * 60)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert told.returncode == 1
    assert "comes to no end on a text of 60 characters" in told.stderr.splitlines()[-1]


async def test_an_endless_pattern_is_named_with_file_and_line(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_off(*_: object) -> None:
        raise EndlessPattern(ENDLESS, 60)

    monkeypatch.setattr(recorded_jobs, "score", broken_off)
    path = case_file(small, causes=[{"id": "a", "says": "b", "any": ["fine", ENDLESS]}]) / "small.yaml"
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if ENDLESS in text)
    seen: list[Result] = []
    wanted = asked(small, "score")
    await Worker(RunContext(folder=small / "run", asked=wanted), seen.append).do(plan(wanted)[0])
    assert f"{path}:{line}: the pattern" in seen[0].error


async def test_a_job_whose_parts_cannot_be_imported_does_not_count_and_says_so(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ImportError("cannot import name 'ask'")

    monkeypatch.setattr(worker, "warm_up", broken)
    seen: list[Result] = []
    wanted = asked(small, "score")
    await Worker(RunContext(folder=small / "run", asked=wanted), seen.append).do(plan(wanted)[0])
    assert [result.error for result in seen] == ["cannot be run: cannot import name 'ask'"]


def test_a_folder_that_is_not_there_is_named(small: Path) -> None:
    with pytest.raises(UsageError, match=r"--cases: there is no folder .*/nowhere"):
        plan(asked(small, "score").model_copy(update={"cases": small / "nowhere"}))


@pytest.mark.parametrize("words", [("unpack", "founding-solved"), ("export", "founding-solved", "--out")])
def test_what_cannot_be_written_is_said_in_a_line(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    place = tmp_path / "file" / "below"
    with pytest.raises(LeadlineError, match=r"cannot write .*file.*; name another place"):
        app([*words, str(place)], standalone_mode=False)


def test_what_a_case_says_reaches_no_terminal_as_it_is(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "watch", lambda: None)  # it is for processes that are a command alone
    distractors = [{"id": "\x1b[31mred", "any": [""]}]
    path = case_file(small, "hostile", distractors=distractors) / "hostile.yaml"
    case_commands.app(["check", str(path)], standalone_mode=False)
    told = capsys.readouterr().out
    assert "\\x1b[31mred: stands in any text" in told and "\x1b" not in told
    assert told.splitlines()[-1].startswith("1 case: ")
