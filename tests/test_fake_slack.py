"""The fake Slack, driven by the real slack_sdk and slack_bolt: what it takes, refuses, and how it fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.fake_slack import FakeSlack
from tests.fake_slack_blocks import problems, view_problems
from tests.fake_slack_faults import Fault
from tests.fake_slack_scopes import ALL_SCOPES
from tests.fake_slack_world import BOT_USER, TEAM


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack() as slack:
        yield slack


def client(slack: FakeSlack, token: str = "") -> AsyncWebClient:
    return AsyncWebClient(token or slack.bot_token, base_url=slack.api_url)


async def refusal(call: Any) -> str:
    with pytest.raises(SlackApiError) as refused:
        await call
    return str(refused.value.response["error"])


async def test_who_the_app_is_and_what_it_may(slack: FakeSlack) -> None:
    answer = await client(slack).auth_test()
    assert (answer["user_id"], answer["team_id"]) == (BOT_USER, TEAM)
    assert set(answer.headers["x-oauth-scopes"].split(",")) == ALL_SCOPES
    assert await refusal(client(slack, "xoxb-wrong").auth_test()) == "invalid_auth"
    slack.revoked = True
    assert await refusal(client(slack).auth_test()) == "token_revoked"


async def test_a_missing_scope_is_named(slack: FakeSlack) -> None:
    slack.scopes -= {"chat:write"}
    with pytest.raises(SlackApiError) as refused:
        await client(slack).chat_postMessage(channel="C0OPS", text="hello")
    answer = refused.value.response
    assert answer["error"] == "missing_scope" and answer["needed"] == "chat:write"
    assert "files:write" in answer["provided"]


async def test_the_scope_of_a_conversation_is_that_of_its_kind(slack: FakeSlack) -> None:
    slack.scopes -= {"groups:history"}
    api = client(slack)
    assert (await api.conversations_history(channel="C0OPS"))["messages"] == []
    assert await refusal(api.conversations_history(channel="G0SECRET")) == "missing_scope"


async def test_messages_are_written_changed_and_deleted(slack: FakeSlack) -> None:
    api = client(slack)
    first = await api.chat_postMessage(channel="C0OPS", text="one", unfurl_links=False)
    reply = await api.chat_postMessage(channel="C0OPS", text="two", thread_ts=first["ts"])
    await api.chat_update(channel="C0OPS", ts=reply["ts"], text="three")
    thread = await api.conversations_replies(channel="C0OPS", ts=first["ts"])
    assert [m["text"] for m in thread["messages"]] == ["one", "three"]
    assert [m["text"] for m in (await api.conversations_history(channel="C0OPS"))["messages"]] == ["one"]
    await api.chat_delete(channel="C0OPS", ts=reply["ts"])
    assert await refusal(api.chat_update(channel="C0OPS", ts=reply["ts"], text="x")) == "message_not_found"
    said = await slack.user("U0ADA").says("C0OPS", "mine")
    assert await refusal(api.chat_update(channel="C0OPS", ts=said.ts, text="x")) == "cant_update_message"
    assert slack.called("chat.postMessage", unfurl_links=False)[0].args["text"] == "one"


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"channel": "C0NONE", "text": "x"}, "channel_not_found"),
        ({"channel": "C0AWAY", "text": "x"}, "not_in_channel"),
        ({"channel": "C0OPS", "text": "x" * 40_001}, "msg_too_long"),
        ({"channel": "C0OPS", "text": ""}, "no_text"),
        ({"channel": "C0OPS", "text": "x", "thread_ts": "1.0"}, "thread_not_found"),
        ({"channel": "C0OPS", "text": "x", "blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
    ],
)
async def test_what_is_not_taken(slack: FakeSlack, args: dict[str, Any], error: str) -> None:
    assert await refusal(client(slack).api_call("chat.postMessage", json=args)) == error
    assert slack.posts() == []


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def button(text: str = "Go", **more: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": text}} | more


@pytest.mark.parametrize(
    ("block", "wrong"),
    [
        (section("x" * 3000), ""),
        (section("x" * 3001), "less than 3001"),
        (section(""), "more than 0"),
        ({"type": "actions", "elements": [button("x" * 75)]}, ""),
        ({"type": "actions", "elements": [button("x" * 76)]}, "less than 76"),
        ({"type": "actions", "elements": [button(value="x" * 2001)]}, "less than 2001"),
        ({"type": "actions", "elements": [button(), button()]}, "action_id already exists"),
        ({"type": "actions", "elements": []}, "at least one"),
        ({"type": "header", "text": {"type": "mrkdwn", "text": "x"}}, "plain_text"),
        ({"type": "context", "elements": [{"type": "mrkdwn", "text": "x"}] * 11}, "no more than 10"),
        ({"type": "sectoin"}, "unsupported type"),
        ({"type": "markdown", "text": "x" * 12_001}, "more than 12000"),
    ],
)
def test_block_kit_has_limits(block: dict[str, Any], wrong: str) -> None:
    found = problems([block])
    assert (wrong in found[0]) if wrong else found == []


def test_modals_have_limits() -> None:
    title = {"type": "plain_text", "text": "x" * 25}
    assert "less than 25" in view_problems({"type": "modal", "title": title, "blocks": []})[0]
    assert view_problems({"type": "modal", "title": title | {"text": "x"}, "blocks": [section("x")]}) == []


async def test_a_stream_is_started_appended_to_and_stopped(slack: FakeSlack) -> None:
    api = client(slack)
    said = await slack.user("U0ADA").says("C0OPS", "why?")
    to: dict[str, Any] = {"channel": "C0OPS", "thread_ts": said.ts}
    assert await refusal(api.chat_startStream(**to)) == "missing_recipient_team_id"
    to |= {"recipient_team_id": TEAM, "recipient_user_id": "U0ADA"}
    stream = await api.chat_startStream(**to, markdown_text="be")
    await api.chat_appendStream(channel="C0OPS", ts=stream["ts"], markdown_text="cause")
    too_long = api.chat_appendStream(channel="C0OPS", ts=stream["ts"], markdown_text="x" * 12_001)
    assert await refusal(too_long) == "msg_too_long"
    assert (
        await refusal(api.chat_update(channel="C0OPS", ts=stream["ts"], text="x"))
        == "streaming_state_conflict"
    )
    await api.chat_stopStream(channel="C0OPS", ts=stream["ts"], markdown_text="!")
    late = api.chat_appendStream(channel="C0OPS", ts=stream["ts"], markdown_text="?")
    assert await refusal(late) == "message_not_in_streaming_state"
    assert slack.thread_text("C0OPS", said.ts).endswith("leadline:\n  because!")
    helper = await api.chat_stream(**to)
    await helper.append(markdown_text="by slack_sdk itself")
    await helper.stop()
    assert slack.posts()[-1]["text"] == "by slack_sdk itself"


async def test_a_stream_expires() -> None:
    async with FakeSlack(stream_seconds=0) as slack:
        api = client(slack)
        parent = await api.chat_postMessage(channel="U0ADA", text="x")
        stream = await api.chat_startStream(
            channel=parent["channel"], thread_ts=parent["ts"], markdown_text="a"
        )
        late = api.chat_appendStream(channel=parent["channel"], ts=stream["ts"], markdown_text="b")
        assert await refusal(late) == "message_not_in_streaming_state"
        await api.chat_update(channel=parent["channel"], ts=stream["ts"], text="whole")
        assert slack.posts()[-1]["text"] == "whole"


async def test_a_file_goes_into_a_thread(slack: FakeSlack) -> None:
    said = await slack.user("U0ADA").says("C0OPS", "file?")
    await client(slack).files_upload_v2(
        channel="C0OPS", thread_ts=said.ts, filename="case.md", title="Case", content="# found"
    )
    assert [u.data for u in slack.world.uploads.values()] == [b"# found"]
    assert "[file: Case]" in slack.thread_text("C0OPS", said.ts)
    assert ("file case.md", "# found") in list(slack.sinks())


async def test_guests_strangers_and_groups_are_told_apart(slack: FakeSlack) -> None:
    api = client(slack)
    gus, olga = [(await api.users_info(user=user))["user"] for user in ("U0GUEST", "U0OTHER")]
    assert gus["is_restricted"] and gus["team_id"] == TEAM
    assert olga["is_stranger"] and olga["team_id"] != TEAM
    assert (await api.usergroups_users_list(usergroup="S0ONCALL"))["users"] == ["U0BEN"]


@pytest.mark.parametrize("kind", ["status", "garbage", "cut", "ratelimited", "error"])
async def test_a_fault_is_had_once(slack: FakeSlack, kind: Any) -> None:
    slack.faults.add("chat.postMessage", Fault(kind, error="fatal_error"))
    api = AsyncWebClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    with pytest.raises(Exception):  # noqa: B017  # what slack_sdk raises differs by fault
        await api.chat_postMessage(channel="C0OPS", text="x")
    assert slack.posts() == [] and slack.calls[0].fault == kind and not slack.calls[0].ok
    await api.chat_postMessage(channel="C0OPS", text="x")
    assert len(slack.posts()) == 1


async def test_an_answer_is_lost_after_the_work_was_done(slack: FakeSlack) -> None:
    slack.faults.add("chat.postMessage", Fault("cut_after"))
    await client(slack).chat_postMessage(channel="C0OPS", text="twice, by slack_sdk's own retry")
    assert len(slack.posts()) == 2


async def test_more_calls_than_a_limit_are_refused() -> None:
    async with FakeSlack(limits={"chat.postMessage": 2}) as slack:
        api = AsyncWebClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
        for _ in range(2):
            await api.chat_postMessage(channel="C0OPS", text="x")
        assert await refusal(api.chat_postMessage(channel="C0OPS", text="x")) == "ratelimited"
        await api.chat_postMessage(channel="C0ALERTS", text="x")


async def test_a_thread_is_read_page_by_page(slack: FakeSlack) -> None:
    said = await slack.user("U0ADA").says("C0OPS", "0")
    for number in range(1, 5):
        await slack.user("U0BEN").says("C0OPS", str(number), thread=said.ts)
    pages = await client(slack).conversations_replies(channel="C0OPS", ts=said.ts, limit=2)
    assert [m["text"] async for page in pages for m in page["messages"]] == list("01234")
    assert json.loads(json.dumps(slack.world.channels["C0OPS"].as_json()))["is_member"]


@asynccontextmanager
async def connected(app: AsyncApp, slack: FakeSlack) -> AsyncIterator[None]:
    handler: Any = AsyncSocketModeHandler(app, slack.app_token, ping_interval=0.2)
    await handler.connect_async()
    await slack.socket.connected()
    try:
        yield
    finally:
        await handler.close_async()


def make_app(slack: FakeSlack, heard: list[Any]) -> AsyncApp:
    app = AsyncApp(client=client(slack))

    @app.event("app_mention")
    async def mention(event: dict[str, Any], say: Any) -> None:
        heard.append(event["text"])
        go = {"type": "actions", "block_id": "b", "elements": [button()]}
        await say(text="hello", blocks=[section("hello"), go], thread_ts=event["ts"])

    @app.event("message")
    async def message(event: dict[str, Any]) -> None:
        heard.append((event["channel_type"], event["text"]))

    @app.action("go")
    async def go(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        heard.append((body["user"]["id"], body["user"]["team_id"], body["actions"][0]["action_id"]))

    return app


async def test_bolt_hears_and_answers_over_socket_mode(slack: FakeSlack) -> None:
    heard: list[Any] = []
    async with connected(make_app(slack, heard), slack):
        ada, olga = slack.user("U0ADA"), slack.user("U0OTHER")
        said = await (await ada.says("C0OPS", f"<@{BOT_USER}> hi")).acked()
        assert len(said.deliveries) == 2
        answer = await slack.message("C0OPS", containing="hello", thread=said.ts)
        await (await olga.clicks(answer, "go")).acked()
        await slack.until(lambda: ("U0OTHER", "T0ELSEWHERE", "go") in heard)
        await (await ada.says("@", "alone")).acked()
        assert ("im", "alone") in heard
        away = await ada.says("C0AWAY", f"<@{BOT_USER}> here?")
        assert away.deliveries == [] and len(heard) == 4
        assert all(0 <= delivery.delay < 3 for delivery in said.deliveries)
        assert "[Go]" in slack.thread_text("C0OPS", said.ts)
        html = slack.thread_html("C0OPS", said.ts)
        assert "@leadline" in html and '<span class="button ">Go</span>' in html


@pytest.mark.parametrize("end", ["refresh_requested", "cut", "silence"])
async def test_a_lost_connection_is_made_again_and_nothing_is_lost(slack: FakeSlack, end: str) -> None:
    heard: list[Any] = []
    async with connected(make_app(slack, heard), slack):
        if end == "refresh_requested":
            await slack.socket.disconnect("refresh_requested")
        elif end == "cut":
            slack.socket.cut()
        else:
            slack.socket.silence()
        said = await slack.user("U0ADA").says("@", "still there?")
        await said.acked(20)
        assert heard == [("im", "still there?")]


async def test_what_is_not_acknowledged_comes_again() -> None:
    async with FakeSlack(redeliver_after=0.05) as slack:
        app = AsyncApp(client=client(slack))
        tries: list[Any] = []

        @app.event("message")
        async def message(request: Any) -> None:
            tries.append(request.headers.get("x-slack-retry-num"))

        async with connected(app, slack):
            slack.socket.hold()
            first = await slack.user("U0ADA").says("@", "first")
            second = await slack.user("U0ADA").says("@", "second")
            await slack.socket.release([1, 0])
            await asyncio.gather(first.acked(), second.acked())
            await slack.socket.send(first.deliveries[0], reason="timeout", same_envelope=False)
            await slack.until(lambda: len(tries) == 3 or None)
            assert tries[0][0] == "0" and tries[-1][0] == "1"
            assert second.deliveries[0].acks[0] < first.deliveries[0].acks[0]
