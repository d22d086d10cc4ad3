"""What a person says while work goes on: heard by the next turn, over no call that runs, in every resume."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.events import Ended, Event, Live, TextDelta, ToolFinished, ToolStarted, TurnTaken, UserMessage
from agent.models import ToolSchema
from agent.models.replay import Recording
from agent.replay import replay
from agent.session import Session
from agent.state import AssistantTurn, Message
from agent.transcript import check_order
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import (
    EVIDENCE,
    HYPOTHESIS,
    TOOLS,
    LocalHost,
    Move,
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
from tests.trial_parts import decision, moves, open_session, results

LONG = turn(call("look", text="long", wait_s=0.4), call("touch", path="/dev/null"))
STORY: Sequence[Move] = (turn(HYPOTHESIS), LONG, turn(EVIDENCE), turn(conclusion()))


class SlowModel(ScriptedModel):
    """Take long over the turns that are named, and tell what each was shown last."""

    def __init__(self, script: Sequence[Move], *slow: int) -> None:
        super().__init__(script)
        self.slow = set(slow)
        self.last: list[str] = []

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        number = sum(message["role"] == "assistant" for message in messages)
        self.last.append(str(messages[-1]["content"]))
        on_text(f"turn {number}")
        if number in self.slow:
            self.slow.discard(number)
            await asyncio.sleep(0.4)
        return await super().next_turn(messages, tools)


def opened(root: Path, model: ScriptedModel) -> Session:
    return Session.start(
        make_settings(root), model, {"here": LocalHost()}, "slow", tools=TOOLS, redact=plain, thread="one"
    )


def kinds(session: Session, *types: type[Event]) -> list[Event]:
    check_order(session.events, session.folder)
    return [event for event in session.events if isinstance(event, types)]


async def steered(session: Session, when: Callable[[Live], bool], text: str) -> list[Live]:
    """Let a session work to its end, and say something at the first event that fits."""
    live: list[Live] = []
    async for event in session.ask():
        if when(event) and not session.unheard and not any(isinstance(one, UserMessage) for one in live):
            assert session.steer(text)
        live.append(event)
    return live


def begins(tool: str) -> Callable[[Live], bool]:
    return lambda event: isinstance(event, ToolStarted) and event.tool == tool


async def test_words_over_a_call_are_heard_after_it_and_end_nothing(tmp_path: Path) -> None:
    session = opened(tmp_path, model := SlowModel(STORY))
    await steered(session, begins("look"), "mind the driver")
    said, done = kinds(session, UserMessage)[0], kinds(session, ToolFinished)
    look, touch = (next(one for one in done if one.tool == tool) for tool in ("look", "touch"))  # type: ignore[union-attr]
    assert isinstance(look, ToolFinished) and isinstance(touch, ToolFinished)
    assert look.status == "ok" and said.seq < look.seq and look.duration_s >= 0.4
    assert touch.status == "tool_error" and "before this had begun" in touch.view
    assert model.last[2] == "mind the driver" and session.ended is not None
    assert session.ended.outcome == "diagnosed" and not session.unheard
    await session.close()


async def test_words_over_a_turn_follow_it(tmp_path: Path) -> None:
    session = opened(tmp_path, model := SlowModel(STORY, 2))
    await steered(session, lambda event: event == TextDelta(text="turn 2"), "mind the driver")
    turns = [event for event in session.events if isinstance(event, TurnTaken)]
    assert [one.unheard for one in turns] == [0, 0, 1, 0, 0]
    assert model.last[1] != "mind the driver" and model.last[2] == "mind the driver"
    await session.close()
    shown = again(tmp_path, STORY, "one")
    assert shown._work.messages.list == session._work.messages.list
    await shown.close()


async def test_words_over_a_conclusion_send_it_back(tmp_path: Path) -> None:
    story = (turn(HYPOTHESIS), turn(EVIDENCE), turn(conclusion(outcome="inconclusive")), turn(conclusion()))
    session = opened(tmp_path, model := SlowModel(story, 3))
    await steered(session, lambda event: event == TextDelta(text="turn 3"), "look again")
    ends = kinds(session, Ended)
    assert [one.outcome for one in ends if isinstance(one, Ended)] == ["diagnosed"]
    assert model.last[3] == "look again"
    await session.close()


async def test_words_said_between_the_end_and_its_return_are_heard(tmp_path: Path) -> None:
    session = opened(tmp_path, model := SlowModel((*STORY, turn(text="I heard it."))))
    live = await steered(session, lambda event: isinstance(event, Ended), "and now?")
    assert model.last[-1] == "and now?" and not session.unheard
    assert [one.steers for one in live if isinstance(one, UserMessage)] == [False]
    await session.close()


async def test_with_nothing_at_work_words_are_heard_when_it_goes_on(tmp_path: Path) -> None:
    session = begin(tmp_path, STORY, thread="one")
    assert not session.steer("mind the driver")
    await run(session)
    assert [one.text for one in kinds(session, UserMessage) if isinstance(one, UserMessage)] == [
        "mind the driver"
    ]
    assert session.ended is not None


async def test_held_work_begins_nothing_and_its_call_goes_on(tmp_path: Path) -> None:
    session = opened(tmp_path, model := SlowModel(STORY))
    asking = asyncio.create_task(collect(session))
    await until(lambda: any(begins("look")(event) for event in session.events))
    assert session.hold() and session.held
    await until(lambda: any(isinstance(one, ToolFinished) and one.tool == "look" for one in session.events))
    await asyncio.sleep(0.1)
    assert not asking.done() and len(model.asked) == 2
    assert not any(begins("touch")(event) for event in session.events)
    session.go_on()
    await asking
    assert session.ended is not None and session.ended.outcome == "diagnosed"
    await session.close()


async def test_a_turn_that_was_cut_off_is_taken_anew_with_what_was_said(tmp_path: Path) -> None:
    session = opened(tmp_path, model := SlowModel(STORY, 2))
    asking = asyncio.create_task(collect(session))
    await until(lambda: model.asked == [0] and len(model.last) == 2)
    session.hold()
    await asyncio.sleep(0.05)
    assert session.held and session.steer("mind the driver") and not session.held
    await asking
    assert model.last[2] == "mind the driver"
    turns = [event for event in session.events if isinstance(event, TurnTaken)]
    assert [one.turn for one in turns] == [0, 1, 2, 3, 4] and not any(one.unheard for one in turns)
    await session.close()


async def test_held_work_can_be_ended_and_resumed(tmp_path: Path) -> None:
    session = opened(tmp_path, SlowModel(STORY, 2))
    asking = asyncio.create_task(collect(session))
    await until(lambda: len(session._work.model.last) == 2)  # type: ignore[attr-defined]
    session.hold()
    session.drain()
    await asyncio.wait_for(asking, 5)
    await session.close()
    session = again(tmp_path, STORY, "one")
    await run(session)
    assert session.ended is not None and session.ended.outcome == "diagnosed"


async def test_what_was_said_is_heard_after_a_death(tmp_path: Path) -> None:
    session = opened(tmp_path, SlowModel(STORY))
    async for event in session.ask():
        if begins("look")(event):
            session.steer("mind the driver")
            session.cancel()  # what a death leaves: words recorded, a call without its result
    await session.close()
    session = again(tmp_path, STORY, "one")
    await run(session)
    users = [one["content"] for one in session._work.messages.list if one["role"] == "user"]
    assert "mind the driver" in users and session.ended is not None and not session.unheard
    look = [one for one in session.events if isinstance(one, ToolFinished) and one.tool == "look"]
    assert [one.status for one in look] == ["ok"]


async def test_a_steered_recording_replays(tmp_path: Path) -> None:
    for place, when in enumerate((begins("look"), lambda event: event == TextDelta(text="turn 4"))):
        root = tmp_path / str(place)
        story = (*STORY, turn(conclusion()))
        session = opened(root, SlowModel(story, 4))
        await steered(session, when, "mind the driver")
        await session.close()
        recording = Recording.load(session.folder / "transcript.jsonl")
        assert not recording.cut and not recording.said
        report = await replay(recording, make_settings(root / "again"), TOOLS)
        assert report.same, report.differences
        assert report.outcome == "diagnosed" and report.turns == len(recording.turns)


async def collect(session: Session) -> list[Live]:
    return [event async for event in session.ask()]


async def until(true: Callable[[], bool]) -> None:
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


async def test_words_void_an_approval_that_waits_or_was_not_used(tmp_path: Path) -> None:
    for place, tool in enumerate(("waits", "given")):
        service = FakeService(FileHost(tmp_path / f"{tool}.json"))
        session = open_session(tmp_path / str(place), service, moves(outcome="inconclusive", changes=()))
        async for _ in session.ask():
            pass
        assert session.waiting is not None
        if tool == "waits":
            assert not session.steer("not now")
            assert session.waiting is None
            async for _ in session.ask():
                pass
        else:
            async for event in session.answer(decision(session)):
                if event.type == "approval_given":
                    session.hold()
                    await asyncio.sleep(0)
                    session.steer("not now")
        assert [one.get("result") for one in results(session)] == [None] and session.ended is not None
        assert not any(event.type == "action_started" for event in session.events)
        await session.close()


async def test_words_over_a_change_that_is_under_way_are_heard_after_it(tmp_path: Path) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"))
    session = open_session(tmp_path, service, moves())
    async for _ in session.ask():
        pass
    async for event in session.answer(decision(session)):
        if event.type == "action_started" and not session.unheard:
            session.steer("what does it do?")
    assert results(session)[0]["result"] == "kept"
    users = [one["content"] for one in session._work.messages.list if one["role"] == "user"]
    assert users[-1] == "what does it do?" and session.ended is not None and not session.unheard
    await session.close()
