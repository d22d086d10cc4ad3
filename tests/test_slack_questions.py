"""Questions in Slack, by the real bot and the built-in model: answered in the thread, the next one too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent.events import Started
from agent.slack.run import serving
from agent.transcript import read_events
from tests.fake_slack import FakeSlack
from tests.slack_bot_parts import ME, bot_settings, make_slack


async def heard(slack: FakeSlack, channel: str, thread: str, text: str) -> str:
    """Return the message of the bot that holds a text."""
    message = await slack.message(channel, containing=text, thread=thread)
    return str(message["text"])


async def test_a_question_and_the_next_one_are_answered_in_their_thread(tmp_path: Path) -> None:
    async with make_slack() as slack:
        settings = bot_settings(tmp_path, slack)
        async with serving(settings, change=lambda desk: replace(desk, every_s=0.02, look_s=0.05)):
            await slack.socket.connected()
            said = await (await slack.user("U0ADA").says("C0OPS", f"{ME} who set NCCL_DEBUG here?")).acked()
            await heard(slack, "C0OPS", said.ts, "nothing that can be read from the hosts says who")
            await slack.user("U0ADA").says("C0OPS", f"{ME} how many moons are there?", thread=said.ts)
            await heard(slack, "C0OPS", said.ts, "What I can answer without a language model")
    (path,) = tmp_path.glob("threads/*/transcript.jsonl")
    events = read_events(path)
    assert isinstance(events[0], Started)
    assert events[0].question
    assert events[0].mode == "apply", "what the channel allows; a question changes nothing"
    assert [event.outcome for event in events if event.type == "ended"] == ["not_known", "not_known"]
    text = slack.thread_text("C0OPS", said.ts)
    assert "take no advice" not in text
