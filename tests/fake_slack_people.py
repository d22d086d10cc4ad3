"""What people do in the fake Slack, and the payloads that Slack makes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.fake_slack_blocks import buttons
from tests.fake_slack_scopes import EVENT_SCOPES
from tests.fake_slack_socket import Delivery
from tests.fake_slack_world import APP, BOT_USER, TEAM, Channel, Json, Member

if TYPE_CHECKING:
    from tests.fake_slack import FakeSlack

_EVENT = {"channel": "message.channels", "group": "message.groups", "im": "message.im"}


@dataclass(frozen=True)
class Said:
    """A message of a person, and what went to the app for it."""

    channel: str
    ts: str
    message: Json
    deliveries: list[Delivery]

    @property
    def thread(self) -> str:
        """Return the time stamp of the thread that it begins or belongs to."""
        return str(self.message.get("thread_ts", self.ts))

    async def acked(self, seconds: float = 10.0) -> Said:
        """Wait until the app has taken it."""
        await asyncio.gather(*(delivery.acked(seconds) for delivery in self.deliveries))
        return self


@dataclass(frozen=True)
class Person:
    """Somebody at work in the workspace of ``slack``."""

    slack: FakeSlack
    member: Member

    async def says(self, channel: str, text: str, *, thread: str = "") -> Said:
        """Write into a conversation (``@``: into the one with the app alone)."""
        place = (
            self.slack.world.direct(self.member.id) if channel == "@" else self.slack.world.channels[channel]
        )
        message: Json = {
            "type": "message", "user": self.member.id, "text": text, "ts": self.slack.world.ts(),
            "team": self.member.team, "blocks": [_rich(text)],
            "client_msg_id": self.slack.world.number("msg-"),
        }  # fmt: skip
        if thread:
            message["thread_ts"] = thread
        place.messages.append(message)
        kind = "im" if place.kind == "im" else place.kind
        sent = await self.event(place, message | {"channel": place.id, "channel_type": kind})
        return Said(place.id, message["ts"], message, sent)

    async def edits(self, said: Said, text: str) -> list[Delivery]:
        """Change what was said; Slack tells it by two events where the app is mentioned."""
        before = dict(said.message)
        edited = {"user": self.member.id, "ts": self.slack.world.ts()}
        said.message.update(text=text, blocks=[_rich(text)], edited=edited)
        place = self.slack.world.channels[said.channel]
        sent = await self.event(place, self._revision("message_changed", said, before), mention=False)
        if f"<@{BOT_USER}>" in text and place.kind != "im":
            again = self._callback("app_mention", said.message | {"channel": place.id})
            sent.append(await self.slack.socket.deliver("events_api", again))
        return sent

    async def deletes(self, said: Said) -> list[Delivery]:
        """Take back what was said; what has answers leaves a stone."""
        place = self.slack.world.channels[said.channel]
        before = dict(said.message)
        if len(place.thread(said.ts)) > 1:
            said.message.update(subtype="tombstone", text="This message was deleted.", blocks=[])
            event = self._revision("message_changed", said, before)
        else:
            place.messages.remove(said.message)
            event = self._revision("message_deleted", said, before) | {"deleted_ts": said.ts}
        return await self.event(place, event, mention=False)

    def _revision(self, kind: str, said: Said, before: Json) -> Json:
        return {
            "type": "message", "subtype": kind, "message": said.message, "previous_message": before,
            "hidden": True, "channel": said.channel, "ts": self.slack.world.ts(),
        }  # fmt: skip

    async def event(self, place: Channel, event: Json, *, mention: bool = True) -> list[Delivery]:
        """Send a message to the app by each event that it listens for and may hear."""
        if BOT_USER not in place.members:
            return []
        kinds = [_EVENT[place.kind]]
        if mention and place.kind != "im" and f"<@{BOT_USER}>" in str(event.get("text")):
            kinds.insert(0, "app_mention")
        heard = [k for k in kinds if k in self.slack.events and EVENT_SCOPES[k] in self.slack.scopes]
        return [await self.slack.socket.deliver("events_api", self._callback(k, event)) for k in heard]

    def _callback(self, kind: str, event: Json) -> Json:
        shape = event if kind != "app_mention" else event | {"type": "app_mention"}
        if self.member.team != TEAM:
            shape = shape | {"user_team": self.member.team, "source_team": self.member.team}
        return {
            "token": "fake", "team_id": TEAM, "context_team_id": TEAM, "api_app_id": APP, "event": shape,
            "type": "event_callback", "event_id": self.slack.world.number("Ev"), "event_context": "fake",
            "event_time": int(time.time()),
            "is_ext_shared_channel": self.slack.world.channels[event["channel"]].shared,
            "authorizations": [{"enterprise_id": None, "team_id": TEAM, "user_id": BOT_USER, "is_bot": True,
                                "is_enterprise_install": False}],
        }  # fmt: skip

    async def clicks(self, message: Json, action: str, *, channel: str = "", stale: bool = False) -> Delivery:
        """Use a button of a message; ``stale``: as a screen shows it that has not heard of a later change."""
        place = self._place(message, channel)
        shown = message if stale else place.find(message["ts"])
        assert shown is not None, "the message is not there any more"
        found = buttons(shown)
        assert action in found, f"there is no button {action}; there is {sorted(found)}"
        element = found[action]
        done = {"action_id": action, "block_id": element["block_id"], "type": element["type"],
                "text": element.get("text"), "value": element.get("value"), "style": element.get("style"),
                "action_ts": self.slack.world.ts()}  # fmt: skip
        thread = {"thread_ts": shown["thread_ts"]} if "thread_ts" in shown else {}
        return await self.slack.socket.deliver(
            "interactive",
            self._interaction("block_actions", place, shown)
            | {
                "container": {"type": "message", "message_ts": shown["ts"], "channel_id": place.id,
                              "is_ephemeral": False, **thread},
                "actions": [{name: value for name, value in done.items() if value is not None}],
                "state": {"values": {}},
            },
        )  # fmt: skip

    async def shortcut(self, callback: str, message: Json, *, channel: str = "") -> Delivery:
        """Choose a shortcut from the menu of a message."""
        place = self._place(message, channel)
        more = {"callback_id": callback, "message_ts": message["ts"], "action_ts": self.slack.world.ts()}
        return await self.slack.socket.deliver(
            "interactive", self._interaction("message_action", place, message) | more
        )

    async def submits(self, view: Json, values: Mapping[str, Mapping[str, Json]] | None = None) -> Delivery:
        """Send off a modal with what was typed into its blocks: ``{block_id: {action_id: {...}}}``."""
        filled = view | {"state": {"values": dict(values or {})}, "team_id": TEAM, "app_id": APP}
        filled.setdefault("callback_id", "")
        payload = self._who("view_submission") | {"view": filled, "response_urls": []}
        return await self.slack.socket.deliver("interactive", payload)

    def _place(self, message: Json, channel: str) -> Channel:
        places = self.slack.world.channels
        if channel:
            return places[channel]
        return next(place for place in places.values() if place.find(message["ts"]) is not None)

    def _interaction(self, type: str, place: Channel, message: Json) -> Json:
        url = self.slack.world.number("r")
        self.slack.world.responses[url] = (place.id, message["ts"], self.member.id)
        return self._who(type) | {
            "channel": {"id": place.id, "name": place.name},
            "message": {name: value for name, value in message.items() if name != "markdown"},
            "response_url": f"{self.slack.methods.base}/response/{url}",
        }

    def _who(self, type: str) -> Json:
        member = self.member
        return {
            "type": type, "token": "fake", "api_app_id": APP, "trigger_id": self.slack.world.trigger(),
            "user": {"id": member.id, "username": member.name, "name": member.name, "team_id": member.team},
            "team": {"id": member.team, "domain": "fake" if member.team == TEAM else "elsewhere"},
            "enterprise": None, "is_enterprise_install": False,
        }  # fmt: skip


def _rich(text: str) -> Json:
    part = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "block_id": "said", "elements": [part]}
