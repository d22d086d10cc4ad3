"""A streamed message ends before Slack ends it, stops when a reader stops it, and waits when it must."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from agent.slack.store import SlackStore
from agent.slack.stream import STOPPED, Growing
from tests.fake_slack import FakeSlack
from tests.fake_slack_faults import Call
from tests.test_slack_text import ADA, HERE, door_of


@asynccontextmanager
async def growing(root: Path, slack: FakeSlack, *, stream_s: float = 240.0) -> AsyncIterator[Growing]:
    """Hold a message that grows in the fake's thread."""
    store = SlackStore(root)
    made = Growing(await door_of(slack, root), store, HERE, ADA, every_s=0, stream_s=stream_s)
    yield made
    await made.close()
    assert store.open_messages("stream") == []
    store.close()


def refusals(slack: FakeSlack) -> list[str]:
    return [str(call.answer.get("error")) for call in slack.calls if not call.ok]


async def test_a_stream_is_ended_before_slack_ends_it_and_goes_on_in_another(tmp_path: Path) -> None:
    async with FakeSlack(stream_seconds=0.6) as slack, growing(tmp_path, slack, stream_s=0.2) as message:
        message.line("one")
        await slack.until(lambda: slack.called("chat.stopStream") or None)  # nothing was said meanwhile
        await asyncio.sleep(0.5)
        message.line("two")
        await message.settle()
        assert [post["text"].strip() for post in slack.posts("C0OPS", "1.0")] == ["one", "two"]
        assert refusals(slack) == []


async def test_slacks_own_button_silences_the_message_and_says_so(tmp_path: Path) -> None:
    async with FakeSlack() as slack, growing(tmp_path, slack) as message:
        message.line("one")
        await message.settle()
        slack.faults.errors("chat.appendStream", "stopped_by_user")
        for text in ("two", "three"):
            message.line(text)
            await message.settle()
        assert [post["text"].strip() for post in slack.posts("C0OPS", "1.0")] == ["one", STOPPED]


async def test_a_stream_that_cannot_be_extended_is_stopped_before_it_is_rewritten(tmp_path: Path) -> None:
    async with FakeSlack() as slack, growing(tmp_path, slack) as message:
        message.line("one")
        await message.settle()
        slack.faults.errors("chat.appendStream", "invalid_chunks")
        message.line("two")
        await message.settle()
        assert [post["text"] for post in slack.posts("C0OPS", "1.0")] == ["one\ntwo"]
        assert refusals(slack) == ["invalid_chunks"], "no streaming_state_conflict"


async def test_lines_wait_for_a_limit_longer_than_the_library_waits(tmp_path: Path) -> None:
    async with FakeSlack() as slack, growing(tmp_path, slack) as message:
        message.line("one")
        await message.settle()
        slack.faults.errors("chat.appendStream", "ratelimited", times=3)
        message.line("two")
        await message.settle()
        assert [post["text"].split() for post in slack.posts("C0OPS", "1.0")] == [["one", "two"]]
        assert len(slack.called("chat.update")) == 0


async def test_closing_cuts_no_call_that_is_under_way(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        async with growing(tmp_path, slack) as message:
            message.line("one")
            await message.settle()
            begun = asyncio.Event()

            def watch(call: Call, when: Literal["before", "after"]) -> None:
                if call.method == "chat.appendStream" and when == "before":
                    begun.set()

            slack.watchers.append(watch)
            message.line("two")
            await begun.wait()
        assert [post["text"].split() for post in slack.posts("C0OPS", "1.0")] == [["one", "two"]]


async def test_a_whole_line_that_the_model_says_is_shown_before_its_turn_ends(tmp_path: Path) -> None:
    async with FakeSlack() as slack, growing(tmp_path, slack) as message:
        for piece in ("The flag ", "is set.\n", "Nothing else", " reads it"):
            message.text(piece)
        await message.settle()
        assert [post["text"].strip() for post in slack.posts("C0OPS", "1.0")] == ["The flag is set."]
        message.end_of_text()
        await message.settle()
        (post,) = slack.posts("C0OPS", "1.0")
        assert post["text"].split("\n\n") == ["The flag is set.", "Nothing else reads it", ""]


async def test_a_key_that_comes_in_pieces_is_held_back_until_it_is_masked_whole(tmp_path: Path) -> None:
    rows = ["Here it is:", "-----BEGIN RSA PRIVATE KEY-----", "MIIB" + "a1B2" * 15, "c3D4" * 16]
    async with FakeSlack() as slack, growing(tmp_path, slack) as message:
        for row in rows:
            message.text(f"{row}\n")
            await message.settle()
        assert [post["text"].strip() for post in slack.posts("C0OPS", "1.0")] == ["Here it is:"]
        message.text("-----END RSA PRIVATE KEY-----\nDone.")
        message.end_of_text()
        await message.settle()
        shown = "".join(post["text"] for post in slack.posts("C0OPS", "1.0"))
        assert "Done." in shown and "a1B2" not in shown and "c3D4" not in shown
