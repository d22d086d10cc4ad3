"""What people say in a thread: it steers, asks on, stops, goes on; two who disagree are both heard."""

from pathlib import Path
from typing import Any

from agent.events import UserMessage
from agent.transcript import read_events
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import BOT_USER
from tests.scripted_parts import EVIDENCE, HYPOTHESIS, call, conclusion, turn
from tests.slack_parts import bot, settings_for, story

ME = f"<@{BOT_USER}>"
SLOW = (
    turn(HYPOTHESIS),
    turn(call("look", text="one", wait_s=1.5)),
    turn(EVIDENCE),
    turn(conclusion()),
)
LONG = (turn(HYPOTHESIS), turn(call("look", text="one", wait_s=60)), turn(EVIDENCE), turn(conclusion()))


def language_model(root: Path, slack: FakeSlack, **more: Any) -> Any:
    """Return settings that name a language model, which hears people; the opener has a script."""
    named = {"model": "some-model", "base_url": "http://127.0.0.1:9/v1"}
    return settings_for(root, slack, more=named, **more)


def said_to_model(root: Path) -> list[str]:
    path = next((root / "threads").glob("*/transcript.jsonl"))
    return [event.text for event in read_events(path) if isinstance(event, UserMessage)]


async def test_words_in_the_thread_reach_the_running_investigation_with_who_said_them(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(language_model(tmp_path, slack), story(SLOW)):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="H1", thread=said.ts)
        await slack.user("U0BEN").says("C0OPS", "the router was restarted at noon", thread=said.ts)
        await slack.message("C0OPS", containing="Graphs are off.", thread=said.ts)
        text = slack.thread_text("C0OPS", said.ts)
    assert (
        "ben (slack T0LEADLINE/U0BEN) says in Slack: the router was restarted" in said_to_model(tmp_path)[0]
    )
    assert "opposite" not in text


async def test_opposite_instructions_are_both_recorded_and_the_model_is_told(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(language_model(tmp_path, slack), story(SLOW)):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="H1", thread=said.ts)
        await slack.user("U0BEN").says("C0OPS", "restart the prefill server now", thread=said.ts)
        await slack.user("U0CLEO").says("C0OPS", "do not restart the prefill server", thread=said.ts)
        await slack.message("C0OPS", containing="want opposite things", thread=said.ts)
        await slack.message("C0OPS", containing="Graphs are off.", thread=said.ts)
    first, second = said_to_model(tmp_path)
    assert "U0BEN" in first and "conflicts" not in first
    assert (
        "U0CLEO" in second
        and "conflicts with what ben" in second
        and "restart the prefill server now" in second
    )


async def test_stop_wins_at_once_says_who_and_go_on_takes_it_up(tmp_path: Path) -> None:
    scripts = iter((LONG, SLOW, SLOW))

    def opener(*given: Any) -> Any:
        return story(next(scripts))(*given)

    async with FakeSlack() as slack, bot(language_model(tmp_path, slack), opener):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="H1", thread=said.ts)
        await slack.user("U0BEN").says("C0OPS", "stop", thread=said.ts)
        await slack.message("C0OPS", containing="Stopped by ben", thread=said.ts, seconds=20)
        await slack.user("U0CLEO").says("C0OPS", "go on", thread=said.ts)
        await slack.message("C0OPS", containing="Graphs are off.", thread=said.ts)
    assert "ben (slack T0LEADLINE/U0BEN) stopped the investigation." in said_to_model(tmp_path)


async def test_status_and_why_answer_from_the_ledger_and_stop_nothing(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story(SLOW)):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="H1", thread=said.ts)
        await slack.user("U0ADA").says("C0OPS", "status?", thread=said.ts)
        await slack.message("C0OPS", containing="looks so far", thread=said.ts)
        await slack.message("C0OPS", containing="Graphs are off.", thread=said.ts)
        await slack.user("U0ADA").says("C0OPS", "why", thread=said.ts)
        why = await slack.message("C0OPS", containing="holds, by E1", thread=said.ts)
    assert "`--disable-cuda-graph`" in why["text"]
    assert said_to_model(tmp_path) == []


async def test_a_question_after_the_answer_is_answered_by_the_same_investigation(tmp_path: Path) -> None:
    script = (turn(HYPOTHESIS), turn(EVIDENCE), turn(conclusion()), turn(text="Since Tuesday, by the log."))
    async with FakeSlack() as slack, bot(language_model(tmp_path, slack), story(script)) as running:
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", action='"evidence"', thread=said.ts)
        await slack.until(lambda: not running.talks or None)
        await slack.user("U0ADA").says("C0OPS", "since when?", thread=said.ts)
        await slack.message("C0OPS", containing="Since Tuesday", thread=said.ts)
        await slack.until(lambda: not running.talks or None)
    assert len(list((tmp_path / "threads").iterdir())) == 1


async def test_the_built_in_playbooks_say_that_they_take_no_advice(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story(SLOW)):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="H1", thread=said.ts)
        await slack.user("U0ADA").says("C0OPS", "look at the router", thread=said.ts)
        await slack.message("C0OPS", containing="take no advice", thread=said.ts)


async def test_a_restart_in_the_middle_is_told_and_the_investigation_goes_on(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        settings = settings_for(tmp_path, slack)
        async with bot(settings, story(SLOW)) as running:
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
            await slack.message("C0OPS", containing="H1", thread=said.ts)
            assert await running.drain(20)
        await slack.message("C0OPS", containing="I am being restarted", thread=said.ts)
        async with bot(settings, story(SLOW)):
            await slack.message("C0OPS", containing="I was restarted", thread=said.ts)
            await slack.message("C0OPS", containing="Graphs are off.", thread=said.ts)
    assert len(list((tmp_path / "threads").iterdir())) == 1
