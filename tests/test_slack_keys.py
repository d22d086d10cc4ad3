"""Keys that Slack takes no more, and limits that last: one line, an end, and nothing lost that was found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.errors import UsageError
from agent.slack.errors import SlackKeysRefused
from agent.slack.run import RunOptions, _run
from agent.slack.watchdog import Watchdog
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import BOT_USER
from tests.scripted_parts import EVIDENCE, HYPOTHESIS, call, conclusion, turn
from tests.slack_parts import bot, settings_for, story, trial
from tests.test_slack_approvals import approving

ME = f"<@{BOT_USER}>"
SLOW = (turn(HYPOTHESIS), turn(call("look", text="one", wait_s=0.5)), turn(EVIDENCE), turn(conclusion()))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the watchdog look ten times a second."""
    defaults: Any = Watchdog.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "every_s", 0.1)


@pytest.mark.usefixtures("quick")
async def test_an_answer_that_a_rotated_key_kept_back_is_told_with_the_new_one(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        async with bot(settings_for(tmp_path, slack), story(SLOW)) as running:
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
            await slack.message("C0OPS", containing="H1", thread=said.ts)
            slack.revoked = True
            async with asyncio.timeout(20):
                await running.over.wait()
            told = "Slack: auth.test: token_revoked; check SLACK_BOT_TOKEN, and start me again"
            assert str(running.fault) == f"{told}: what runs is kept"
            await slack.until(lambda: not running.talks or None)
        slack.revoked = False
        assert "Graphs are off." not in slack.thread_text("C0OPS", said.ts)
        async with bot(settings_for(tmp_path, slack), story(SLOW)):
            await slack.message("C0OPS", containing="Graphs are off.", action='"evidence"', thread=said.ts)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("method", "code", "key"),
    [
        ("auth.test", "account_inactive", "SLACK_BOT_TOKEN"),
        ("apps.connections.open", "invalid_auth", "SLACK_APP_TOKEN"),
    ],
)
async def test_the_command_ends_with_a_line_when_a_key_is_taken_away(
    tmp_path: Path, method: str, code: str, key: str
) -> None:
    async with FakeSlack() as slack:
        running = asyncio.create_task(_run(RunOptions(), settings_for(tmp_path, slack)))
        await slack.socket.connected()
        slack.faults.errors(method, code, times=1000)
        if method != "auth.test":
            slack.socket.cut()
        with pytest.raises(SlackKeysRefused, match=f"{method}: {code}; check {key}"):
            await asyncio.wait_for(running, 30)


@pytest.mark.usefixtures("quick")
async def test_a_key_that_is_refused_for_a_moment_ends_nothing(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()) as running:
        for _ in range(3):
            slack.faults.errors("auth.test", "invalid_auth", times=2)
            await slack.until(lambda: slack.faults.left == 0 or None)
            await slack.until(lambda: all(call.ok for call in slack.called("auth.test")[-2:]) or None)
        assert not running.over.is_set()


async def test_an_answer_waits_for_a_limit_that_outlasts_the_library(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        slack.faults.limits("chat.postMessage", seconds=0, times=9)  # it tries six times
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", action='"evidence"', thread=said.ts, seconds=40)


async def test_a_modal_that_a_limit_kept_back_too_long_is_asked_for_again(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack, more=approving()), trial(tmp_path)):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        question = await slack.message("C0OPS", action='"deny"', thread=said.ts)
        slack.faults.limits("views.open", seconds=3)
        await slack.user("U0BEN").clicks(question, "deny")
        (note,) = await slack.whispers()
        assert "press Deny again" in note["text"] and slack.world.views == {}
        await slack.user("U0BEN").clicks(question, "deny")
        await slack.until(lambda: slack.world.views or None)


async def test_two_bots_in_one_state_folder_are_one_too_many(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        with pytest.raises(UsageError, match=r"another `leadline slack run` works in .*; stop it, or give"):
            async with bot(settings_for(tmp_path, slack), story()):
                pass


async def test_a_team_that_is_not_named_is_told_by_its_id(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        with pytest.raises(UsageError, match=r'write teams = \["T0LEADLINE"\]'):
            async with bot(settings_for(tmp_path, slack, teams=[], users=[]), story()):
                pass
