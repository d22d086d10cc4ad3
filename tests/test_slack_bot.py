"""A conversation with the bot, through the real slack_bolt and slack_sdk, against the fake Slack."""

from pathlib import Path

from tests.fake_slack import FakeSlack
from tests.slack_parts import bot, settings_for, story


async def test_a_direct_message_is_investigated_and_answered_in_its_thread(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        said = await slack.user("U0ADA").says("@", "decode is slow")
        await said.acked()
        await slack.message(said.channel, containing="Graphs are off.", action="evidence", thread=said.ts)
        text = slack.thread_text(said.channel, said.ts)
        assert "I think graphs are off." in text
        assert "H1 supported: CUDA graphs are off" in text
        assert "Verifier: 1 of 1 claims verified" in text
        assert slack.called("chat.startStream") and slack.called("chat.stopStream")
