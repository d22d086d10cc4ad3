"""Say who somebody in Slack is, and whether they may start or steer an investigation; fail closed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from agent.config import Settings
from agent.roles import Person, Standing
from agent.slack.door import Door
from agent.slack.errors import SlackRefused
from agent.slack.store import SlackStore

REMEMBER_S: Final = 300.0
"""How long it is remembered who somebody is; an account that is taken away counts that much longer."""

HOUR_S: Final = 3600.0


class Access:
    """Know people by team id and user id; what Slack does not say of somebody counts against them."""

    def __init__(self, settings: Settings, door: Door, store: SlackStore) -> None:
        self._settings = settings
        self._door = door
        self._store = store
        self._people: dict[tuple[str, str], tuple[float, Person]] = {}
        self._groups: dict[str, tuple[float, frozenset[str]]] = {}

    async def person(self, team: str, user: str) -> Person:
        """Return who acts, as Slack itself says; whoever it does not vouch for is ``unknown``.

        In Enterprise Grid one person comes from several teams; they are one person here, of the team that is
        listed in the settings, so that nobody approves by one name what they asked for by another.
        """
        known = self._people.get((team, user))
        if known is not None and time.monotonic() - known[0] < REMEMBER_S:
            return known[1]
        try:
            found = (await self._door.look("users.info", user=user)).get("user")
        except SlackRefused:
            return Person(surface="slack", team=team, user=user)
        account: Mapping[str, Any] = found if isinstance(found, dict) else {}
        belongs = _teams(account)
        known_by = belongs if team in belongs else []
        profile = account.get("profile") or {}
        name = str(profile.get("display_name") or account.get("real_name") or account.get("name") or "")
        person = Person(
            surface="slack",
            team=next((one for one in known_by if one in self._settings.slack.teams), team),
            user=user,
            name=self._door.clean.line(name, 40),
            standing=_standing(account) if known_by else "unknown",
        )
        self._people[team, user] = (time.monotonic(), person)
        return person

    async def refusal(
        self, person: Person, channel: str, *, starts: bool, shared: bool = False
    ) -> str | None:
        """Return why somebody may not start an investigation, or speak in one; None when they may.

        ``shared``: people of another organisation read the channel.
        """
        slack = self._settings.slack
        if person.team not in slack.teams:
            return "your team is not one that I answer"
        if person.standing != "member":
            return "I only answer full members of the team, and you are not known to be one"
        if shared and channel not in slack.channels and not channel.startswith("D"):
            return "another organisation reads this channel, and it is not listed in slack.channels"
        entry = f"{person.team}:{person.user}"
        if slack.channel(channel).members_may_start or entry in slack.users:
            return None
        if not starts and self._settings.approvals.roles.role_of(person) is not None:
            return None
        for group in slack.groups:
            team, _, name = group.partition(":")
            if team == person.team and person.user in await self._members(name):
                return None
        return "you are not among those who may start an investigation here (slack.users, groups, channels)"

    def over_the_cap(self, person: Person, channel: str, active: int, own: int) -> str | None:
        """Return why nothing more may be started now; None while there is room."""
        slack = self._settings.slack
        if own >= slack.max_active_per_user:
            return f"{own} of your investigations are at work, and that is as many as one person may have"
        if active >= slack.max_active:
            return f"{active} investigations are at work, and that is as many as I take on"
        since = time.time() - HOUR_S
        if self._store.started_since(since, person=person) >= slack.starts_per_user_hour:
            return f"you have started {slack.starts_per_user_hour} investigations within the hour"
        if self._store.started_since(since, channel=channel) >= slack.starts_per_channel_hour:
            return f"{slack.starts_per_channel_hour} investigations were started here within the hour"
        return None

    async def _members(self, group: str) -> frozenset[str]:
        known = self._groups.get(group)
        if known is not None and time.monotonic() - known[0] < REMEMBER_S:
            return known[1]
        try:
            answer = await self._door.look("usergroups.users.list", usergroup=group)
        except SlackRefused:
            return frozenset()
        users = answer.get("users")
        members = frozenset(map(str, users)) if isinstance(users, list) else frozenset[str]()
        self._groups[group] = (time.monotonic(), members)
        return members


def _teams(account: Mapping[str, Any]) -> list[str]:
    """Return the team of an account; in Enterprise Grid all of its workspaces, and its organisation last."""
    grid = account.get("enterprise_user")
    grid = grid if isinstance(grid, dict) else {}
    teams = grid.get("teams")
    found = [account.get("team_id"), *(teams if isinstance(teams, list) else ()), grid.get("enterprise_id")]
    return [str(one) for one in found if one]


def _standing(account: Mapping[str, Any]) -> Standing:
    """Return what Slack says of an account."""
    if account.get("is_stranger") or account.get("deleted"):
        return "unknown"
    if account.get("is_bot") or account.get("is_workflow_bot"):
        return "unknown"
    if account.get("is_restricted") or account.get("is_ultra_restricted"):
        return "guest"
    return "member"
