"""What a bot finds when it comes back: what was noted is heard, and what comes meanwhile heard once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.events import Started, UserMessage
from agent.roles import Person
from agent.slack.bot import Bot
from agent.slack.incoming import Spoken
from agent.slack.store import Kept, Place, SlackStore
from agent.transcript import read_events
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import TEAM
from tests.slack_parts import bot, settings_for, story

TS = "100.000001"


def said(delivery: str) -> Spoken:
    place = Place(TEAM, "C0OPS", TS)
    return Spoken(place, TS, TEAM, "U0BEN", "decode is slow", delivery, direct=False, mention=True)


@asynccontextmanager
async def workspace() -> AsyncIterator[FakeSlack]:
    """A workspace in which the message stands."""
    async with FakeSlack() as slack:
        text = {"type": "message", "user": "U0BEN", "text": "decode is slow", "ts": TS}
        slack.world.channels["C0OPS"].messages.append(text)
        yield slack


async def until(look: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not look():  # noqa: ASYNC110 - it is told by a database
            await asyncio.sleep(0)


def begun(root: Path) -> list[list[str]]:
    """Return, of every investigation, what it was asked and what was said into it."""
    found = []
    for path in (root / "threads").glob("*/transcript.jsonl"):
        events = read_events(path)
        asked = [event.symptom for event in events if isinstance(event, Started)]
        found.append([*asked, *(event.text for event in events if isinstance(event, UserMessage))])
    return found


@pytest.mark.parametrize("delivery", ["shortcut:1.5:U0BEN", "Ev0ONE"])
@pytest.mark.parametrize("noted", [0, 1, 2])
async def test_what_was_noted_and_not_answered_is_heard_by_the_next_process(
    tmp_path: Path, delivery: str, noted: int
) -> None:
    """A process ended after it had noted none, one or both of a message's names."""
    spoken = said(delivery)
    store = SlackStore(tmp_path)
    store.keep(spoken.name, spoken.to_json())
    for name in (f"event:{delivery}", spoken.name)[:noted]:
        assert store.first(name)
    store.close()
    async with workspace() as slack, bot(settings_for(tmp_path, slack), story()):
        await slack.message("C0OPS", containing="Graphs are off.", thread=TS)
    assert begun(tmp_path) == [["decode is slow"]]


@pytest.mark.parametrize("delivery", ["shortcut:1.5:U0BEN", "Ev0ONE"])
async def test_what_comes_while_a_bot_recovers_is_heard_once(
    tmp_path: Path, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, answer = Bot._finish_messages, Bot._answer
    answered: list[Spoken] = []

    async def counted(self: Bot, spoken: Spoken, person: Person, kept: Kept | None) -> None:
        answered.append(spoken)
        await answer(self, spoken, person, kept)

    async def meanwhile(self: Bot) -> None:
        spoken = said(delivery)
        self.keep(spoken)
        self.heard(spoken)
        await until(lambda: self.desk.store.heard(f"event:{delivery}"))
        await finish(self)

    monkeypatch.setattr(Bot, "_finish_messages", meanwhile)
    monkeypatch.setattr(Bot, "_answer", counted)
    async with workspace() as slack, bot(settings_for(tmp_path, slack), story()):
        await slack.message("C0OPS", containing="Graphs are off.", thread=TS)
    assert len(answered) == 1 and begun(tmp_path) == [["decode is slow"]]


async def test_an_investigation_that_begins_while_a_bot_recovers_is_not_taken_for_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = Bot._finish_messages

    async def meanwhile(self: Bot) -> None:
        self.heard(said("Ev0ONE"))
        await until(self.desk.store.unfinished)
        await finish(self)

    monkeypatch.setattr(Bot, "_finish_messages", meanwhile)
    async with workspace() as slack, bot(settings_for(tmp_path, slack), story()):
        await slack.message("C0OPS", containing="Graphs are off.", thread=TS)
        texts = [message["text"] for message in slack.world.channels["C0OPS"].messages]
    assert not any("I was restarted" in text for text in texts) and begun(tmp_path) == [["decode is slow"]]
