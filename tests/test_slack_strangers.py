"""Enterprise Grid, Slack Connect and other workspaces: one person is one, and strangers stay outside."""

from __future__ import annotations

import json
from pathlib import Path

from agent.roles import Person
from agent.slack.access import Access
from agent.slack.door import Door
from agent.slack.store import SlackStore
from agent.slack.text import Cleaner
from tests.approval_parts import the_one
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import BOT_USER, OTHER_TEAM, TEAM, Member
from tests.scripted_parts import make_settings
from tests.slack_parts import bot, settings_for, story, trial

ME = f"<@{BOT_USER}>"
ORG = "E0ORG"


def grid(id: str, team: str, *workspaces: str, **more: bool) -> Member:
    """Return an account of an organisation, as seen from one of its workspaces."""
    return Member(id, id.lower(), team=team, enterprise=ORG, workspaces=workspaces, **more)


async def test_a_person_of_the_organisation_is_one_from_whichever_workspace(tmp_path: Path) -> None:
    from slack_sdk.web.async_client import AsyncWebClient

    async with FakeSlack() as slack:
        slack.world.add_member(grid("W0GRID", "T0SECOND", TEAM, "T0SECOND"))
        slack.world.add_member(grid("W0ALIEN", "T0SECOND", "T0SECOND"))
        slack.world.add_member(grid("W0GUEST", TEAM, TEAM, restricted=True))
        slack.world.add_member(grid("W0LOST", TEAM, TEAM, stranger=True))
        door = Door(AsyncWebClient(token=slack.bot_token, base_url=slack.api_url), Cleaner(lambda data: data))
        store = SlackStore(tmp_path)
        access = Access(make_settings(tmp_path, slack={"teams": [TEAM]}), door, store)

        async def seen(team: str, user: str) -> tuple[str, str]:
            person: Person = await access.person(team, user)
            return person.team, person.standing

        for team in (TEAM, "T0SECOND", ORG):
            assert await seen(team, "W0GRID") == (TEAM, "member"), team
        assert await seen(OTHER_TEAM, "W0GRID") == (OTHER_TEAM, "unknown"), "no team that Slack knows of"
        assert await seen("T0SECOND", "W0ALIEN") == ("T0SECOND", "member")
        stranger = await access.person("T0SECOND", "W0ALIEN")
        assert "your team" in str(await access.refusal(stranger, "C0OPS", starts=True))
        assert await seen(TEAM, "W0GUEST") == (TEAM, "guest")
        assert await seen(TEAM, "W0LOST") == (TEAM, "unknown")
        store.close()


async def test_nobody_approves_from_another_workspace_what_they_asked_for(tmp_path: Path) -> None:
    roles = {"approver": [f"slack:{TEAM}:W0GRID", f"slack:{TEAM}:U0BEN"]}
    async with FakeSlack() as slack:
        member = slack.world.add_member(grid("W0GRID", "T0SECOND", TEAM, "T0SECOND"))
        settings = settings_for(tmp_path, slack, more={"approvals": {"roles": roles}})
        async with bot(settings, trial(tmp_path)):
            said = await slack.user("W0GRID").says("C0OPS", f"{ME} decode is slow")
            question = await slack.message("C0OPS", action='"approve"', thread=said.ts)
            assert the_one(tmp_path).requester.team == TEAM
            for number, team in enumerate((TEAM, "T0SECOND", ORG), 1):
                member.team = team
                await slack.user("W0GRID").clicks(question, "approve")
                note = (await slack.whispers(number))[-1]
                assert "somebody else has to approve" in note["text"]
            assert the_one(tmp_path).state == "waiting"


async def test_in_a_channel_that_others_read_only_what_is_listed_is_answered(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        ada, olga = slack.user("U0ADA"), slack.user("U0OTHER")  # Ada may start anywhere
        slack.world.channels["C0ALERTS"].shared = slack.world.channels["C0OPS"].shared = True
        await ada.says("C0ALERTS", f"{ME} decode is slow on gpu1")
        (note,) = await slack.whispers()
        assert note["to"] == "U0ADA" and "another organisation reads this channel" in note["text"]
        assert slack.posts("C0ALERTS") == []
        said = await ada.says("C0OPS", f"{ME} decode is slow on gpu1")
        answer = await slack.message("C0OPS", action='"evidence"', thread=said.ts)
        before = len(slack.posts("C0OPS"))
        await olga.says("C0OPS", f"{ME} and on gpu2?", thread=said.ts)
        await olga.clicks(answer, "evidence")
        notes = (await slack.whispers(3))[1:]
        assert {note["to"] for note in notes} == {"U0OTHER"} and len(slack.posts("C0OPS")) == before


async def test_an_event_of_another_workspace_reaches_no_thread_of_this_one(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()) as running:
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        await slack.message("C0OPS", action='"evidence"', thread=said.ts)
        await slack.until(lambda: not running.talks or None)
        before = len(slack.posts())
        event = {"type": "app_mention", "user": "U0ADA", "text": f"{ME} stop", "ts": slack.world.ts()}
        event |= {"channel": "C0OPS", "thread_ts": said.ts, "team": OTHER_TEAM, "user_team": OTHER_TEAM}
        body = {"type": "event_callback", "team_id": OTHER_TEAM, "event_id": "Ev1", "event": event}
        await (await slack.socket.deliver("events_api", body)).acked()
        (note,) = await slack.whispers()
        assert "your team is not one that I answer" in note["text"]
        assert len(slack.posts()) == before and "U0ADA" in json.dumps(note)
