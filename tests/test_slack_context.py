"""What is said in a thread before, and taken back after: read whole, as data, and never unsaid."""

from __future__ import annotations

from pathlib import Path

from agent.events import Started
from agent.slack.revised import DELETED, EDITED
from agent.transcript import read_events
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import BOT_USER, Json
from tests.scripted_parts import HYPOTHESIS, call, conclusion, turn
from tests.slack_parts import bot, settings_for, story

ME = f"<@{BOT_USER}>"
SLOW = (turn(HYPOTHESIS), turn(call("look", text="one", wait_s=2.0)), turn(conclusion()))


def symptom(root: Path) -> str:
    (path,) = (root / "threads").glob("*/transcript.jsonl")
    first = read_events(path)[0]
    assert isinstance(first, Started)
    return first.symptom


def said_before(slack: FakeSlack, *messages: Json) -> str:
    """Put messages into one thread without a word to the bot; return its time stamp."""
    place, top = slack.world.channels["C0OPS"], slack.world.ts()
    for number, message in enumerate(messages):
        ts = {"ts": slack.world.ts(), "thread_ts": top} if number else {"ts": top}
        place.messages.append({"type": "message", "user": "U0CLEO", "text": "", **message, **ts})
    return top


async def asked_below(slack: FakeSlack, top: str) -> None:
    await slack.user("U0BEN").says("C0OPS", f"{ME} have a look", thread=top)
    await slack.message("C0OPS", action='"evidence"', thread=top)


async def test_of_a_thousand_messages_the_first_and_the_newest_are_read(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack, context_messages=20), story()):
        said = [{"text": f"message {number} of many"} for number in range(1500)]
        await asked_below(slack, said_before(slack, *said))
        assert len(slack.called("conversations.replies")) == 2
    told = symptom(tmp_path)
    assert "message 0 of many" in told and "message 1499 of many" in told
    assert "message 1481 of many" in told and "message 1480 of many" not in told
    assert "(1480 messages between are left out)" in told


async def test_long_messages_leave_room_for_a_question(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        await asked_below(slack, said_before(slack, *[{"text": f"{n} " + "x" * 9000} for n in range(30)]))
    told = symptom(tmp_path)
    assert len(told) < 30_000 and "29 xxx" in told and "0 xxx" in told
    assert "more characters are left out]" in told and "messages between are left out" in told


async def test_what_another_bot_wrote_in_blocks_and_files_is_read_as_data(tmp_path: Path) -> None:
    words = {"type": "mrkdwn", "text": "TPOT *p99* 212 ms on <https://dash.example|gpu1>"}
    fields = [{"type": "mrkdwn", "text": "severity: page"}]
    since = {"type": "rich_text_section", "elements": [{"type": "text", "text": "since 12:04"}]}
    blocks = [
        {"type": "section", "text": words, "fields": fields},
        {"type": "rich_text", "elements": [since]},
    ]
    alert = {"user": "U0BOT", "bot_id": "B0GRAFANA", "text": "Firing", "blocks": blocks}
    picture = {"files": [{"name": "graph.png", "mimetype": "image/png"}, {"name": "log.txt"}]}
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        await asked_below(slack, said_before(slack, alert, picture, {"text": "see above"}))
    inside = symptom(tmp_path).partition("<untrusted ")[2]
    for part in ("Firing", "TPOT *p99* 212 ms on gpu1", "severity: page", "since 12:04", "see above"):
        assert part in inside, part
    assert "U0CLEO: [files, not read: graph.png (image/png), log.txt (unknown)]" in inside


async def test_a_file_beside_a_question_is_named(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        place, ts = slack.world.channels["C0OPS"], slack.world.ts()
        event: Json = {
            "type": "message",
            "subtype": "file_share",
            "user": "U0ADA",
            "channel": place.id,
            "ts": ts,
        }
        event |= {"text": f"{ME} what is this?", "files": [{"name": "top.png", "mimetype": "image/png"}]}
        place.messages.append(event)
        await slack.user("U0ADA").event(place, event)
        await slack.message("C0OPS", action='"evidence"', thread=ts)
    assert symptom(tmp_path).startswith("what is this?\n[files, not read: top.png (image/png)]")


async def test_another_bots_mention_is_not_answered_and_neither_is_its_own(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()) as running:
        place = slack.world.channels["C0OPS"]
        for who in ({"user": "U0BOT", "bot_id": "B0GRAFANA"}, {"user": BOT_USER}):
            event = {"type": "app_mention", "text": f"{ME} decode is slow", "channel": place.id, **who}
            sent = await slack.user("U0ADA").event(place, event | {"ts": slack.world.ts()})
            for delivery in sent:
                await delivery.acked()
        assert await running.drain(5) and slack.posts("C0OPS") == [] and slack.world.ephemeral == []


async def test_a_thread_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        slack.faults.errors("conversations.replies", "missing_scope")
        top = said_before(slack, {"text": "TTFT doubled"})
        await asked_below(slack, top)
        assert "I cannot read what was said here before" in slack.thread_text("C0OPS", top)
    assert "TTFT doubled" not in symptom(tmp_path)


async def test_an_edit_starts_nothing_twice_and_is_told_to_be_unheard(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story(SLOW)):
        ada = slack.user("U0ADA")
        said = await ada.says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="H1", thread=said.ts)
        await ada.edits(said, f"{ME} decode is slow")  # as when Slack adds a preview
        await ada.edits(said, f"{ME} prefill is slow")
        (note,) = await slack.whispers()
        assert (note["to"], note["text"], note["thread_ts"]) == ("U0ADA", EDITED, said.ts)
        await slack.message("C0OPS", action='"evidence"', thread=said.ts)
        assert len(slack.world.ephemeral) == 1
    assert "decode is slow" in symptom(tmp_path)


async def test_a_mention_that_an_edit_adds_starts_an_investigation(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        said = await slack.user("U0ADA").says("C0OPS", "decode is slow")
        await slack.user("U0ADA").edits(said, f"{ME} decode is slow")
        await slack.message("C0OPS", action='"evidence"', thread=said.ts)
        assert slack.world.ephemeral == []


async def test_a_deleted_message_stays_said_and_its_thread_goes_on(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story(SLOW)):
        ada = slack.user("U0ADA")
        said = await ada.says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", containing="H1", thread=said.ts)
        more = await ada.says("C0OPS", "the router was restarted", thread=said.ts)
        await more.acked()
        await slack.message("C0OPS", containing="take no advice", thread=said.ts)
        await ada.deletes(more)
        await ada.deletes(said)
        assert [note["text"] for note in await slack.whispers(2)] == [DELETED, DELETED]
        await slack.message("C0OPS", action='"evidence"', thread=said.ts)
