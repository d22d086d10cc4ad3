from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agent.errors import ExitCode, ModelEndpointError
from agent.events import ConclusionChecked, Failed, Progress, SystemNote, TextDelta, ToolFinished, TurnTaken
from agent.models import ToolSchema
from agent.session import Session
from agent.state import AssistantTurn, Message, ToolCall
from tests.scripted_parts import (
    EVIDENCE,
    HYPOTHESIS,
    STORY,
    TOOLS,
    LocalHost,
    ScriptedModel,
    again,
    begin,
    call,
    conclusion,
    make_settings,
    plain,
    run,
    turn,
)


def finished(session: Session) -> list[ToolFinished]:
    return [event for event in session.events if isinstance(event, ToolFinished)]


def views(session: Session) -> dict[str, str]:
    return {event.call: event.view for event in finished(session)}


async def test_a_whole_investigation_ends_diagnosed(tmp_path: Path) -> None:
    session = begin(tmp_path, STORY)
    live = await run(session)
    assert session.ended is not None and session.ended.outcome == "diagnosed"
    assert session.exit_code is ExitCode.DONE
    checks = [event for event in session.events if isinstance(event, ConclusionChecked)]
    assert [event.accepted for event in checks] == [False, True]
    assert checks[1].checks[0].status == "verified"
    assert any(isinstance(event, TextDelta) and "graphs" in event.text for event in live)
    assert any(isinstance(event, Progress) for event in live)
    stored = [event for event in live if not isinstance(event, TextDelta | Progress)]
    assert stored == list(session.events)[1:]


async def test_facts_are_gathered_before_the_first_turn(tmp_path: Path) -> None:
    seen: list[Message] = []

    def look(messages: Sequence[Message]) -> AssistantTurn:
        seen.extend(messages)
        return turn(conclusion(outcome="inconclusive"))

    await run(begin(tmp_path, [look]))
    assert [message["role"] for message in seen] == ["system", "user", "assistant", "tool"]
    assert seen[2]["tool_calls"][0]["function"]["name"] == "facts"
    assert json.loads(seen[3]["content"])["flags"] == {"disable_cuda_graph": True}


async def test_parallel_calls_run_side_by_side_and_answer_in_call_order(tmp_path: Path) -> None:
    seen: list[Message] = []

    def look(messages: Sequence[Message]) -> AssistantTurn:
        seen.extend(messages)
        return turn(conclusion(outcome="inconclusive"))

    three = turn(call("look", text="a", wait_s=0.2), call("look", text="b"), call("look", text="c"))
    session = begin(tmp_path, [three, look])
    await run(session)
    assert [event.call for event in finished(session)][1:4] != ["t2", "t3", "t4"]
    said = [json.loads(message["content"]).get("said") for message in seen if message["role"] == "tool"]
    assert said == [None, "a\n", "b\n", "c\n"]
    assert views(session)["t2"].find("t2.1") > 0


async def test_repeated_ids_of_a_model_are_told_apart(tmp_path: Path) -> None:
    moves = [turn(call("look"), call("look")), turn(call("look")), turn(conclusion(outcome="inconclusive"))]
    session = begin(tmp_path, moves)
    await run(session)
    ids = [event.tool_call_id for event in finished(session)]
    assert len(set(ids)) == len(ids) == 5


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (ToolCall(id="x", name="look", arguments='{"text": "a'), "not JSON"),
        (ToolCall(id="x", name="look", arguments="[1]"), "one JSON object"),
        (ToolCall(id="x", name="look", arguments="[" * 200_000), "not JSON"),
        (ToolCall(id="x", name="look", arguments='{"text":' + "[" * 900 + "]" * 900 + "}"), "nested deeper"),
        (ToolCall(id="x", name="look", arguments='{"text": "\\ud800"}'), "surrogate"),
        (ToolCall(id="", name="look", arguments='{"txt": "a"}'), "txt: Extra inputs"),
        (ToolCall(id="x", name="lok", arguments="{}"), "did you mean look"),
        (ToolCall(id="x", name="look", arguments='{"text": "refuse"}'), "look at something else"),
        (ToolCall(id="x", name="look", arguments='{"host": "elsewhere"}'), "name one of the hosts"),
        (ToolCall(id="x", name="grep", arguments="{}"), "state at least one hypothesis"),
        (ToolCall(id="x", name="conclude", arguments="{}"), "outcome: Field required"),
        (ToolCall(id="x", name="hypothesis", arguments="{}"), "give `add` or `update`"),
    ],
)
async def test_a_broken_call_teaches_the_model(tmp_path: Path, wrong: ToolCall, says: str) -> None:
    session = begin(tmp_path, [turn(wrong), turn(conclusion(outcome="inconclusive"))])
    await run(session)
    result = finished(session)[1]
    assert result.status == "tool_error" and says in result.view
    assert session.ended is not None and session.ended.outcome == "inconclusive"


async def test_broken_arguments_are_not_sent_back_to_the_server(tmp_path: Path) -> None:
    seen: list[Message] = []

    def look(messages: Sequence[Message]) -> AssistantTurn:
        seen.extend(messages)
        return turn(conclusion(outcome="inconclusive"))

    await run(begin(tmp_path, [turn(ToolCall(id="x", name="look", arguments='{"text": "a')), look]))
    sent = [part for message in seen for part in message.get("tool_calls", [])]
    assert all(isinstance(json.loads(part["function"]["arguments"]), dict) for part in sent)


async def test_a_hypothesis_and_a_read_may_share_a_turn(tmp_path: Path) -> None:
    session = begin(
        tmp_path, [turn(HYPOTHESIS, call("grep", text="x")), turn(conclusion(outcome="inconclusive"))]
    )
    await run(session)
    assert [event.status for event in finished(session)][:3] == ["ok", "ok", "ok"]


async def test_a_bug_in_a_tool_is_recorded_and_raised(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(call("look", text="break"), call("look", text="fine", wait_s=5))])
    with pytest.raises(RuntimeError, match="a bug in the tool"):
        await run(session)
    assert isinstance(session.events[-1], Failed)
    assert "RuntimeError" in session.events[-1].error and session.thread in session.events[-1].error
    assert session.exit_code is ExitCode.ERROR


async def test_a_conclusion_that_fails_twice_is_shown_unverified(tmp_path: Path) -> None:
    wrong = conclusion(quote="never printed")
    session = begin(tmp_path, [turn(HYPOTHESIS), turn(EVIDENCE), turn(wrong), turn(wrong)])
    await run(session)
    last = [event for event in session.events if isinstance(event, ConclusionChecked)][-1]
    assert last.accepted and last.checks[0].status == "unverified" and last.problems
    assert session.ended is not None and session.ended.outcome == "diagnosed"


async def test_only_one_conclusion_a_turn_counts(tmp_path: Path) -> None:
    both = turn(conclusion(outcome="inconclusive"), conclusion(outcome="inconclusive"), call("look"))
    session = begin(tmp_path, [both])
    await run(session)
    assert sorted(event.status for event in finished(session)) == ["ok", "ok", "ok", "tool_error"]
    assert len([event for event in session.events if isinstance(event, ConclusionChecked)]) == 1


async def test_two_turns_without_a_call_end_inconclusive(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(text="Hm."), turn(text="I cannot say.")])
    await run(session)
    assert len([event for event in session.events if isinstance(event, SystemNote)]) == 1
    assert session.ended is not None
    assert (session.ended.outcome, session.ended.summary) == ("inconclusive", "I cannot say.")


async def test_after_the_end_a_question_may_be_answered_in_words(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(conclusion(outcome="inconclusive")), turn(text="Because.")])
    assert [event async for event in session.ask()]
    assert not [event async for event in session.ask()]
    answer = [event async for event in session.ask("why?")]
    await session.close()
    assert any(isinstance(event, TurnTaken) and event.text == "Because." for event in answer)
    assert not any(isinstance(event, SystemNote) for event in session.events)


async def test_an_endpoint_that_is_down_leaves_a_thread_to_resume(tmp_path: Path) -> None:
    def down(messages: Sequence[Message]) -> AssistantTurn:
        raise ModelEndpointError("no answer from http://127.0.0.1:9", do="start the server")

    session = begin(tmp_path, [turn(HYPOTHESIS), down])
    with pytest.raises(ModelEndpointError):
        await run(session)
    failed = session.events[-1]
    assert isinstance(failed, Failed) and "start the server" in failed.error and "resume" in failed.error
    assert session.exit_code is ExitCode.MODEL_ENDPOINT
    second = again(tmp_path, STORY, session.thread)
    await run(second)
    assert second.ended is not None and second.ended.outcome == "diagnosed"


async def test_interrupt_and_steer(tmp_path: Path) -> None:
    moves = [turn(call("look", text="slow", wait_s=60)), turn(conclusion(outcome="inconclusive"))]
    session = begin(tmp_path, moves)
    async for event in session.ask():
        if isinstance(event, TurnTaken) and event.turn == 1:
            asyncio.get_running_loop().call_later(0.1, session.cancel)
    assert session.exit_code is ExitCode.INTERRUPTED and session.ended is None
    live = await run(session, "look elsewhere")
    assert session.ended is not None
    cut = [event for event in live if isinstance(event, ToolFinished) and event.call == "t2"]
    assert len(cut) == 1 and "interrupted" in cut[0].view


async def test_drain_stops_after_the_step_and_resumes(tmp_path: Path) -> None:
    session = begin(tmp_path, STORY)
    async for event in session.ask():
        if isinstance(event, TurnTaken) and event.turn == 2:
            session.drain()
    await session.close()
    assert session.exit_code is ExitCode.TERMINATED and session.ended is None
    second = again(tmp_path, STORY, session.thread)
    await run(second)
    assert second.ended is not None and second.ended.outcome == "diagnosed"


async def test_leaving_the_stream_stops_the_run(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(call("look", text="slow", wait_s=60))])
    stream = session.ask()
    async for event in stream:
        if isinstance(event, TurnTaken):
            break
    await stream.aclose()
    await session.close()
    assert session.ended is None


async def test_secrets_reach_neither_model_nor_disk(tmp_path: Path) -> None:
    def redact(data: bytes) -> bytes:
        return data.replace(b"hunter2", b"<secret>")

    seen: list[Message] = []

    def look(messages: Sequence[Message]) -> AssistantTurn:
        seen.extend(messages)
        return turn(conclusion(outcome="inconclusive"), text="it is hunter2")

    model = ScriptedModel([turn(call("look", text="say hunter2")), look])
    session = Session.start(
        make_settings(tmp_path), model, {"here": LocalHost()}, "hunter2 fails", tools=TOOLS, redact=redact
    )
    await run(session)
    assert "hunter2" not in json.dumps(seen)
    assert "<secret>" in json.dumps(seen)
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert b"hunter2" not in path.read_bytes(), path


async def test_what_a_terminal_would_obey_is_made_visible(tmp_path: Path) -> None:
    session = begin(
        tmp_path,
        [turn(call("look", text="\x1b[31mred\x9b \u202e")), turn(conclusion(outcome="inconclusive"))],
    )
    await run(session)
    view = views(session)["t2"]
    assert view.isprintable()
    assert "202E" in json.loads(view)["said"]


async def test_a_view_that_is_too_long_is_cut_and_says_so(tmp_path: Path) -> None:
    session = begin(
        tmp_path,
        [turn(call("look", text="x" * 9000)), turn(conclusion(outcome="inconclusive"))],
        tools={"view_chars": 2000},
    )
    await run(session)
    view = views(session)["t2"]
    assert len(view) <= 2000 and "page on" in view


async def test_text_is_streamed_while_the_turn_runs(tmp_path: Path) -> None:
    class Streaming(ScriptedModel):
        async def next_turn(
            self,
            messages: Sequence[Message],
            tools: Sequence[ToolSchema],
            on_text: Callable[[str], None] = lambda text: None,
        ) -> AssistantTurn:
            for word in ("one ", "two"):
                on_text(word)
                await asyncio.sleep(0)
            return turn(conclusion(outcome="inconclusive"), text="one two")

    session = Session.start(
        make_settings(tmp_path), Streaming([]), {"here": LocalHost()}, "slow", tools=TOOLS, redact=plain
    )
    kinds = [event.type for event in await run(session)]
    assert kinds.index("text_delta") < kinds.index("turn_taken", 4)
    assert kinds.count("text_delta") == 2
