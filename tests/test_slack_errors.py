"""What goes wrong in a thread is told there in a line with what to do, and nothing gathered is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent.config import Settings
from agent.errors import HostUnreachable
from agent.slack.hosts import Connected
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import BOT_USER
from tests.scripted_parts import HYPOTHESIS, call, conclusion, turn
from tests.slack_parts import bot, settings_for, story

ME = f"<@{BOT_USER}>"
LOOKS = (turn(HYPOTHESIS), turn(call("look", text="one", wait_s=0.5)), turn(conclusion()))


async def test_a_model_endpoint_that_is_gone_is_told_and_can_be_tried_again(tmp_path: Path) -> None:
    away = {"model": "some-model", "base_url": "http://127.0.0.1:9/v1", "model_retries": 0}
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack, more=away)) as running:
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        told = await slack.message("C0OPS", containing="nothing gathered is lost", thread=said.ts)
        assert "127.0.0.1:9" in told["text"] and "`go on`" in told["text"]
        await slack.until(lambda: not running.talks or None)
        assert len(told["text"].splitlines()) == 2


async def test_hosts_that_are_all_down_are_told(tmp_path: Path) -> None:
    @asynccontextmanager
    async def none(names: Sequence[str], settings: Settings) -> AsyncIterator[Connected]:
        raise HostUnreachable("gpu1: no route to host", do="check the network")
        yield Connected()

    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story(), none):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="gpu1: no route to host; check the network", thread=said.ts)


async def test_a_real_inventory_is_what_hosts_are_reached_by(tmp_path: Path) -> None:
    hosts = {"gpu1": {"ssh": "leadline@203.0.113.1"}, "gpu2": {"ssh": "local"}}
    async with FakeSlack() as slack:
        settings = settings_for(tmp_path, slack, more={"hosts": hosts})
        async with bot(settings, connector=None):
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow on gpu1")
            await slack.message("C0OPS", containing="has no host_key under", thread=said.ts)


async def test_a_bot_that_was_removed_from_the_channel_ends_quietly(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story(LOOKS)) as running:
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="H1", thread=said.ts)
        slack.world.channels["C0OPS"].members.discard(BOT_USER)
        await slack.until(lambda: not running.talks or None)
        refused = [call for call in slack.calls if call.answer.get("error") == "not_in_channel"]
    assert 1 <= len(refused) < 8


async def test_a_fault_of_ours_in_one_thread_leaves_the_others_alone(tmp_path: Path) -> None:
    script = (turn(call("look", text="break")),)
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story(script)):
        one = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        told = await slack.message("C0OPS", containing="something broke here (RuntimeError)", thread=one.ts)
        two = await slack.user("U0ADA").says("C0OPS", f"{ME} help")
        await slack.message("C0OPS", containing="`status`", thread=two.ts)
    assert "Traceback" not in told["text"]


async def test_what_a_channel_may_not_do_any_more_is_not_gone_on_with(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        async with bot(settings_for(tmp_path, slack), story(LOOKS)):
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
            await slack.message("C0OPS", containing="H1", thread=said.ts)
        proposes = {"C0OPS": {"hosts": ["gpu1"], "members_may_start": True}}
        async with bot(settings_for(tmp_path, slack, channels=proposes), story(LOOKS)) as running:
            await slack.message("C0OPS", containing="no changes may be tried from here", thread=said.ts)
            await slack.until(lambda: not running.talks or None)
        async with bot(settings_for(tmp_path, slack, hosts=["gpu2"], channels={}), story(LOOKS)):
            await slack.user("U0ADA").says("C0OPS", "go on", thread=said.ts)
            await slack.message("C0OPS", containing="gpu1 may not be looked at from here", thread=said.ts)
