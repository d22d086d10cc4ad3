"""Threats 4 and 5 in Slack itself: whoever may not decide does not, and a click counts once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fake_slack import FakeSlack
from tests.fake_slack_world import BOT_USER, OTHER_TEAM, TEAM, Json, Member
from tests.file_host import FileHost
from tests.scripted_parts import EVIDENCE, HYPOTHESIS, turn
from tests.slack_bot_parts import ME, approval, asked, bot, decided, make_slack
from tests.trial_parts import fixed, moves, propose

Record = Callable[[str, object], None]

WRONG = {
    "U0GUEST": "a guest, though the map lists the account",
    "U0OTHER": "of another team, though the map lists the account",
    "U0DAVE": "a member without a role",
    "U0SINGLE": "a guest of one channel",
    "U0ROBOT": "another bot, though the map lists it",
    "U0GONE": "an account that was deactivated, though the map lists it",
    "U0ADA": "who asked for the investigation",
}


def with_strangers(slack: FakeSlack) -> None:
    slack.world.add_member(Member("U0DAVE", "ben"))  # the name of somebody who may
    slack.world.add_member(Member("U0ROBOT", "robot", bot=True))
    slack.world.add_member(Member("U0GONE", "gone", deleted=True))


def roles(*more: str) -> dict[str, Any]:
    people = ["U0BEN", "U0CLEO", "U0GUEST", "U0ROBOT", "U0GONE", *more]
    listed = [f"slack:{TEAM}:{one}" for one in people] + [f"slack:{OTHER_TEAM}:U0OTHER"]
    return {"roles": {"approver": listed}}


def audit(root: Path) -> list[dict[str, Any]]:
    files = sorted((root / "audit").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def nothing_ran(root: Path) -> bool:
    host = FileHost(root / "host.json").read()
    return bool(host["restarts"] == 0 and host["plans"] == {})


@pytest.mark.threat(4)
async def test_whoever_may_not_approve_is_refused_told_alone_and_audited(
    tmp_path: Path, record_property: Record
) -> None:
    async with make_slack() as slack:
        with_strangers(slack)
        async with bot(slack, tmp_path, approvals=roles()):
            said, question = await asked(slack)
            for user in WRONG:
                before = len(slack.world.ephemeral)
                await (await slack.user(user).clicks(question, "approve")).acked()
                await slack.whispers(before + 1)
                note = slack.world.ephemeral[-1]
                assert (
                    (note["to"] == user and "no role" in note["text"])
                    or "member" in note["text"]
                    or ("somebody else" in note["text"])
                ), (user, note["text"])
            assert approval(tmp_path).state == "waiting" and nothing_ran(tmp_path)
            assert "[Approve] [Deny]" in slack.thread_text("C0OPS", said.ts)
    refused = [one for one in audit(tmp_path) if one["kind"] == "approval_refused"]
    assert [user for user in WRONG if any(user in one["what"] for one in refused)] == list(WRONG)
    record_property("cases", len(WRONG))


@pytest.mark.threat(4)
async def test_with_an_empty_map_nobody_approves_in_slack(tmp_path: Path, record_property: Record) -> None:
    people = ("U0ADA", "U0BEN", "U0CLEO", "U0GUEST", "U0OTHER")
    async with make_slack() as slack, bot(slack, tmp_path, approvals={"roles": {}}):
        _, question = await asked(slack)
        assert "nobody here" in json.dumps(question["blocks"])
        for number, user in enumerate(people):
            await (await slack.user(user).clicks(question, "approve")).acked()
            await slack.whispers(number + 1)
        assert all("no role" in note["text"] for note in slack.world.ephemeral)
        assert approval(tmp_path).state == "waiting" and nothing_ran(tmp_path)
    record_property("cases", len(people))


@pytest.mark.threat(4)
@pytest.mark.parametrize("user", ["U0DAVE", "U0OTHER", "U0GUEST"])
async def test_whoever_may_not_deny_gets_no_modal_and_ends_nothing(tmp_path: Path, user: str) -> None:
    async with make_slack() as slack:
        with_strangers(slack)
        async with bot(slack, tmp_path, approvals=roles()):
            _, question = await asked(slack)
            await (await slack.user(user).clicks(question, "deny")).acked()
            await slack.whispers()
            assert slack.world.views == {}
            # A modal that somebody else was shown, sent off by a hand-made request of theirs.
            kept = approval(tmp_path)
            press = {"approval": kept.id, "digest": kept.digest, "channel": "C0OPS", "ts": question["ts"]}
            view = {"id": "V1", "type": "modal", "callback_id": "deny", "private_metadata": json.dumps(press)}
            await (await slack.user(user).submits(view)).acked()
            await slack.whispers(2)
            assert approval(tmp_path).state == "waiting"


@pytest.mark.threat(4)
@pytest.mark.parametrize(
    ("user", "where"),
    [
        ("U0GUEST", "C0OPS"),
        ("U0SINGLE", "C0OPS"),
        ("U0OTHER", "C0OPS"),
        ("U0BEN", "C0ALERTS"),  # a full member, in a channel that nothing is said of
        ("U0GUEST", "@"),
    ],
)
async def test_whoever_may_not_start_starts_nothing(tmp_path: Path, user: str, where: str) -> None:
    async with make_slack() as slack, bot(slack, tmp_path):
        said = await (await slack.user(user).says(where, f"{ME} decode is slow")).acked()
        (note,) = await slack.whispers()
        assert note["to"] == user and "cannot" in note["text"]
        assert slack.posts() == [] and not list(tmp_path.glob("threads/*"))
        again = await (await slack.user(user).says(where, f"{ME} please", thread=said.ts)).acked()
        await slack.until(lambda: again.deliveries[0].done.is_set() or None)
    assert [one["what"] for one in audit(tmp_path) if "start" in one.get("what", "")]
    assert len(slack.world.ephemeral) == 1, "it is said once in a thread"


async def test_a_stranger_cannot_steer_or_stop_what_others_started(tmp_path: Path) -> None:
    async with make_slack() as slack, bot(slack, tmp_path) as running:
        said, _ = await asked(slack)
        for user, words in (("U0GUEST", "stop"), ("U0OTHER", f"{ME} leave the flag alone")):
            await (await slack.user(user).says("C0OPS", words, thread=said.ts)).acked()
        await slack.whispers(2)
        assert [talk.live for talk in running.talks.values()] == [True]
        assert approval(tmp_path).state == "waiting"


@pytest.mark.threat(5)
async def test_fifty_clicks_at_once_are_one_decision(tmp_path: Path, record_property: Record) -> None:
    async with make_slack() as slack, bot(slack, tmp_path):
        said, question = await asked(slack)
        people = [slack.user(user) for user in ("U0BEN", "U0CLEO")]
        clicks = [people[n % 2].clicks(question, "approve", stale=True) for n in range(50)]
        for delivery in await asyncio.gather(*clicks):
            await delivery.acked()
        await slack.message("C0OPS", containing="fixed", thread=said.ts)
        await slack.whispers(49)
    given = [
        one for one in audit(tmp_path) if one["kind"] == "approval_given" and one["outcome"] == "decided"
    ]
    assert len(given) == 1
    host = FileHost(tmp_path / "host.json").read()
    assert (host["runs"], host["restarts"], len(host["plans"])) == ("graphs", 1, 1)
    record_property("cases", 50)


@pytest.mark.threat(5)
@pytest.mark.parametrize("same_envelope", [True, False])
async def test_a_click_that_is_delivered_again_counts_once(tmp_path: Path, same_envelope: bool) -> None:
    async with make_slack() as slack, bot(slack, tmp_path):
        said, question = await asked(slack)
        click = await (await slack.user("U0BEN").clicks(question, "approve")).acked()
        for _ in range(3):
            await slack.socket.send(click, same_envelope=same_envelope)
        await slack.message("C0OPS", containing="fixed", thread=said.ts)
        await slack.socket.send(click, same_envelope=same_envelope)
        await slack.until(lambda: len(click.acks) == 5 or None)
    assert slack.world.ephemeral == [], "nobody is told off for what Slack does"
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 1


@pytest.mark.threat(5)
async def test_a_click_that_comes_again_after_a_restart_counts_once(tmp_path: Path) -> None:
    async with make_slack() as slack:
        async with bot(slack, tmp_path):
            said, question = await asked(slack)
            click = await (await slack.user("U0BEN").clicks(question, "approve")).acked()
            await slack.message("C0OPS", containing="fixed", thread=said.ts)
        async with bot(slack, tmp_path):
            await slack.socket.send(click)
            await slack.until(lambda: len(click.acks) == 2 or None)
            await (await slack.user("U0BEN").clicks(question, "approve", stale=True)).acked()
            await slack.whispers()
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 1


@pytest.mark.threat(5)
async def test_approve_and_deny_at_once_end_in_one_of_the_two(tmp_path: Path) -> None:
    async with make_slack() as slack, bot(slack, tmp_path, moves(outcome="inconclusive")):
        said, question = await asked(slack)
        await (await slack.user("U0CLEO").clicks(question, "deny")).acked()
        view: Json = await slack.until(lambda: next(iter(slack.world.views.values()), None))
        why = {"why": {"reason": {"type": "plain_text_input", "value": "not today"}}}
        both = await asyncio.gather(
            slack.user("U0BEN").clicks(question, "approve"), slack.user("U0CLEO").submits(view, why)
        )
        await asyncio.gather(*(delivery.acked() for delivery in both))
        await slack.message("C0OPS", containing="inconclusive", thread=said.ts)
    end = decided(approval(tmp_path))
    ran = FileHost(tmp_path / "host.json").read()["restarts"]
    assert (end, ran) in (("used by U0BEN", 1), ("denied by U0CLEO", 0), ("voided by U0BEN", 0)), end


@pytest.mark.threat(5)
async def test_a_button_of_a_plan_that_is_gone_does_nothing(tmp_path: Path) -> None:
    # The model proposes anew after what people say; the first plan is void, its buttons are dead.
    script = [turn(HYPOTHESIS), turn(EVIDENCE), turn(propose()), turn(propose()), turn(fixed("inconclusive"))]
    async with make_slack() as slack, bot(slack, tmp_path, script):
        said, first = await asked(slack)
        await (await slack.user("U0ADA").says("C0OPS", "look at the log first", thread=said.ts)).acked()
        second = await slack.until(lambda: another(slack, first))
        shown = next(m for m in slack.posts("C0OPS") if m["ts"] == first["ts"])
        assert "voided" in shown["text"] and "actions" not in json.dumps(shown["blocks"])
        await (await slack.user("U0BEN").clicks(first, "approve", stale=True)).acked()
        await slack.whispers()
        assert nothing_ran(tmp_path) and approval(tmp_path).state == "waiting"
        for forged in ("0" * 64, "", approval(tmp_path).digest.upper()):
            again = {**second, "blocks": with_value(second, digest=forged)}
            before = len(slack.world.ephemeral)
            await (await slack.user("U0BEN").clicks(again, "approve", stale=True)).acked()
            await slack.whispers(before + 1)
        assert nothing_ran(tmp_path) and approval(tmp_path).state == "waiting"
    assert BOT_USER not in json.dumps(audit(tmp_path))


def another(slack: FakeSlack, first: Json) -> Json | None:
    """Return a question that is not the first one."""
    asking = (m for m in slack.posts("C0OPS") if '"approve"' in json.dumps(m) and m["ts"] != first["ts"])
    return next(asking, None)


def with_value(message: Json, **changed: str) -> list[Json]:
    """Return the blocks of a message whose buttons carry something else."""
    blocks: list[Json] = json.loads(json.dumps(message["blocks"]))
    for element in blocks[-1]["elements"]:
        element["value"] = json.dumps(json.loads(element["value"]) | changed)
    return blocks
