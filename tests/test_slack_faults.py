"""The bot in a Slack that fails: nothing is lost, nothing is done twice, and people are told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.errors import LeadlineError
from tests.fake_slack import FakeSlack
from tests.fake_slack_faults import Fault
from tests.fake_slack_world import BOT_USER, OTHER_TEAM
from tests.file_host import FileHost
from tests.scripted_parts import EVIDENCE, HYPOTHESIS, Move, call, turn
from tests.slack_bot_parts import ME, approval, asked, bot, decided, make_slack
from tests.trial_parts import fixed, moves

LOOKS: list[Move] = [
    turn(HYPOTHESIS, text="I think graphs are off."),
    turn(call("look", text="one", wait_s=0.4), text="Looking once."),
    turn(call("look", text="two", wait_s=0.4), text="Looking again."),
    turn(EVIDENCE),
    turn(fixed("diagnosed", ())),
]


FAULTS = [
    *(Fault("status", status=500), Fault("status", status=503), Fault("ratelimited", seconds=1)),
    *(Fault("garbage"), Fault("cut"), Fault("cut_after"), Fault("error", error="internal_error")),
]


def ran(root: Path) -> tuple[str, int, int]:
    host = FileHost(root / "host.json").read()
    return host["runs"], host["restarts"], len(host["plans"])


def refused(slack: FakeSlack) -> set[str]:
    """Return what Slack refused of its own accord, with the method."""
    calls = [one for one in slack.calls if not one.ok and one.fault is None]
    return {f"{one.method}: {one.answer.get('error')}" for one in calls}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.kind}{fault.status}")
@pytest.mark.parametrize(
    "method", ["chat.startStream", "chat.appendStream", "chat.stopStream", "chat.postMessage", "chat.update"]
)
async def test_a_call_that_fails_changes_nothing_about_the_investigation(
    tmp_path: Path, method: str, fault: Fault
) -> None:
    async with make_slack() as slack, bot(slack, tmp_path) as running:
        if method == "chat.postMessage":
            said, question = await asked(slack)
            slack.faults.add(method, fault)
        else:
            slack.faults.add(method, fault)
            said, question = await asked(slack)
        await (await slack.user("U0BEN").clicks(question, "approve")).acked()
        await slack.until(lambda: "approved by ben" in slack.thread_text("C0OPS", said.ts) or None)
        await slack.until(lambda: not running.talks or None, 40)
        shown = slack.thread_text("C0OPS", said.ts)
        assert "[Hypotheses]" in shown, shown
    assert ran(tmp_path) == ("graphs", 1, 1) and decided(approval(tmp_path)) == "used by U0BEN"
    for part in ("C1 proposed", "C1 applied", "C1 kept"):
        assert part in shown, shown


async def test_users_that_slack_cannot_vouch_for_are_not_answered_and_may_ask_again(tmp_path: Path) -> None:
    async with make_slack() as slack, bot(slack, tmp_path, LOOKS):
        slack.faults.errors("users.info", "internal_error")
        first = await (await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")).acked()
        await slack.whispers()
        assert slack.posts("C0OPS", first.ts) == []
        again = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", action='"hypotheses"', thread=again.ts)


async def test_a_stream_that_slack_ended_goes_on_as_messages(tmp_path: Path) -> None:
    async with make_slack(stream_seconds=0.2) as slack, bot(slack, tmp_path, LOOKS):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", action='"hypotheses"', thread=said.ts)
        shown = slack.thread_text("C0OPS", said.ts)
        assert refused(slack) & {"chat.appendStream: message_not_in_streaming_state"}
    for part in ("I think graphs are off.", "Looking once.", "Looking again.", "H1 supported"):
        assert shown.count(part) == 1, shown


async def test_under_slacks_own_limits_everything_arrives_a_little_later(tmp_path: Path) -> None:
    async with make_slack(limits={"chat.appendStream": 1}) as slack:
        async with bot(slack, tmp_path, LOOKS):
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
            await slack.until(lambda: "chat.appendStream: ratelimited" in refused(slack) or None)
            slack.limits.clear()
            await slack.message("C0OPS", action='"hypotheses"', thread=said.ts)
        assert "Looking again." in slack.thread_text("C0OPS", said.ts)


@pytest.mark.parametrize("how", ["warning", "refresh_requested", "cut"])
async def test_the_connection_ends_in_the_middle_and_a_click_still_counts(tmp_path: Path, how: Any) -> None:
    async with make_slack() as slack, bot(slack, tmp_path):
        said, question = await asked(slack)
        slack.socket.cut() if how == "cut" else await slack.socket.disconnect(how)
        await slack.user("U0BEN").clicks(question, "approve")
        await slack.message("C0OPS", action='"hypotheses"', thread=said.ts, seconds=60)
    assert ran(tmp_path) == ("graphs", 1, 1)


async def test_events_out_of_order_and_twice_are_one_investigation(tmp_path: Path) -> None:
    async with make_slack() as slack, bot(slack, tmp_path, LOOKS):
        ada, ben = slack.user("U0ADA"), slack.user("U0BEN")
        slack.socket.hold()
        said = await ada.says("C0OPS", f"{ME} decode is slow")
        await ben.says("C0OPS", f"{ME} since noon", thread=said.ts)
        held = await slack.socket.release([3, 2, 1, 0])
        for delivery in held:
            await slack.socket.send(delivery, reason="timeout", same_envelope=False)
        await slack.message("C0OPS", action='"hypotheses"', thread=said.ts)
        await slack.until(lambda: all(len(one.acks) == 2 for one in held) or None)
    assert len(list(tmp_path.glob("threads/*"))) == 1
    (transcript,) = tmp_path.glob("threads/*/transcript.jsonl")
    told = transcript.read_text()
    assert "decode is slow" in told and "since noon" in told


async def test_removed_from_the_channel_it_finishes_and_answers_elsewhere(tmp_path: Path) -> None:
    async with make_slack() as slack, bot(slack, tmp_path, LOOKS) as running:
        ada = slack.user("U0ADA")
        said = await ada.says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="H1", thread=said.ts)
        slack.world.channels["C0OPS"].members.discard(BOT_USER)
        await slack.until(lambda: not running.talks or None)
        alone = await ada.says("@", "decode is slow")
        await slack.message(alone.channel, action='"hypotheses"', thread=alone.ts)
        slack.world.channels["C0OPS"].members.add(BOT_USER)
        await ada.says("C0OPS", "status", thread=said.ts)
        await slack.message("C0OPS", containing="H1 supported", thread=said.ts)
        assert refused(slack) <= {f"chat.{m}: not_in_channel" for m in
                                  ("appendStream", "stopStream", "postMessage")}  # fmt: skip


async def test_no_message_is_too_long_for_slack(tmp_path: Path) -> None:
    long = "a long line of words that goes on & on <tag> *bold* " * 300
    stated = json.loads(HYPOTHESIS.arguments)
    stated["add"][0]["statement"] += long[:900]
    ended = json.loads(fixed("inconclusive", ()).arguments) | {"summary": long, "next_step": long[:2000]}
    script = [turn(call("hypothesis", **stated), text=long), turn(call("conclude", **ended), text=long)]
    async with make_slack() as slack, bot(slack, tmp_path, script):
        ada = slack.user("U0ADA")
        said = await ada.says("C0OPS", f"{ME} {long}")
        answer = await slack.message("C0OPS", action='"hypotheses"', thread=said.ts)
        for action in ("hypotheses", "evidence", "case"):
            await (await ada.clicks(answer, action)).acked()
        await ada.says("C0OPS", "why", thread=said.ts)
        await slack.until(lambda: len(slack.world.uploads) >= 2 or None)
        assert refused(slack) == set()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bot_token": "xoxb-wrong"}, "invalid_auth"),
        ({"bot_token": "xapp-fake"}, "holds an app-level token, not a bot token"),
        ({"app_token": "xapp-wrong"}, "SLACK_APP_TOKEN"),
        ({"app_token": None}, "slack.app_token is not set"),
        ({"teams": [OTHER_TEAM], "users": []}, "not in slack.teams"),
        ({"teams": []}, "slack.teams is empty"),
        ({"api_url": "http://127.0.0.1:9/api/"}, "cannot be reached"),
    ],
)
async def test_settings_it_cannot_run_with_end_it_with_one_line(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    async with make_slack() as slack:
        with pytest.raises(LeadlineError, match=said):
            async with bot(slack, tmp_path, **wrong):
                pass


async def test_a_missing_scope_ends_it_with_its_name(tmp_path: Path) -> None:
    async with make_slack() as slack:
        slack.scopes.discard("users:read")
        with pytest.raises(LeadlineError, match="lacks the scopes users:read"):
            async with bot(slack, tmp_path):
                pass


async def test_over_http_only_what_is_signed_is_heard(tmp_path: Path) -> None:
    async with make_slack() as slack, bot(slack, tmp_path, moves(), http=0) as running:
        slack.socket.http = f"http://127.0.0.1:{running.port}/slack/events"
        said, question = await asked(slack)
        await (await slack.user("U0BEN").clicks(question, "approve")).acked()
        await slack.message("C0OPS", action='"hypotheses"', thread=said.ts)
        body = json.dumps({"type": "event_callback", "event": {}})
        forged = [
            {},
            slack.socket.signed(body, secret="other"),
            slack.socket.signed(body, at=1),
            slack.socket.signed(""),
        ]
        async with aiohttp.ClientSession() as session:
            for headers in forged:
                kind = {"Content-Type": "application/json"}
                async with session.post(slack.socket.http, data=body, headers=headers | kind) as answer:
                    assert answer.status == 401, headers
        await asyncio.sleep(0)
    assert ran(tmp_path) == ("graphs", 1, 1)
