from __future__ import annotations

import json
import resource
import signal
import stat
from pathlib import Path

import jsonschema
import pytest

from agent import threads
from agent.errors import TranscriptError, UsageError
from agent.events import (
    SCHEMA_VERSION,
    Event,
    EvidenceAdded,
    Resumed,
    Started,
    SystemNote,
    ToolFinished,
    ToolStarted,
    TurnTaken,
    UserMessage,
)
from agent.state import Citation, Evidence, ToolCall
from agent.transcript import Transcript, check_order, json_schema, main, mask, read_events
from tests.scripted_parts import STORY, again, begin, essence, make_settings, plain, run
from tools.redact import redact

STARTED = Started(
    thread="x", product="0", recorded="scripted", symptom="slow", hosts=["here"], mode="read-only"
)
CALL = ToolCall(id="a", name="look", arguments="{}")


def write(path: Path, *events: Event) -> Path:
    transcript = Transcript(path, plain)
    transcript.append_all(events)
    transcript.close()
    return path


def result(tool_call_id: str = "a", view: str = "{}") -> ToolFinished:
    return ToolFinished(call="t1", tool_call_id=tool_call_id, tool="look", status="ok", view=view)


def intent(tool_call_id: str = "a") -> ToolStarted:
    return ToolStarted(call="t1", tool_call_id=tool_call_id, tool="look")


def test_schema_file_is_current() -> None:
    kept = Path(__file__).parent.parent / "transcripts" / "schema.json"
    assert kept.read_text() == json_schema(), "python -m agent.transcript schema > transcripts/schema.json"


async def test_every_line_of_a_run_meets_the_schema(tmp_path: Path) -> None:
    session = begin(tmp_path, STORY)
    await run(session)
    validator = jsonschema.Draft202012Validator(json.loads(json_schema()))
    lines = (session.folder / "transcript.jsonl").read_text().splitlines()
    for line in lines:
        validator.validate(json.loads(line))
    assert len(lines) == len(session.events)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**json.loads(lines[0]), "more": 1})


def test_events_come_back_as_written(tmp_path: Path) -> None:
    path = write(tmp_path / "t", STARTED, UserMessage(text='ü "\n\u2028'), SystemNote(turn=3, text="x"))
    events = read_events(path)
    assert [event.seq for event in events] == [0, 1, 2]
    assert isinstance(events[1], UserMessage) and events[1].text == 'ü "\n\u2028'
    assert events[2].turn == 3 and events[2].at > events[0].at.replace(year=2025)


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t", STARTED)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_end_is_dropped_and_the_rest_kept(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "t", STARTED, UserMessage(text="first"), UserMessage(text="second"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with pytest.raises(TranscriptError, match="torn"):
        read_events(path)
    transcript = Transcript(path, plain)
    assert len(transcript.events) == 2
    transcript.append(UserMessage(text="third"))
    transcript.close()
    texts = [event.text for event in read_events(path) if isinstance(event, UserMessage)]
    assert texts == ["first", "third"]


def test_a_ledger_call_that_was_cut_off_is_dropped_whole(tmp_path: Path) -> None:
    cited = Citation(
        artifact="t1.1", sha256="0" * 64, host="here", label="x", lines=(1, 1), quote="q", taken_at=STARTED.at
    )
    proof = EvidenceAdded(evidence=Evidence(id="E1", kind="log", citation=cited))
    turn = TurnTaken(turn=1, model="m", tool_calls=[CALL])
    path = write(tmp_path / "t", STARTED, turn, intent(), proof)
    transcript = Transcript(path, plain)
    assert [event.type for event in transcript.events] == ["started", "turn_taken", "tool_started"]
    transcript.append_all([proof, result()])
    transcript.close()
    assert [event.type for event in read_events(path)][-2:] == ["evidence_added", "tool_finished"]


def test_damage_before_the_end_is_told_with_line_and_field(tmp_path: Path) -> None:
    path = write(tmp_path / "t", STARTED, UserMessage(text="first"), UserMessage(text="second"))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1].replace('"text"', '"txt"'), lines[2]]) + "\n")
    with pytest.raises(TranscriptError, match=r"t:2: txt: there is no such field"):
        Transcript(path, plain)
    path.write_text("\n".join([lines[0], lines[2]]) + "\n")
    with pytest.raises(TranscriptError, match="t:2: seq: 2 where 1 was due"):
        read_events(path)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t", STARTED)
    newer = json.loads(path.read_text()) | {"schema_version": SCHEMA_VERSION + 1, "brand_new": 1}
    path.write_text(json.dumps(newer) + "\n")
    with pytest.raises(TranscriptError, match="newer"):
        read_events(path)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([intent()], "no turn asked for a"),
        ([TurnTaken(turn=1, model="m", tool_calls=[CALL]), result()], "ended before it started"),
        ([TurnTaken(turn=1, model="m", tool_calls=[CALL]), intent(), result(), result()], "ended twice"),
    ],
)
def test_calls_out_of_order_are_told(tmp_path: Path, events: list[Event], says: str) -> None:
    path = write(tmp_path / "t", STARTED, *events)
    with pytest.raises(TranscriptError, match=says):
        check_order(read_events(path), path)


def test_validate_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path / "good", STARTED)
    bad = write(tmp_path / "bad", Resumed(process="p"))
    assert main(["validate", str(good)]) == 0
    assert "1 events" in capsys.readouterr().out
    assert main(["validate", str(good), str(bad), str(tmp_path / "none")]) == 1
    told = capsys.readouterr().out
    assert "bad:1: type" in told and "cannot read" in told
    assert main(["check"]) == 2


def test_masking_leaves_digests_and_json_alone() -> None:
    def redact(data: bytes) -> bytes:
        return data.replace(b"secret", b"***").replace(b"f" * 64, b"***")

    digest = "f" * 64
    value = {"sha256": digest, "text": "a secret", "arguments": json.dumps({"key": "secret"})}
    clean = mask(value, redact, keep=frozenset({"sha256"}))
    assert clean == {"sha256": digest, "text": "a ***", "arguments": json.dumps({"key": "***"})}
    same = {"text": "fine", "list": ["x", 1, None]}
    assert mask(same, redact) is same


def test_half_characters_of_a_model_do_not_stop_the_record(tmp_path: Path) -> None:
    path = write(tmp_path / "t", STARTED, TurnTaken(turn=1, model="m", text="\ud800 half"))
    assert isinstance(read_events(path)[1], TurnTaken)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "A", "x" * 65, "ab\n", "a b", "/etc", "x\0y"])
def test_hostile_thread_ids_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a thread id"):
        begin(tmp_path, STORY, thread=name or "..")
    with pytest.raises(UsageError):
        again(tmp_path, STORY, name or "..")
    assert not list(tmp_path.rglob("*"))


async def test_a_linked_thread_is_not_followed(tmp_path: Path) -> None:
    session = begin(tmp_path / "other", STORY)
    await session.close()
    (tmp_path / "threads").mkdir()
    (tmp_path / "threads" / "linked").symlink_to(session.folder)
    with pytest.raises(UsageError, match="no thread linked"):
        again(tmp_path, STORY, "linked")


async def test_threads_are_listed_newest_first(tmp_path: Path) -> None:
    first = begin(tmp_path, STORY, thread="first")
    await run(first)
    second = begin(tmp_path, STORY, thread="second")
    (tmp_path / "threads" / "broken").mkdir()
    (tmp_path / "threads" / "broken" / "transcript.jsonl").write_text("{}\n{}\n")
    found = threads.list_threads(make_settings(tmp_path))
    await second.close()
    assert [(item.thread, item.outcome, item.symptom) for item in found] == [
        ("second", None, "slow"),
        ("first", "diagnosed", "slow"),
    ]
    assert threads.started(make_settings(tmp_path), "first").hosts == ["here"]


async def test_two_runs_of_one_script_say_the_same(tmp_path: Path) -> None:
    sessions = [begin(tmp_path / name, STORY, thread="same") for name in ("a", "b")]
    for session in sessions:
        await run(session)
    one, two = (essence(session.events) for session in sessions)
    ordered = [sorted(json.dumps(event, sort_keys=True) for event in events) for events in (one, two)]
    assert ordered[0] == ordered[1]


def test_a_full_disk_leaves_only_whole_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", STARTED)
    transcript = Transcript(path, plain)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, limits[1]))
        with pytest.raises(TranscriptError, match="make room"):
            transcript.append(result(view="x" * 10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    transcript.append(UserMessage(text="there is room again"))
    transcript.close()
    assert [event.type for event in read_events(path)] == ["started", "user_message"]


def test_secrets_in_arguments_nested_beyond_reason_are_masked(tmp_path: Path) -> None:
    for deep in (1, 900, 200_000):
        text = '{"api_key": "not-for-1-disk", "more": ' + "[" * deep + "]" * deep + "}"
        turn = TurnTaken(turn=1, model="m", tool_calls=[ToolCall(id="a", name="n", arguments=text)])
        folder = tmp_path / str(deep)
        folder.mkdir()
        transcript = Transcript(folder / "transcript.jsonl", redact)
        transcript.append_all([STARTED, turn])
        transcript.close()
        assert b"not-for-1-disk" not in (folder / "transcript.jsonl").read_bytes()
