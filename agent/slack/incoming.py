"""What comes from Slack, read out of its JSON: who said or pressed what, where. Nothing of it is trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from agent.slack.store import Place
from agent.slack.written import files, words, written

_HEARD: Final = frozenset({None, "file_share", "thread_broadcast"})
"""Subtypes of messages that people write; edits, joins and bots have others."""

_REVISED: Final = frozenset({"message_changed", "message_deleted"})


@dataclass(frozen=True, slots=True)
class Spoken:
    """Hold one message of a person."""

    place: Place
    """The thread that it stands in, or begins."""
    ts: str
    team: str
    """Of the person, who may come from elsewhere."""
    user: str
    text: str
    delivery: str
    direct: bool
    mention: bool
    """It is meant for the bot, by a mention, a direct message or a shortcut."""
    shared: bool = False
    """People of another organisation read the channel, as far as Slack says so."""

    @property
    def name(self) -> str:
        """Return what tells this message from others, by whatever event it came; a shortcut is its own."""
        if self.delivery.startswith("shortcut:"):
            return self.delivery
        return f"message:{self.place.channel}:{self.ts}"

    @property
    def begins(self) -> bool:
        """Tell whether the message begins its thread."""
        return self.ts == self.place.ts

    def to_json(self) -> str:
        """Return the message as it is kept until it has been answered."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spoken:
        """Return a message that `to_json` kept."""
        row = json.loads(text)
        return cls(**{**row, "place": Place(**row["place"])})


@dataclass(frozen=True, slots=True)
class Click:
    """Hold one press of a button of ours, or of a modal that it opened."""

    place: Place
    ts: str
    """Of the message that the button stands in."""
    team: str
    user: str
    action: str
    action_ts: str
    value: Mapping[str, str]
    trigger: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return what tells the same press, delivered again, from another one."""
        return self.team, self.user, self.action_ts, self.action


@dataclass(frozen=True, slots=True)
class Revised:
    """Hold that a person edited, or deleted, a message of theirs."""

    place: Place
    ts: str
    """Of the message, as it was first sent."""
    team: str
    user: str
    delivery: str
    deleted: bool

    @property
    def name(self) -> str:
        """Return what `Spoken.name` was of the message."""
        return f"message:{self.place.channel}:{self.ts}"


def spoken(body: Mapping[str, Any], bot_user: str) -> Spoken | None:
    """Return the message of an event; None when no person wrote it."""
    event = body.get("event") or {}
    if event.get("bot_id") or event.get("bot_profile") or event.get("hidden"):
        return None
    user, channel, ts = (
        str(event.get("user") or ""),
        str(event.get("channel") or ""),
        str(event.get("ts") or ""),
    )
    if event.get("subtype") not in _HEARD or not (user and channel and ts) or user == bot_user:
        return None
    team = str(body.get("team_id") or event.get("team") or "")
    direct = event.get("channel_type") == "im" or channel.startswith("D")
    text = str(event.get("text") or "")
    called = f"<@{bot_user}>" in text or f"<@{bot_user}|" in text
    return Spoken(
        place=Place(team, channel, str(event.get("thread_ts") or ts)),
        ts=ts,
        team=str(event.get("user_team") or event.get("team") or team),
        user=user,
        text=_with_files(words(text, bot_user), event),
        delivery=str(body.get("event_id") or ""),
        direct=direct,
        mention=direct or called or event.get("type") == "app_mention",
        shared=bool(body.get("is_ext_shared_channel")),
    )


def revised(body: Mapping[str, Any]) -> Revised | None:
    """Return that a person edited or deleted a message; None where Slack itself added a preview to it."""
    event = body.get("event") or {}
    before, after = event.get("previous_message") or {}, event.get("message") or {}
    kind, user, channel = event.get("subtype"), str(before.get("user") or ""), str(event.get("channel") or "")
    if kind not in _REVISED or before.get("bot_id") or not (user and channel and before.get("ts")):
        return None
    deleted = kind == "message_deleted" or after.get("subtype") == "tombstone"
    if not deleted and after.get("text") == before.get("text"):
        return None
    team = str(body.get("team_id") or before.get("team") or "")
    return Revised(
        place=Place(team, channel, str(before.get("thread_ts") or before["ts"])),
        ts=str(before["ts"]),
        team=str(before.get("user_team") or before.get("team") or team),
        user=user,
        delivery=str(body.get("event_id") or ""),
        deleted=deleted,
    )


def shortcut(body: Mapping[str, Any], bot_user: str) -> Spoken | None:
    """Return the message that a shortcut was used on, as if whoever used it had asked about it."""
    message, user = body.get("message") or {}, body.get("user") or {}
    channel, ts = str((body.get("channel") or {}).get("id") or ""), str(message.get("ts") or "")
    team = str((body.get("team") or {}).get("id") or "")
    if not (channel and ts and user.get("id")):
        return None
    return Spoken(
        place=Place(team, channel, str(message.get("thread_ts") or ts)),
        ts=ts,
        team=str(user.get("team_id") or team),
        user=str(user["id"]),
        text=words(written(message), bot_user),
        delivery=f"shortcut:{body.get('action_ts')}:{user['id']}",
        direct=channel.startswith("D"),
        mention=True,
    )


def click(body: Mapping[str, Any]) -> Click | None:
    """Return the press of a button; None when it is not one of ours by its form."""
    action = (body.get("actions") or [{}])[0]
    user, container = body.get("user") or {}, body.get("container") or {}
    message = body.get("message") or {}
    channel = str((body.get("channel") or {}).get("id") or container.get("channel_id") or "")
    ts = str(message.get("ts") or container.get("message_ts") or "")
    top = str(message.get("thread_ts") or container.get("thread_ts") or ts)
    team = str((body.get("team") or {}).get("id") or "")
    if not (channel and ts and user.get("id") and action.get("action_id")):
        return None
    return Click(
        place=Place(team, channel, top),
        ts=ts,
        team=str(user.get("team_id") or team),
        user=str(user["id"]),
        action=str(action["action_id"]),
        action_ts=str(action.get("action_ts") or body.get("trigger_id") or ""),
        value=_object(action.get("value")),
        trigger=str(body.get("trigger_id") or ""),
    )


def submitted(body: Mapping[str, Any]) -> tuple[Click, str] | None:
    """Return the press that opened a modal, by whoever sent the modal off, and the words in it."""
    view, user = body.get("view") or {}, body.get("user") or {}
    kept = _object(view.get("private_metadata"))
    values = (view.get("state") or {}).get("values") or {}
    fields = [field for block in values.values() for field in block.values()]
    reason = str(fields[0].get("value") or "") if fields else ""
    if not (kept.get("channel") and user.get("id")):
        return None
    team = str((body.get("team") or {}).get("id") or "")
    press = Click(
        place=Place(team, kept["channel"], kept.get("thread_ts", "")),
        ts=kept.get("ts", ""),
        team=str(user.get("team_id") or team),
        user=str(user["id"]),
        action=str(view.get("callback_id") or ""),
        action_ts=str(view.get("id") or kept.get("action_ts", "")),
        value=kept,
        trigger="",
    )
    return press, reason


def _with_files(text: str, event: Mapping[str, Any]) -> str:
    """Return what was said, and that files came with it: a file alone is no message."""
    return "\n".join(part for part in (text, files(event)) if part) if text else ""


def _object(text: Any) -> dict[str, str]:
    try:
        value = json.loads(text or "{}")
    except (TypeError, ValueError):
        return {}
    return {str(name): str(item) for name, item in value.items()} if isinstance(value, dict) else {}
