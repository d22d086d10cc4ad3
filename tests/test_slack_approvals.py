"""Approvals in Slack: shown whole, decided once by who may, and dead afterwards."""

import asyncio
import json
from pathlib import Path
from typing import Any

from agent.approvals_store import ApprovalStore
from tests.approval_parts import the_one
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import BOT_USER, TEAM
from tests.file_host import FileHost
from tests.slack_parts import bot, buttons, now, settings_for, trial

ME = f"<@{BOT_USER}>"
ROLES = {"approver": [f"slack:{TEAM}:U0ADA", f"slack:{TEAM}:U0BEN", "slack:T0ELSEWHERE:U0OTHER"]}


def approving(**more: Any) -> dict[str, Any]:
    return {"approvals": {"roles": ROLES} | more}


async def test_what_is_approved_is_shown_whole_and_who_decided_is_told(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack, more=approving()), trial(tmp_path)):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        question = await slack.message("C0OPS", action='"approve"', thread=said.ts)
        record = the_one(tmp_path)
        shown = json.dumps(question["blocks"], ensure_ascii=False)
        for text in (
            record.digest,
            record.requester.user,
            "Predicted effect",
            "Undo",
            "Blast radius",
            "Expires",
        ):
            assert text in shown, text
        assert "<@U0BEN>" in shown and "<@U0ADA>" not in shown, "who asked is not called to approve it"
        assert "slack:T0ELSEWHERE:U0OTHER" in shown, "nor is a stranger"
        assert "disable-cuda-graph" in shown
        await slack.user("U0BEN").clicks(question, "approve")
        answer = await slack.message("C0OPS", action='"plot"', thread=said.ts)
        assert not buttons(slack, question), "its buttons are dead"
        assert f"approved by ben (slack {TEAM}/U0BEN)" in now(slack, question)["text"]
        assert "x" in slack.thread_text("C0OPS", said.ts) and "kept" in slack.thread_text("C0OPS", said.ts)
        await slack.user("U0BEN").clicks(answer, "plot")
        await slack.until(
            lambda: [u for u in slack.world.uploads.values() if u.data[:4] == b"\x89PNG"] or None
        )
    assert ApprovalStore(tmp_path).get(record.id).state == "used"
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 1


async def test_a_denial_takes_its_reason_from_a_modal_and_the_model_hears_it(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, FakeSlack(), more=approving())
    async with (
        FakeSlack() as slack,
        bot(settings_for(tmp_path, slack, more=approving()), trial(tmp_path)) as running,
    ):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        question = await slack.message("C0OPS", action='"deny"', thread=said.ts)
        await slack.user("U0ADA").clicks(question, "deny")  # who asked may deny
        view = await slack.until(lambda: next(iter(slack.world.views.values()), None))
        typed = {"why": {"reason": {"type": "plain_text_input", "value": "not before the weekend"}}}
        await slack.user("U0ADA").submits(view, typed)
        await slack.until(lambda: not running.talks or None)
        assert "not before the weekend" in now(slack, question)["text"] and not buttons(slack, question)
        assert FileHost(tmp_path / "host.json").read()["restarts"] == 0
    assert the_one(tmp_path).state == "denied"
    transcript = next((settings.state_dir / "threads").glob("*/transcript.jsonl")).read_text()
    assert "not before the weekend" in transcript


async def test_a_message_in_the_thread_voids_what_waits_and_its_buttons(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack, more=approving()), trial(tmp_path)):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        question = await slack.message("C0OPS", action='"approve"', thread=said.ts)
        record = the_one(tmp_path)
        await slack.user("U0BEN").says("C0OPS", "first look at the log of the router", thread=said.ts)
        await slack.until(lambda: not buttons(slack, question) or None)
        assert ApprovalStore(tmp_path).get(record.id).state == "voided"
        assert FileHost(tmp_path / "host.json").read()["restarts"] == 0


async def test_an_approval_that_nobody_decides_on_expires_and_says_so(tmp_path: Path) -> None:
    more = approving(expires_s=0.7)
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack, more=more), trial(tmp_path)):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        question = await slack.message("C0OPS", action='"approve"', thread=said.ts)
        await slack.until(lambda: "expired" in now(slack, question)["text"] or None)
        assert not buttons(slack, question)


async def test_a_restart_while_an_approval_waits_keeps_its_buttons_good(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        settings = settings_for(tmp_path, slack, more=approving())
        async with bot(settings, trial(tmp_path)):
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
            question = await slack.message("C0OPS", action='"approve"', thread=said.ts)
        assert "being restarted" in slack.thread_text("C0OPS", said.ts)
        assert buttons(slack, question), "it still waits"
        async with bot(settings, trial(tmp_path)):
            await slack.socket.connected()
            await slack.message("C0OPS", containing="I was restarted", thread=said.ts)
            await slack.user("U0BEN").clicks(question, "approve")
            await slack.message("C0OPS", action='"plot"', thread=said.ts)
        asked = [m for m in slack.posts("C0OPS", said.ts) if "Approval needed" in m["text"]]
        assert not asked, "one message, rewritten, and no second one"
        assert FileHost(tmp_path / "host.json").read()["restarts"] == 1


async def test_what_expired_while_the_bot_was_away_is_told_when_it_is_back(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        settings = settings_for(tmp_path, slack, more=approving(expires_s=1.0))
        async with bot(settings, trial(tmp_path)):
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
            question = await slack.message("C0OPS", action='"approve"', thread=said.ts)
        await asyncio.sleep(1.1)
        async with bot(settings, trial(tmp_path)):
            await slack.until(lambda: "expired" in now(slack, question)["text"] or None)
            assert not buttons(slack, question)
