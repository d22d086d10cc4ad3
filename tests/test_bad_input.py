"""What people get wrong in files and on the command line ends in a line that says where and what to do."""

from __future__ import annotations

import errno
import gzip
import shutil
import sys
from pathlib import Path

import pytest

from agent.config import Settings
from agent.errors import TranscriptError, UsageError
from agent.surfaces import main
from evals import case as cases
from evals import case_check, recordings
from evals.context import RunContext
from evals.jobs import Asked, Job
from evals.lab import scenario as scenarios
from evals.nearest import hint
from evals.patterns import may_be_endless
from evals.recorded import rate, repeat
from evals.results import Result
from evals.worker import line_of
from prompts import playbooks
from tests.in_process import leadline

NAME = "healthy-fine"
NEEDED = "founding-halfway"
"""A recording whose scores hang on what it quotes."""


def twice(source: Path, target: Path, line: str) -> int:
    """Copy a file with a line said again at the end; return the line of the second."""
    text = source.read_text().rstrip("\n")
    target.write_text(f"{text}\n{line}\n")
    return text.count("\n") + 2


def test_a_key_that_stands_twice_in_a_case_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    line = twice(cases.FOLDER / "founding.yaml", file, "difficulty: 3")
    with pytest.raises(UsageError, match=rf"mine\.yaml:{line}: difficulty: stands twice, first on line \d+"):
        cases.load(str(file))
    assert leadline("case", "check", str(file)).returncode == 1


def test_a_key_that_stands_twice_in_a_scenario_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    line = twice(scenarios.FOLDER / "lfm2-5090.yaml", file, "hostname: other-01")
    with pytest.raises(UsageError, match=rf"mine\.yaml:{line}: hostname: stands twice"):
        scenarios.load(str(file))


def test_a_key_that_stands_twice_in_a_playbook_is_named(tmp_path: Path) -> None:
    source = next(path for path in playbooks.paths() if path.stem == "radix-cache-off")
    file = tmp_path / source.name
    file.write_text(source.read_text().replace("rank: 60", "rank: 60\nrank: 61"))
    line = file.read_text().splitlines().index("rank: 61") + 1
    with pytest.raises(playbooks.PlaybookError, match=rf"radix-cache-off\.md:{line}: rank: stands twice"):
        playbooks.parse(file)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("mode: apply", r"healthy-fine\.yaml:{line}: mode: stands twice"),
        ("colour: red", r"healthy-fine\.yaml:{line}: colour: there is no such field"),
    ],
)
def test_what_is_wrong_beside_a_recording_is_named_with_its_line(
    line: str, says: str, tmp_path: Path
) -> None:
    shutil.copyfile(recordings.FOLDER / f"{NAME}.jsonl", tmp_path / f"{NAME}.jsonl")
    place = twice(recordings.FOLDER / f"{NAME}.yaml", tmp_path / f"{NAME}.yaml", line)
    with pytest.raises(UsageError, match=says.format(line=place)):
        recordings.about(NAME, tmp_path)


def test_what_is_no_file_among_recordings_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "nowhere")
    for name, says in (("folder", "folder.jsonl: is a folder"), ("link", "link.jsonl: leads nowhere")):
        with pytest.raises(UsageError, match=says):
            recordings.path_of(name, tmp_path)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("fuonding", "did you mean founding, founding-twin, founding-fixed? leadline case list lists all"),
        ("0", "leadline case list lists them"),
    ],
)
def test_an_unknown_name_gets_the_nearest_and_not_all(given: str, says: str) -> None:
    assert hint(given, cases.names(), "leadline case list") == says


def test_names_that_are_unknown_end_in_short_lines() -> None:
    for load in (cases.load, scenarios.load, recordings.path_of):
        with pytest.raises(UsageError, match=r"leadline .* list") as caught:
            load("fuonding")
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("pattern", "endless"),
    [
        ("(a+)+", True),
        (r"x(\w+\s?)*y", True),
        ("(?:ab|a+)+", True),
        ("(?=((a*))+b)", True),
        ("(a{1,9})+", False),
        (r"(\w+, )+", False),
        ("(ab+)+", False),
        (r"[^.;]{0,70}(x\w*)?", False),
    ],
)
def test_a_repetition_of_a_repetition_is_seen_before_it_bites(pattern: str, *, endless: bool) -> None:
    assert may_be_endless(pattern) is endless


def test_check_names_an_endless_pattern_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (cases.FOLDER / "founding.yaml").read_text()
    row = "  - {id: slow, any: ['(q+)+z']}"
    file.write_text(text.replace("\ndistractors:\n", f"\ndistractors:\n{row}\n"))
    (told,) = [one for one in case_check.problems(str(file), Settings().cache_dir) if "repeats what" in one]
    line = next(n for n, row in enumerate(file.read_text().splitlines(), 1) if "(q+)+z" in row)
    assert f"line {line}: the pattern '(q+)+z'" in told


def test_no_run_yet_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path))
    done = leadline("eval", "--list")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "no eval run yet; start one with: leadline eval\n"
    assert leadline("eval", "--list", "--json").stdout == "[]\n"


def test_a_named_place_that_cannot_be_used_is_no_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["leadline", "eval", "--report=/no/such/page.html", "/srv/notes"])
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "/no/such/page.html")
    assert main._disk_line(missing) == (
        "cannot use /no/such/page.html: No such file or directory; name another place"
    )
    folder = IsADirectoryError(errno.EISDIR, "Is a directory", "/srv/notes/sub")
    assert "cannot use /srv/notes/sub: Is a directory" in main._disk_line(folder)
    ours = FileNotFoundError(errno.ENOENT, "No such file or directory", "/opt/leadline/prompts/x.md")
    with pytest.raises(FileNotFoundError):
        main._disk_line(ours)


def test_a_result_that_is_too_long_does_not_count_and_the_run_goes_on() -> None:
    result = Result(way="solve", case="founding", sample=2, differences=["x" * 5000])
    assert Result.model_validate_json(line_of(result)) == result
    short = Result.model_validate_json(line_of(result, longest=4096))
    assert short.key == result.key and short.differences == []
    assert "more than the 4,096 that are passed on" in short.error


async def test_a_changed_artifact_counts_neither_as_a_score_nor_as_a_difference(tmp_path: Path) -> None:
    folder = tmp_path / "transcripts"
    shutil.copytree(recordings.FOLDER, folder)
    used = {ref.sha256 for event in recordings.load(NEEDED).events for _, ref in recordings.references(event)}
    store = recordings.store_of(folder)
    for digest in used:
        file = store.path(digest)
        other = b'"other"' if ".json" in file.suffixes else b"other"
        file.write_bytes(gzip.compress(other) if file.suffix == ".gz" else other)
    asked = Asked(transcripts=folder, jobs=1)
    context = RunContext(asked=asked, folder=tmp_path)
    job = Job(way="replay", case=recordings.about(NEEDED).case, recording=NEEDED)
    says = rf"{NEEDED}\.jsonl:\d+: artifacts\.\d+\.sha256: artifact [0-9a-f]{{12}} was changed on disk"
    with pytest.raises(TranscriptError, match=says):
        await repeat(job, context, Settings())
    with pytest.raises(TranscriptError, match=says):
        await rate(job, context)
