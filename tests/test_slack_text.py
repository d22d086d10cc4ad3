"""What goes into Slack: escaped, split, masked, without foreign links, streamed or rewritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.own_secrets import redactor
from agent.roles import Person
from agent.slack.door import Door
from agent.slack.store import Place, SlackStore
from agent.slack.stream import Growing
from agent.slack.text import Cleaner, escaped, fenced, packed, split
from agent.slack.words import opposed, word
from tests.canaries import OWN, canaries
from tests.fake_slack import FakeSlack
from tests.scripted_parts import make_settings

HERE = Place("T0LEADLINE", "C0OPS", "1.0")
ADA = Person(surface="slack", team="T0LEADLINE", user="U0ADA", standing="member")


def test_markup_of_slack_is_inert() -> None:
    assert escaped("<!channel> & <@U0ADA|x>") == "&lt;!channel&gt; &amp; &lt;@U0ADA|x&gt;"
    assert escaped("cat x | tr a b", "markdown") == "cat x | tr a b"
    told = escaped("# big\n*bold* [a](b) `c` a_b _i_", "markdown")
    assert told == "\\# big\n\\*bold\\* \\[a\\](b) \\`c\\` a_b \\_i\\_"


def test_a_block_of_code_cannot_be_ended_from_inside() -> None:
    assert fenced("a\n```\n<!here>").count("```") == 2


@pytest.mark.parametrize("length", [1, 3799, 3800, 3801, 20_000])
def test_splitting_loses_nothing_and_keeps_to_the_size(length: int) -> None:
    text = ("word &lt;x&gt; and more\n" * 2000)[:length]
    pieces = split(text, 3800)
    assert all(len(piece) <= 3800 for piece in pieces)
    assert "".join(pieces).replace("\n", "") == text.replace("\n", "")
    assert not any(piece.endswith(("&", "&l", "&lt", "&g", "&gt")) for piece in pieces[:-1])


def test_parts_are_packed_whole() -> None:
    assert packed(["a" * 5, "b" * 5, "c" * 5], 11) == ["aaaaa\nbbbbb", "ccccc"]


@pytest.mark.parametrize(
    ("one", "other", "against"),
    [
        ("restart the prefill server now", "do not restart the prefill server", True),
        ("raise chunked-prefill-size", "lower chunked-prefill-size", True),
        ("turn graphs on", "turn graphs off", True),
        ("look at gpu1", "look at the router as well", False),
        ("restart the router", "do not look at gpu3", False),
    ],
)
def test_opposite_wishes(one: str, other: str, against: bool) -> None:
    assert opposed(one, other) is against and opposed(other, one) is against


def test_words_of_their_own() -> None:
    assert [word(text) for text in ("Stop!", "status?", "go on", "stop the router")] == [
        "stop",
        "status",
        "go on",
        None,
    ]
    assert {word(text) for text in ("please stop", "STOP it now!!", "stop, please.", "stop everything")} == {
        "stop"
    }
    assert word("stop this router") is None and word("it") is None


async def door_of(fake: FakeSlack, root: Path) -> Door:
    from slack_sdk.web.async_client import AsyncWebClient

    clean = Cleaner(redactor(make_settings(root, api_key=OWN)))
    fake.world.channels["C0OPS"].messages.append(
        {"type": "message", "user": "U0ADA", "text": "x", "ts": "1.0"}
    )
    return Door(AsyncWebClient(token=fake.bot_token, base_url=fake.api_url), clean)


async def test_no_secret_leaves_by_any_way_of_the_door(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        door = await door_of(slack, tmp_path)
        store = SlackStore(tmp_path)
        for number, canary in enumerate(canaries()):
            leak = canary.text
            await door.say(HERE, leak, [{"type": "section", "text": {"type": "mrkdwn", "text": leak[:2900]}}])
            await door.whisper(HERE, "U0ADA", leak)
            await door.upload(HERE, f"{number}.md", leak.encode(), leak)
            growing = Growing(door, store, HERE, ADA, every_s=0)
            for start in range(0, len(leak), 3):  # cut at every third place, as a model streams
                growing.text(leak[start : start + 3])
            growing.line(leak)
            await growing.close()
        sent = "\n".join(text for _, text in slack.sinks())
        store.close()
    assert len(slack.posts()) > 100
    for canary in canaries():
        for core in canary.cores:
            assert core not in sent and json.dumps(core)[1:-1] not in sent, canary.kind


async def test_every_post_forbids_previews(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        door = await door_of(slack, tmp_path)
        ts = await door.say(HERE, "one")
        await door.change(HERE, ts, "two")
        await door.whisper(HERE, "U0ADA", "three")
        posts = [call for call in slack.calls if call.method.startswith("chat.")]
    assert [call.method for call in posts] == ["chat.postMessage", "chat.update", "chat.postEphemeral"]
    assert all(call.args["unfurl_links"] is False and call.args["unfurl_media"] is False for call in posts)


async def grown(root: Path, fake: FakeSlack, lines: list[str]) -> list[dict[str, Any]]:
    door = await door_of(fake, root)
    store = SlackStore(root)
    growing = Growing(door, store, HERE, ADA, every_s=0)
    for line in lines:
        growing.line(line)
        await growing.settle()
    await growing.close()
    assert store.open_messages("stream") == []
    store.close()
    return fake.posts("C0OPS", "1.0")


async def test_where_slack_does_not_stream_the_message_is_rewritten(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        slack.faults.errors("chat.startStream", "unknown_method")
        posts = await grown(tmp_path, slack, ["one <@U0ADA>", "two"])
    assert [post["text"] for post in posts] == ["one &lt;@U0ADA&gt;\ntwo"]


async def test_a_stream_that_slack_ended_goes_on_in_place(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        slack.faults.errors("chat.appendStream", "message_not_in_streaming_state")
        posts = await grown(tmp_path, slack, ["one", "two", "three"])
    text = "\n".join(post["text"] for post in posts)
    assert all(word in text for word in ("one", "two", "three"))


async def test_a_long_stream_is_carried_on_in_another_message(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        posts = await grown(tmp_path, slack, [f"{number} " + "x" * 380 for number in range(60)])
    assert len(posts) > 1 and all(len(post["text"]) <= 12_000 for post in posts)
    text = "\n".join(post["text"] for post in posts)
    assert all(f"{number} xxx" in text for number in range(60))


async def test_a_channel_that_is_gone_is_tried_no_more(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        slack.faults.errors("chat.startStream", "not_in_channel", times=9)
        posts = await grown(tmp_path, slack, ["one", "two", "three"])
        assert posts == [] and len(slack.called("chat.startStream")) == 1


async def test_what_would_take_many_messages_goes_into_a_file(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        door = await door_of(slack, tmp_path)
        await door.say(HERE, "\n".join(f"{number} &lt; {number + 1}" for number in range(4000)))
        texts = [post["text"] for post in slack.posts("C0OPS", "1.0")]
        assert len(texts) == 2 and texts[1].startswith("0 &lt; 1")
        assert b"3999 < 4000" in next(iter(slack.world.uploads.values())).data
