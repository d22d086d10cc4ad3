"""Recordings: kept whole, free of source, refused with file, line and field when something is wrong."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.config import Settings, load_settings
from agent.errors import LeadlineError, TranscriptError, UsageError
from agent.events import Started, ToolFinished
from agent.replay import replay
from agent.transcript import main, read_events
from evals import case, recordings
from evals.lab.package import PINS
from evals.packed import FORMS
from evals.quoted_source import Leak, find_leaks
from evals.recording_check import problems
from evals.results import Score
from evals.source_text import package_root
from evals.transcript_commands import app
from tools.artifacts import ArtifactStore

CACHE = Settings().cache_dir
NAME = "founding-halfway"

pytestmark = pytest.mark.skipif(
    not (CACHE / "packages" / f"sglang-0.5.11-{PINS['sglang', '0.5.11'].sha256[:12]}").is_dir(),
    reason="the package source is not cached: start the lab once",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of recordings that holds one, to be broken."""
    copy = tmp_path / "transcripts"
    copy.mkdir()
    for suffix in (".jsonl", ".yaml"):
        shutil.copyfile(recordings.FOLDER / f"{NAME}{suffix}", copy / f"{NAME}{suffix}")
    store = recordings.store_of()
    used = {ref.sha256 for event in recordings.load(NAME).events for _, ref in recordings.references(event)}
    (copy / "artifacts").mkdir()
    for digest in used | {other for one in used for other in store.needs(one)}:
        file = store.path(digest)
        shutil.copyfile(file, copy / "artifacts" / file.name)
    return copy


@pytest.fixture
def thread(tmp_path: Path) -> Path:
    """Return a recording as the folder of a thread."""
    recordings.unpack_to(NAME, tmp_path / "thread")
    return tmp_path / "thread"


@pytest.mark.parametrize("name", recordings.names())
def test_each_recording_can_be_read_and_says_what_it_is_kept_for(name: str) -> None:
    about = recordings.about(name)
    case.load(about.case)
    recording = recordings.load(name)
    started = recording.started
    assert (started.recorded, started.scenario, started.mode) == (about.recorded, about.scenario, about.mode)
    assert about.says.endswith(".") and about.scenario_sha256 and about.how
    for event in recording.events:
        for _, ref in recordings.references(event):
            assert len(recording.store.get(ref.sha256)) == ref.size


def test_there_are_the_recordings_that_the_evals_rest_on() -> None:
    kept = set(recordings.names())
    assert {"founding-solved", "founding-fixed", "founding-halfway", "twin-solved", "healthy-fine"} <= kept


@pytest.mark.slow
def test_no_source_and_no_stray_is_committed() -> None:
    assert list(problems([])) == []


def test_an_unpacked_recording_is_a_valid_transcript(
    thread: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(thread / "transcript.jsonl")]) == 0
    assert "valid" in capsys.readouterr().out
    assert [event.seq for event in read_events(thread / "transcript.jsonl")] == list(
        range(recordings.about(NAME).events)
    )


async def test_a_recording_can_be_replayed(tmp_path: Path) -> None:
    settings = load_settings().model_copy(update={"state_dir": tmp_path})
    report = await replay(recordings.load(NAME), settings)
    assert (report.differences, report.outcome, report.turns) == ([], "diagnosed", 5)


def test_keeping_an_unpacked_recording_gives_the_same_files(
    folder: Path, thread: Path, tmp_path: Path
) -> None:
    about = recordings.about(NAME)
    again = tmp_path / "again"
    recordings.save(thread, NAME, case=about.case, says=about.says, how=about.how, folder=again)
    assert (again / f"{NAME}.jsonl").read_bytes() == (folder / f"{NAME}.jsonl").read_bytes()
    files = {path.name: path.read_bytes() for path in (again / "artifacts").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (folder / "artifacts").iterdir()}


def change(file: Path, edit: Callable[[str], str]) -> None:
    before = file.read_text(encoding="utf-8")
    after = edit(before)
    assert after != before
    file.write_text(after, encoding="utf-8")


def test_a_torn_line_is_named(folder: Path) -> None:
    change(folder / f"{NAME}.jsonl", lambda text: text[:-20])
    count = recordings.about(NAME).events
    with pytest.raises(TranscriptError, match=rf"{NAME}\.jsonl:{count}: line: the last line is torn"):
        recordings.load(NAME, folder)


def test_missing_lines_are_noticed(folder: Path) -> None:
    change(folder / f"{NAME}.jsonl", lambda text: "".join(text.splitlines(keepends=True)[:-3]))
    assert any("events were kept" in text or "were kept" in text for text in problems([NAME], folder))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"schema_version":1', '"schema_version":7', r"jsonl:1: schema_version: 7 is newer than 1"),
        ('"type":"started"', '"type":"begun"', r"jsonl:1: "),
        (
            "sglang@0.5.11/",
            "sglang@9.9.9/",
            r"jsonl:\d+: [\w.]+: the source of sglang 9.9.9 is needed: no digest",
        ),
        ("/server_args.py:", "/no_such.py:", r"jsonl:\d+: [\w.]+: sglang 0.5.11 has no .*no_such.py"),
        ('"$call":"d1-1"', '"$call":"d9-9"', r"jsonl:\d+: 'd9-9' is told by no line before"),
        ('"seq":4', '"seq":5', r"jsonl:5: seq: 5 where 4 was due"),
    ],
)
def test_what_is_wrong_in_a_line_is_named(folder: Path, old: str, new: str, says: str) -> None:
    change(folder / f"{NAME}.jsonl", lambda text: text.replace(old, new, 1))
    with pytest.raises(TranscriptError, match=says):
        recordings.load(NAME, folder)


def first_artifact(folder: Path, form: str) -> Path:
    return next(path for path in sorted((folder / "artifacts").iterdir()) if path.name[64:] == form)


def test_a_missing_artifact_is_named_by_the_line_that_needs_it(folder: Path) -> None:
    first_artifact(folder, "").unlink()
    with pytest.raises(TranscriptError, match=rf"{NAME}\.jsonl:\d+: artifacts\.\d+\.sha256: no artifact"):
        recordings.load(NAME, folder)


@pytest.mark.parametrize("form", FORMS[:2])
def test_a_changed_artifact_is_noticed(folder: Path, form: str) -> None:
    file = first_artifact(folder, form)
    change(file, lambda text: text.replace("e", "3", 1))
    assert any("was changed on disk" in text for text in problems([NAME], folder))


def test_a_file_that_nothing_needs_is_named(folder: Path) -> None:
    (folder / "artifacts" / ("0" * 64)).write_text("nobody's")
    assert any("no recording needs it" in text for text in problems([], folder))


def test_an_unknown_recording_lists_those_there_are(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no recording 'nothing'; .*leadline transcripts list"):
        recordings.load("nothing", folder)
    with pytest.raises(UsageError, match="no recording"):
        recordings.load(f"../{folder.name}/{NAME}", folder)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (
            lambda text: text.replace("says:", "sayz:"),
            r"founding-halfway\.yaml:2: sayz: there is no such",
        ),
        (lambda text: text.replace("success:", "cauze:"), r"founding-halfway\.yaml:4: expect\.cauze"),
        (lambda text: text + "a: [\n", r"founding-halfway\.yaml: is not YAML"),
    ],
)
def test_what_is_wrong_beside_a_recording_is_named(
    folder: Path, edit: Callable[[str], str], says: str
) -> None:
    change(folder / f"{NAME}.yaml", edit)
    with pytest.raises(UsageError, match=says):
        recordings.about(NAME, folder)


def test_another_origin_than_that_of_the_transcript_is_named(folder: Path) -> None:
    change(
        folder / f"{NAME}.yaml",
        lambda text: text.replace("recorded: demonstration", "recorded: openai:gpt-9"),
    )
    told = r"founding-halfway.yaml: recorded: openai:gpt-9, but the transcript says demonstration"
    assert any(told in text for text in problems([NAME], folder))


def test_an_unfinished_thread_is_not_kept(thread: Path, tmp_path: Path) -> None:
    change(thread / "transcript.jsonl", lambda text: "".join(text.splitlines(keepends=True)[:-1]))
    with pytest.raises(UsageError, match="has not ended"):
        recordings.save(thread, "cut", case="founding", says="x", folder=tmp_path / "out")


def test_a_thread_without_its_artifacts_is_not_kept(thread: Path, tmp_path: Path) -> None:
    shutil.rmtree(thread / "artifacts")
    with pytest.raises(TranscriptError, match=r"transcript\.jsonl:4: artifacts\.0\.sha256: .* is missing"):
        recordings.save(thread, "bare", case="founding", says="x", folder=tmp_path / "out")


def test_secrets_are_masked_once_more(thread: Path, tmp_path: Path) -> None:
    secret = "sk-" + "a1B2c3D4" * 4
    path = thread / "transcript.jsonl"
    done = next(event for event in read_events(path) if isinstance(event, ToolFinished) and event.artifacts)
    old = done.artifacts[0]
    store = ArtifactStore(thread / "artifacts")
    new = store.put(store.get(old.sha256) + f"OPENAI_API_KEY={secret}\n".encode())
    change(path, lambda text: text.replace(old.sha256, new).replace("slow: 24", f"slow, key {secret}: 24"))
    out = tmp_path / "out"
    recordings.save(thread, "masked", case="founding", says="x", folder=out)
    kept = recordings.load("masked", out)
    assert secret not in kept.started.symptom
    masked = next(r for e in kept.events for _, r in recordings.references(e) if r.handle == old.handle)
    assert masked.sha256 not in (old.sha256, new)
    assert b"API_KEY" in kept.store.get(masked.sha256) and secret.encode() not in kept.store.get(
        masked.sha256
    )
    assert all(secret.encode() not in file.read_bytes() for file in out.rglob("*") if file.is_file())


LONG_LINE = 'raise RuntimeError("this line is long enough to be recognised anywhere")'
SHORT_LINES = ["alpha = compute()", "beta = alpha + 1", "return beta"]


@pytest.mark.parametrize(
    ("name", "write", "lines"),
    [
        ("plain", f"before\n  {LONG_LINE}\nafter", 1),
        ("quoted", f"grep said `{LONG_LINE}`", 1),
        ("numbered", "\n".join(f"{n}:     {line}" for n, line in enumerate(SHORT_LINES, 4)), 3),
        ("rows.jsonl", json.dumps({"view": json.dumps({"text": LONG_LINE})}) + "\n", 1),
        ("parts.json", json.dumps({"$text": ["x", "\n".join(SHORT_LINES)]}), 3),
        ("escaped", json.dumps(json.dumps("\n".join(SHORT_LINES))), 3),
    ],
)
def test_source_is_found_however_it_is_quoted(tmp_path: Path, name: str, write: str, lines: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    body = "\n".join(f"    {line}" for line in [*SHORT_LINES, LONG_LINE])
    (root / "demo.py").write_text(f"def demo():\n{body}\n")
    file, packed = tmp_path / name, tmp_path / f"{name}.gz"
    file.write_text(write)
    packed.write_bytes(gzip.compress(write.encode()))
    for one in [file] if name.endswith("l") else [file, packed]:
        assert find_leaks([one], {"demo@1": root}) == [
            Leak(one, "demo@1/demo.py", 2 if lines == 3 else 5, lines)
        ]
    file.write_text(write.replace("o", "0"))
    assert find_leaks([file], {"demo@1": root}) == []


def test_a_line_of_the_package_in_a_recording_is_a_problem(folder: Path) -> None:
    source = package_root("sglang", "0.5.11", CACHE) / "sglang" / "srt" / "server_args.py"
    line = max(source.read_text().splitlines(), key=len).strip()
    change(
        folder / f"{NAME}.jsonl", lambda text: text.replace("slow: 24", f"slow {json.dumps(line)[1:-1]}: 24")
    )
    assert any("server_args.py from line" in text for text in problems([NAME], folder))


def test_expected_bounds_are_told() -> None:
    about = recordings.about(NAME).model_copy(
        update={"expect": {"cause": (0.4, 0.6), "fix": 1.0, "success": 0.0}}
    )
    score = Score(case="founding", outcome="diagnosed", scores={"cause": 0.5, "fix": 0.5}, success=True)
    assert recordings.misses(about, score) == ["fix is 0.5, expected 1", "success is 1, expected 0"]


def test_commands_list_show_and_unpack(tmp_path: Path) -> None:
    def said(*words: str) -> str:
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    rows = [json.loads(line) for line in said("list", "--json").splitlines()]
    assert {row["name"] for row in rows} == set(recordings.names())
    assert NAME in said("list")
    assert "--disable-cuda-graph" in said("show", NAME)
    assert "--pp-size" in said("show", NAME, "--artifact", "t1.3")
    assert "events" in said("unpack", NAME, str(tmp_path / "out"))
    started = read_events(tmp_path / "out" / "transcript.jsonl")[0]
    assert isinstance(started, Started) and started.recorded == "demonstration"
    with pytest.raises(LeadlineError, match="is not empty"):
        said("unpack", NAME, str(tmp_path / "out"))
    with pytest.raises(LeadlineError, match="no artifact t99"):
        said("show", NAME, "--artifact", "t99.1")
