"""What goes wrong around an investigation in Slack: each has one outcome, and people are told which."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.approvals_decide import decide
from agent.errors import UsageError
from agent.models.scripted import MODEL, ScriptedServer
from agent.models.scripted import serving as serving_model
from agent.models.scripted_script import from_file
from agent.roles import at_terminal
from agent.slack.run import serving
from tests.approval_parts import by, the_one
from tests.fake_slack import FakeSlack
from tests.fake_slack_faults import Fault
from tests.fake_slack_world import BOT_USER
from tests.scripted_parts import EVIDENCE, HYPOTHESIS, Move, call, conclusion, turn
from tests.slack_parts import bot, buttons, settings_for, story, trial
from tests.test_slack_approvals import approving

ME = f"<@{BOT_USER}>"
UNSEEN = "\u202e\u2066\u200b\u200d\ufeff\u00ad"
TRICKS = (
    "<!channel> <!here> <@U0BEN> <!subteam^S0ONCALL> <https://evil.example/x|https://bank.example>",
    "[the fix](https://evil.example/x) ![i](http://8.8.8.8/p.png) www.evil.example @channel",
    f"rm {UNSEEN}fr- and \u05d0\u05d1\u05d2 right to left",
)


def tricky(words: str) -> Sequence[Move]:
    """Return an investigation that says ``words`` wherever it can."""
    stated = json.loads(HYPOTHESIS.arguments)
    stated["add"][0]["statement"] += f" {words}"
    ended = json.loads(conclusion().arguments) | {"summary": f"Off. {words}", "next_step": words}
    return (turn(call("hypothesis", **stated), text=words), turn(EVIDENCE), turn(call("conclude", **ended)))


@pytest.mark.parametrize("words", TRICKS, ids=["mentions", "links", "unseen"])
async def test_what_is_said_mentions_nobody_links_nowhere_and_hides_nothing(
    tmp_path: Path, words: str
) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story(tricky(words))):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        answer = await slack.message("C0OPS", action='"evidence"', thread=said.ts)
        await slack.user("U0ADA").clicks(answer, "hypotheses")
        await slack.message("C0OPS", containing="the launch line", thread=said.ts)
        sent = [(c.method, c.args) for c in slack.calls if c.method.startswith("chat.")]
    for method, args in sent:
        text = json.dumps(args, ensure_ascii=False)
        assert not re.search(r"<[!@#a-z][^>]*>", text), (method, text)
        assert "evil.example" not in text and "8.8.8.8" not in text, (method, text)
        assert not set(UNSEEN) & set(text), (method, text)
        assert args.get("link_names", False) is False


async def test_removed_while_an_approval_waits_it_is_decided_at_a_terminal(tmp_path: Path) -> None:
    async with (
        FakeSlack() as slack,
        bot(settings := settings_for(tmp_path, slack, more=approving()), trial(tmp_path)) as running,
    ):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", action='"approve"', thread=said.ts)
        slack.world.channels["C0OPS"].members.discard(BOT_USER)
        decide(settings, by(at_terminal(), the_one(tmp_path)))
        await slack.until(lambda: not running.talks or None)
        assert the_one(tmp_path).state == "used"
        slack.world.channels["C0OPS"].members.add(BOT_USER)
        await slack.user("U0ADA").says("C0OPS", "status", thread=said.ts)
        await slack.message("C0OPS", containing="C1 verified", thread=said.ts)


async def test_an_approval_that_is_gone_is_asked_for_anew_and_its_old_buttons_die(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        settings = settings_for(tmp_path, slack, more=approving())
        async with bot(settings, trial(tmp_path)):
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
            question = await slack.message("C0OPS", action='"approve"', thread=said.ts)
        for path in tmp_path.glob("approvals.sqlite*"):  # as after an older backup was put back
            path.unlink()
        async with bot(settings, trial(tmp_path)) as running:
            assert not buttons(slack, question)
            await slack.message("C0OPS", action='"approve"', thread=said.ts)
            await slack.user("U0BEN").says("C0OPS", "stop", thread=said.ts)
            await slack.until(lambda: not running.talks or None)
            await slack.user("U0BEN").clicks(question, "approve", stale=True)
            (note,) = await slack.whispers()
            assert "does not wait any more" in note["text"]
    assert the_one(tmp_path).state == "voided"


async def test_a_question_that_was_posted_twice_loses_both_its_buttons(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack, more=approving()), trial(tmp_path)):
        slack.faults.add("chat.postMessage", Fault("cut_after"))  # and the library posts it again
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        twice = await slack.until(lambda: asking(slack, said.ts) if len(asking(slack, said.ts)) > 1 else None)
        await slack.user("U0BEN").clicks(twice[-1], "approve")
        await slack.until(lambda: not asking(slack, said.ts) or None)
        await slack.message("C0OPS", action='"plot"', thread=said.ts)
    assert the_one(tmp_path).state == "used"


async def test_an_approval_that_slack_does_not_take_is_told_with_where_to_decide(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack, more=approving()), trial(tmp_path)):
        slack.faults.errors("chat.postMessage", "invalid_blocks")
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        told = await slack.message("C0OPS", containing="cannot show here", thread=said.ts)
        assert f"leadline approvals show {the_one(tmp_path).id}" in told["text"]
        assert "invalid_blocks" in told["text"]


def asking(slack: FakeSlack, thread: str) -> list[dict[str, Any]]:
    """Return the messages that have a button to approve."""
    return [post for post in slack.posts("C0OPS", thread) if '"approve"' in json.dumps(post["blocks"])]


async def test_a_model_that_makes_no_tool_call_is_told_as_such(tmp_path: Path) -> None:
    script = tmp_path / "talk.yaml"
    script.write_text('- text: "It is the network."\n- text: "As I said, the network."\n')
    async with serving_model(ScriptedServer(from_file(script), {}), 0) as url, FakeSlack() as slack:
        model = {"model": MODEL, "base_url": url, "hosts": {"gpu1": {"ssh": "local"}}}
        settings = settings_for(tmp_path, slack, more=model, hosts=["gpu1"])
        async with serving(settings, change=lambda desk: replace(desk, every_s=0.05)):
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
            answer = await slack.message("C0OPS", action='"evidence"', thread=said.ts, seconds=60)
    assert answer["text"].startswith("*inconclusive*: scripted made no tool call in 2 turns")
    assert "--tool-call-parser" in answer["text"]


async def test_one_host_of_ten_is_down_and_nine_are_looked_at(tmp_path: Path) -> None:
    from tests.test_slack_start import started

    hosts: dict[str, Any] = {f"gpu{number}": {"ssh": "local"} for number in range(1, 10)}
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    hosts["gpu10"] = {"ssh": "leadline@127.0.0.1:9", "host_key": key}
    async with FakeSlack() as slack:
        settings = settings_for(tmp_path, slack, more={"hosts": hosts}, hosts=list(hosts))
        async with bot(settings, story(), connector=None):
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} is graph capture off on all?")
            await slack.message("C0OPS", action='"evidence"', thread=said.ts)
            shown = slack.thread_text("C0OPS", said.ts)
    assert shown.count("Not looked at") == 1 and "Not looked at: gpu10:" in shown
    assert started(tmp_path).hosts == [f"gpu{number}" for number in range(1, 10)]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"hosts": ["gup1"]}, "gpu1"),
        ({"channels": {"C0OPS": {"hosts": ["gup1"]}}}, "gpu1"),
        ({"channels": {"direct": {"hosts": ["@pol"]}}}, "no host is in a group @pol"),
    ],
)
async def test_a_host_that_no_inventory_knows_keeps_it_from_running(
    tmp_path: Path, said: dict[str, Any], told: str
) -> None:
    async with FakeSlack() as slack:
        with pytest.raises(UsageError, match=told):
            async with bot(settings_for(tmp_path, slack, **said), story()):
                pass
        assert slack.calls == []
