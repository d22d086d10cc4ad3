from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ExitCode, TranscriptError
from agent.events import ToolStarted
from agent.models.replay import Recording, RecordingOver, ReplayDiverged, ReplayModel, first_difference
from agent.replay import Report, replay
from agent.session import Session
from agent.surfaces.replay import run as run_command
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import STORY, TOOLS, Move, begin, call, conclusion, make_settings, run, turn
from tests.trial_parts import go, moves, open_session, tools
from tools.contract import Tool, ToolContext


async def record(root: Path, moves: Sequence[Move] = STORY) -> Path:
    session = begin(root / "first", moves)
    await run(session)
    return session.folder / "transcript.jsonl"


async def again(root: Path, path: Path, tools: Any = TOOLS) -> Report:
    return await replay(Recording.load(path), make_settings(root / "second"), tools)


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        change(event)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


async def test_a_recording_goes_the_same_way_without_a_host(tmp_path: Path) -> None:
    report = await again(tmp_path, await record(tmp_path))
    assert report.same and report.notes == []
    assert (report.outcome, report.turns) == ("diagnosed", 5)
    assert report.counts == {"ledger move": 3, "verifier result": 2, "outcome": 1}
    assert not (tmp_path / "second").exists()


async def test_a_longer_recording_holds_errors_and_repeated_ids(tmp_path: Path) -> None:
    moves = [
        STORY[0],
        turn(call("look", text="refuse"), call("look"), call("nothing"), call("look", txt="wrong")),
        turn(text="Let me think."),
        *STORY[2:],
    ]
    report = await again(tmp_path, await record(tmp_path, moves))
    assert report.same and report.turns == 6


async def test_what_was_said_later_is_said_again(tmp_path: Path) -> None:
    session = begin(tmp_path / "first", [*STORY, turn(text="Because of the flag.")])
    async for _ in session.ask(None):
        pass
    await run(session, "why?")
    report = await again(tmp_path, session.folder / "transcript.jsonl")
    assert report.same and report.turns == 6


async def test_words_in_the_middle_end_what_is_repeated(tmp_path: Path) -> None:
    session = begin(tmp_path / "first", [*STORY[:2], turn(conclusion(outcome="inconclusive"))])
    async for event in session.ask(None):
        if isinstance(event, ToolStarted) and event.turn == 2:
            session.cancel()
    await run(session, "stop looking")
    report = await again(tmp_path, session.folder / "transcript.jsonl")
    assert report.same
    assert report.notes[0] == "a person spoke in the middle of turn 2: what follows is not repeated"
    assert "the recording has no" in report.notes[1]


async def test_a_result_that_differs_is_named(tmp_path: Path) -> None:
    path = await record(tmp_path)

    def other_quote(event: dict[str, Any]) -> None:
        if event["type"] == "tool_finished" and event["tool"] == "hypothesis":
            event["view"] = event["view"].replace("supported", "refuted")

    edit(path, other_quote)
    report = await again(tmp_path, path)
    assert any("recorded " in text and "refuted" in text for text in report.differences)
    assert report.differences[0].startswith("before turn 4: message [")


async def test_a_verifier_that_decides_otherwise_is_named(tmp_path: Path) -> None:
    path = await record(tmp_path)

    def accepted(event: dict[str, Any]) -> None:
        if event["type"] == "conclusion_checked":
            event["checks"][0]["status"] = "opinion"

    edit(path, accepted)
    report = await again(tmp_path, path)
    assert report.differences == ['verifier result 1: checks[0].status: recorded "opinion", now "unverified"']


async def test_missing_output_is_told(tmp_path: Path) -> None:
    path = await record(tmp_path)
    for artifact in (path.parent / "artifacts").iterdir():
        artifact.unlink()
    report = await again(tmp_path, path)
    assert "artifact t1.1 (cmdline) is missing or was changed" in report.differences[0]


async def test_an_unfinished_recording_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    path = await record(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if '"type":"turn_taken"' in line)
    path.write_text("".join(lines[:last]))
    report = await again(tmp_path, path)
    assert report.same and report.outcome is None
    assert report.notes == ["the recording has no turn 5: compared as far as it goes"]


async def test_changed_prompts_and_tools_are_noted(tmp_path: Path) -> None:
    path = await record(tmp_path)

    def older(event: dict[str, Any]) -> None:
        if event["type"] == "started":
            event["prompts"] |= {"system.md.j2": "0", "tool:look": "0"}

    edit(path, older)
    report = await again(tmp_path, path)
    assert report.same
    assert report.notes == [
        "system.md.j2 has changed since the recording",
        "tool look has changed since the recording",
    ]
    tools = [{"type": "function", "function": {"name": "look"}}]
    model = ReplayModel(Recording.load(path))
    with pytest.raises(ReplayDiverged, match="before turn 1: the schema of tool look has changed"):
        await model.next_turn([{"role": "assistant", "content": ""}], tools)


async def test_a_replayed_tool_never_reaches_a_host(tmp_path: Path) -> None:
    async def reach(ctx: ToolContext, args: Any) -> dict[str, Any]:
        raise AssertionError("a tool was run")

    closed = {
        name: Tool(tool.name, tool.description, tool.args, reach, tool.read_only)
        for name, tool in TOOLS.items()
    }
    assert (await again(tmp_path, await record(tmp_path), closed)).same


async def test_the_model_ends_where_its_recording_does(tmp_path: Path) -> None:
    model = ReplayModel(Recording.load(await record(tmp_path)))
    with pytest.raises(RecordingOver, match="no turn 6"):
        await model.next_turn([{"role": "assistant", "content": ""}] * 6, [])


async def test_a_view_that_was_cut_is_repeated_as_text(tmp_path: Path) -> None:
    session = begin(tmp_path / "first", STORY)
    limit = session._work.settings.tools.model_copy(update={"view_chars": 90})
    session._work.settings = session._work.settings.model_copy(update={"tools": limit})
    await run(session)
    assert any("characters shown" in getattr(event, "view", "") for event in session.events)
    assert (await again(tmp_path, session.folder / "transcript.jsonl")).same


@pytest.mark.parametrize(
    ("to", "decide", "outcome"),
    [("graphs", "approved", "fixed"), ("worse", "approved", "diagnosed"), ("graphs", "denied", "diagnosed")],
)
async def test_what_was_tried_on_a_host_is_told_and_not_tried_again(
    tmp_path: Path, to: str, decide: str, outcome: str
) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"), to)
    script = moves(outcome=outcome, changes=["C1"] if outcome == "fixed" else [])
    session = open_session(tmp_path / "first", service, script)
    await go(session, decide)
    await session.close()
    calls, state = list(service.calls), service.host.read()
    assert session.ended is not None and session.ended.outcome == outcome
    path = session.folder / "transcript.jsonl"
    report = await again(tmp_path, path, tools(service))
    assert report.same and report.outcome == outcome and report.notes == []
    assert (service.calls, service.host.read()) == (calls, state)


async def test_a_trial_that_was_cut_off_ends_what_is_repeated(tmp_path: Path) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"))
    session = open_session(tmp_path / "first", service, moves())
    async for _ in session.ask():
        pass
    assert session.waiting is not None
    await session.close()
    report = await again(tmp_path, session.folder / "transcript.jsonl", tools(service))
    assert report.same and "the recording has no result of call_propose_change" in report.notes[0]


def test_first_difference_names_the_place() -> None:
    assert first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == "a[1].b: recorded 2, now 3"
    assert first_difference([1], [1, 2]) == "[1]: recorded null, now 2"
    assert first_difference({"a": None}, {}) == ""


async def test_a_file_that_is_no_transcript_is_told(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="cannot read"):
        Recording.load(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(TranscriptError):
        Recording.load(tmp_path / "empty.jsonl")


async def test_events_of_another_process_change_nothing(tmp_path: Path) -> None:
    session = begin(tmp_path / "first", STORY)
    async for event in session.ask(None):
        if isinstance(event, ToolStarted) and event.turn == 2:
            session.cancel()
    await session.close()
    from tests.scripted_parts import again as resume

    resumed: Session = resume(tmp_path / "first", STORY, session.thread)
    await run(resumed)
    assert resumed.exit_code is ExitCode.DONE
    assert (await again(tmp_path, session.folder / "transcript.jsonl")).same


def test_the_command_says_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    path = asyncio.run(record(tmp_path))
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(SystemExit) as caught:
        run_command(path, as_json=True)  # the tools of the story are not the product's
    assert caught.value.code == ExitCode.ERROR
    shown = json.loads(capsys.readouterr().out)
    assert shown["same"] is False and "message [6]" in shown["differences"][0]
