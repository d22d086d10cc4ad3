"""What a workspace of the fake Slack holds: people, conversations, messages, files, modals, streams."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

TEAM: Final = "T0LEADLINE"
OTHER_TEAM: Final = "T0ELSEWHERE"
BOT_USER: Final = "U0LEADLINE"
BOT: Final = "B0LEADLINE"
APP: Final = "A0LEADLINE"


@dataclass
class Member:
    """One account, of this workspace or (``team``) of another that a shared channel brings in."""

    id: str
    name: str
    team: str = TEAM
    restricted: bool = False
    ultra_restricted: bool = False
    bot: bool = False
    deleted: bool = False
    stranger: bool = False
    enterprise: str = ""
    """The organisation of Enterprise Grid, and ``workspaces`` of it that the account is in."""
    workspaces: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return the account as ``users.info`` does."""
        ids = {"enterprise_id": self.enterprise, "teams": list(self.workspaces), "id": self.id}
        grid = {"enterprise_user": ids} if self.enterprise else {}
        return grid | {
            "id": self.id,
            "team_id": self.team,
            "name": self.name,
            "real_name": self.name.title(),
            "deleted": self.deleted,
            "is_bot": self.bot,
            "is_restricted": self.restricted,
            "is_ultra_restricted": self.ultra_restricted,
            "is_stranger": self.stranger,
            "is_app_user": False,
            "tz": "Europe/Berlin",
            "profile": {"display_name": self.name, "real_name": self.name.title(), "team": self.team},
        }


@dataclass
class Channel:
    """One conversation; ``messages`` in the order in which they came."""

    id: str
    name: str
    kind: str = "channel"
    members: set[str] = field(default_factory=set)
    messages: list[Json] = field(default_factory=list)
    archived: bool = False
    shared: bool = False
    """With another organisation, by Slack Connect."""

    def find(self, ts: str) -> Json | None:
        """Return the message of that time stamp."""
        return next((message for message in self.messages if message["ts"] == ts), None)

    def thread(self, ts: str) -> list[Json]:
        """Return a message and its replies."""
        return [m for m in self.messages if m["ts"] == ts or m.get("thread_ts") == ts]

    def as_json(self) -> Json:
        """Return the conversation as ``conversations.info`` does."""
        return {
            "id": self.id,
            "name": self.name,
            "is_channel": self.kind == "channel",
            "is_group": self.kind == "group",
            "is_im": self.kind == "im",
            "is_private": self.kind != "channel",
            "is_archived": self.archived,
            "is_member": BOT_USER in self.members,
        }

    @property
    def scope(self) -> str:
        """Return the family of scopes that reading it needs."""
        return {"channel": "channels", "group": "groups", "im": "im"}[self.kind]


@dataclass
class Upload:
    """One file on its way into a conversation."""

    id: str
    name: str
    length: int
    data: bytes = b""
    shared: bool = False


@dataclass
class Stream:
    """One message that is being streamed into."""

    channel: str
    ts: str
    text: str = ""
    begun: float = 0.0


class World:
    """Hold one workspace; nothing here knows of HTTP."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.channels: dict[str, Channel] = {}
        self.uploads: dict[str, Upload] = {}
        self.views: dict[str, Json] = {}
        self.triggers: dict[str, float] = {}
        self.streams: dict[tuple[str, str], Stream] = {}
        self.responses: dict[str, tuple[str, str, str]] = {}
        self.groups: dict[str, set[str]] = {"S0ONCALL": {"U0BEN"}}
        self.ephemeral: list[Json] = []
        self._count = itertools.count(1)
        self._ts = 0
        self.add_member(Member(BOT_USER, "leadline", bot=True))
        self.add_member(Member("U0ADA", "ada"))
        self.add_member(Member("U0BEN", "ben"))
        self.add_member(Member("U0CLEO", "cleo"))
        self.add_member(Member("U0GUEST", "gus", restricted=True))
        self.add_member(Member("U0SINGLE", "sid", restricted=True, ultra_restricted=True))
        self.add_member(Member("U0OTHER", "olga", team=OTHER_TEAM, stranger=True))
        everyone = set(self.members)
        self.channels["C0OPS"] = Channel("C0OPS", "inference-ops", members=set(everyone))
        self.channels["C0ALERTS"] = Channel("C0ALERTS", "alerts", members=set(everyone))
        self.channels["G0SECRET"] = Channel("G0SECRET", "war-room", "group", {"U0ADA", BOT_USER})
        self.channels["C0AWAY"] = Channel("C0AWAY", "elsewhere", members=everyone - {BOT_USER})

    def add_member(self, member: Member) -> Member:
        """Let somebody in, and into the channels that are for all."""
        self.members[member.id] = member
        for channel in self.channels.values():
            if channel.kind == "channel":
                channel.members.add(member.id)
        return member

    def number(self, prefix: str) -> str:
        """Return an id that nothing else has."""
        return f"{prefix}{next(self._count):08d}"

    def ts(self) -> str:
        """Return a time stamp that no other message has, later than all before it."""
        self._ts = max(int(time.time() * 1_000_000), self._ts + 1)
        return f"{self._ts // 1_000_000}.{self._ts % 1_000_000:06d}"

    def direct(self, user: str) -> Channel:
        """Return the conversation between the bot and one person, opened where it was not."""
        id = "D" + user[1:]
        return self.channels.setdefault(id, Channel(id, user, "im", {user, BOT_USER}))

    def trigger(self) -> str:
        """Return a trigger that opens one modal within three seconds."""
        trigger = self.number("trigger.")
        self.triggers[trigger] = time.monotonic()
        return trigger
