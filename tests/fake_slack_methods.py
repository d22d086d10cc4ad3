"""The Web API methods of the fake Slack: what each refuses, changes and answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

from tests.fake_slack_blocks import MARKDOWN, problems, view_problems
from tests.fake_slack_scopes import SCOPES
from tests.fake_slack_world import APP, BOT, BOT_USER, TEAM, Channel, Json, Stream, Upload, World

POST_TEXT: Final = 40_000
UPDATE_TEXT: Final = 4_000
TRIGGER_SECONDS: Final = 3.0


class Refused(Exception):
    """An answer with ``ok: false``."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.answer: Json = {"ok": False, "error": error, **more}


class Methods:
    """Answer each method over one world; ``base``: where files are uploaded to."""

    def __init__(self, world: World, *, stream_seconds: float) -> None:
        self.world = world
        self.base = ""
        self.stream_seconds = stream_seconds

    def channel(self, args: Json, name: str = "channel", *, member: bool = True) -> Channel:
        """Return the conversation that a call means; a person's id means the conversation with them."""
        given = str(args.get(name, ""))
        if given.startswith("U") and given in self.world.members:
            return self.world.direct(given)
        found = self.world.channels.get(given)
        private = found is not None and found.kind != "channel"
        if found is None or (private and BOT_USER not in found.members):
            raise Refused("channel_not_found")
        if member and BOT_USER not in found.members:
            raise Refused("not_in_channel")
        if member and found.archived:
            raise Refused("is_archived")
        return found

    def own(self, channel: Channel, args: Json, refusal: str) -> Json:
        """Return a message that this app wrote."""
        message = channel.find(str(args.get("ts", "")))
        if message is None:
            raise Refused("message_not_found")
        if message.get("bot_id") != BOT:
            raise Refused(refusal)
        return message

    def body(self, args: Json, most: int) -> Json:
        """Return text and blocks of a message, checked as Slack checks them."""
        blocks = _decoded(args.get("blocks"))
        text = str(args.get("text") or "")
        markdown = args.get("markdown_text")
        if markdown is not None:
            if text or blocks:
                raise Refused("markdown_text_conflict")
            if len(markdown) > MARKDOWN:
                raise Refused("msg_too_long")
            text = markdown
        if not text and not blocks and not _decoded(args.get("attachments")):
            raise Refused("no_text")
        if len(text) > most:
            raise Refused("msg_too_long")
        found = problems(blocks) if blocks is not None else []
        if found:
            raise Refused("invalid_blocks", errors=found, response_metadata={"messages": found})
        body: Json = {"text": text, "markdown": markdown is not None}
        body["blocks"] = blocks or []
        return body

    # ---- who and where

    def auth_test(self, args: Json) -> Json:
        return {
            "url": "https://fake.slack.com/",
            "team": "Fake",
            "user": "leadline",
            "team_id": TEAM,
            "user_id": BOT_USER,
            "bot_id": BOT,
            "is_enterprise_install": False,
        }

    def team_info(self, args: Json) -> Json:
        return {"team": {"id": TEAM, "name": "Fake", "domain": "fake"}}

    def users_info(self, args: Json) -> Json:
        member = self.world.members.get(str(args.get("user")))
        if member is None:
            raise Refused("user_not_found")
        return {"user": member.as_json()}

    def bots_info(self, args: Json) -> Json:
        return {"bot": {"id": BOT, "app_id": APP, "user_id": BOT_USER, "name": "leadline", "deleted": False}}

    def usergroups_users_list(self, args: Json) -> Json:
        members = self.world.groups.get(str(args.get("usergroup", "")))
        if members is None:
            raise Refused("no_such_subteam")
        return {"users": sorted(members)}

    def conversations_info(self, args: Json) -> Json:
        return {"channel": self.channel(args, member=False).as_json()}

    def conversations_open(self, args: Json) -> Json:
        users = str(args.get("users", "")).split(",")
        if len(users) != 1 or users[0] not in self.world.members:
            raise Refused("user_not_found")
        return {"channel": self.world.direct(users[0]).as_json()}

    def conversations_history(self, args: Json) -> Json:
        channel = self.channel(args)
        found = [m for m in channel.messages if "thread_ts" not in m or m["thread_ts"] == m["ts"]]
        newest = [self.shown(channel, m) for m in reversed(_between(found, args))]
        return _page(newest, args, 100)

    def conversations_replies(self, args: Json) -> Json:
        channel = self.channel(args)
        parent = str(args.get("ts", ""))
        message = channel.find(parent)
        if message is None:
            raise Refused("thread_not_found")
        thread = channel.thread(message.get("thread_ts", parent))
        inside = [m for m in thread if m["ts"] == parent or m in _between(thread, args)]
        return _page([self.shown(channel, m) for m in inside], args, 1000)

    def shown(self, channel: Channel, message: Json) -> Json:
        """Return a message as it is read back."""
        replies = [m for m in channel.messages if m.get("thread_ts") == message["ts"] != m["ts"]]
        seen = {name: value for name, value in message.items() if name not in ("markdown", "unfurl")}
        return seen | ({"thread_ts": message["ts"], "reply_count": len(replies)} if replies else {})

    # ---- messages

    def chat_postMessage(self, args: Json) -> Json:
        channel = self.channel(args)
        message = self.post(channel, self.body(args, POST_TEXT), args)
        return {"channel": channel.id, "ts": message["ts"], "message": self.shown(channel, message)}

    def post(self, channel: Channel, body: Json, args: Json) -> Json:
        """Add a message of the bot."""
        thread = args.get("thread_ts")
        if thread and channel.find(str(thread)) is None:
            raise Refused("thread_not_found")
        message: Json = {
            "type": "message", "user": BOT_USER, "bot_id": BOT, "app_id": APP,
            "team": TEAM, "ts": self.world.ts(), **body,
        }  # fmt: skip
        if thread:
            message["thread_ts"] = str(thread)
        if args.get("metadata"):
            message["metadata"] = _decoded(args["metadata"])
        channel.messages.append(message)
        return message

    def chat_update(self, args: Json) -> Json:
        channel = self.channel(args)
        message = self.own(channel, args, "cant_update_message")
        if (channel.id, message["ts"]) in self.world.streams:
            raise Refused("streaming_state_conflict")
        given = args if "blocks" in args or "text" in args else args | {"blocks": message["blocks"]}
        message.update(self.body(given, UPDATE_TEXT))
        message["edited"] = {"user": BOT_USER, "ts": self.world.ts()}
        return {"channel": channel.id, "ts": message["ts"], "text": message["text"], "message": message}

    def chat_delete(self, args: Json) -> Json:
        channel = self.channel(args)
        message = self.own(channel, args, "cant_delete_message")
        channel.messages.remove(message)
        return {"channel": channel.id, "ts": message["ts"]}

    def chat_postEphemeral(self, args: Json) -> Json:
        channel = self.channel(args)
        if str(args.get("user")) not in channel.members:
            raise Refused("user_not_in_channel")
        body = self.body(args, POST_TEXT)
        ts = self.world.ts()
        note = {
            "ts": ts,
            "channel": channel.id,
            "to": args["user"],
            "thread_ts": args.get("thread_ts"),
            **body,
        }
        self.world.ephemeral.append(note)
        return {"message_ts": ts}

    def chat_getPermalink(self, args: Json) -> Json:
        channel = self.channel(args)
        ts = str(args.get("message_ts", ""))
        if channel.find(ts) is None:
            raise Refused("message_not_found")
        link = f"https://fake.slack.com/archives/{channel.id}/p{ts.replace('.', '')}"
        return {"channel": channel.id, "permalink": link}

    # ---- streams

    def chat_startStream(self, args: Json) -> Json:
        channel = self.channel(args)
        if not args.get("thread_ts"):
            raise Refused("invalid_arguments")
        if channel.kind != "im":
            for name in ("recipient_team_id", "recipient_user_id"):
                if not args.get(name):
                    raise Refused(f"missing_{name}")
        text = _streamed(args)
        message = self.post(channel, {"text": text, "markdown": True, "blocks": []}, args)
        message["streaming_state"] = "in_progress"
        stream = Stream(channel.id, message["ts"], text, time.monotonic())
        self.world.streams[channel.id, message["ts"]] = stream
        return {"channel": channel.id, "ts": message["ts"]}

    def stream(self, channel: Channel, args: Json) -> tuple[Stream, Json]:
        """Return a stream that is still open, with its message."""
        message = self.own(channel, args, "message_not_owned_by_app")
        key = channel.id, message["ts"]
        found = self.world.streams.get(key)
        if found is not None and time.monotonic() - found.begun > self.stream_seconds:
            self.end_stream(*key)
            found = None
        if found is None:
            raise Refused("message_not_in_streaming_state")
        return found, message

    def end_stream(self, channel: str, ts: str) -> None:
        """Close a stream, as its owner or time does."""
        self.world.streams.pop((channel, ts), None)
        message = self.world.channels[channel].find(ts)
        if message is not None:
            message["streaming_state"] = "completed"

    def chat_appendStream(self, args: Json) -> Json:
        channel = self.channel(args)
        stream, message = self.stream(channel, args)
        text = _streamed(args)
        if not text and not args.get("chunks"):
            raise Refused("no_text")
        stream.text += text  # it lives no longer for it
        message["text"] = stream.text
        return {"channel": channel.id, "ts": message["ts"]}

    def chat_stopStream(self, args: Json) -> Json:
        channel = self.channel(args)
        stream, message = self.stream(channel, args)
        blocks = _decoded(args.get("blocks")) or []
        found = problems(blocks)
        if found:
            raise Refused("invalid_blocks", errors=found, response_metadata={"messages": found})
        message["text"] = stream.text + _streamed(args)
        message["blocks"] = blocks
        self.end_stream(channel.id, message["ts"])
        return {"channel": channel.id, "ts": message["ts"], "message": self.shown(channel, message)}

    # ---- reactions, modals, files

    def reactions_add(self, args: Json) -> Json:
        message = self.channel(args).find(str(args.get("timestamp", "")))
        if message is None:
            raise Refused("message_not_found")
        names: list[str] = message.setdefault("reactions", [])
        if args.get("name") in names:
            raise Refused("already_reacted")
        names.append(str(args.get("name")))
        return {}

    def reactions_remove(self, args: Json) -> Json:
        message = self.channel(args).find(str(args.get("timestamp", "")))
        if message is None or args.get("name") not in message.get("reactions", []):
            raise Refused("no_reaction")
        message["reactions"].remove(args["name"])
        return {}

    def views_open(self, args: Json) -> Json:
        begun = self.world.triggers.pop(str(args.get("trigger_id", "")), None)
        if begun is None:
            raise Refused("invalid_trigger_id")
        if time.monotonic() - begun > TRIGGER_SECONDS:
            raise Refused("expired_trigger_id")
        return self.keep_view(self.world.number("V"), args)

    def views_update(self, args: Json) -> Json:
        id = str(args.get("view_id", ""))
        known = self.world.views.get(id)
        if known is None:
            raise Refused("not_found")
        if args.get("hash") and args["hash"] != known["hash"]:
            raise Refused("hash_conflict")
        return self.keep_view(id, args)

    def keep_view(self, id: str, args: Json) -> Json:
        """Show a modal."""
        view = _decoded(args.get("view"))
        found = view_problems(view)
        if found:
            raise Refused("invalid_arguments", response_metadata={"messages": found})
        self.world.views[id] = {**view, "id": id, "hash": self.world.number("h"), "state": {"values": {}}}
        return {"view": self.world.views[id]}

    def files_getUploadURLExternal(self, args: Json) -> Json:
        upload = Upload(self.world.number("F"), str(args.get("filename", "")), int(args.get("length", 0)))
        if not upload.name or upload.length <= 0:
            raise Refused("invalid_arguments")
        self.world.uploads[upload.id] = upload
        return {"file_id": upload.id, "upload_url": f"{self.base}/upload/{upload.id}"}

    def files_completeUploadExternal(self, args: Json) -> Json:
        channel = self.channel(args, "channel_id") if args.get("channel_id") else None
        done = []
        for one in _decoded(args.get("files")) or []:
            upload = self.world.uploads.get(one.get("id", ""))
            if upload is None or len(upload.data) != upload.length:
                raise Refused("file_not_found")
            upload.shared = channel is not None
            done.append({"id": upload.id, "title": one.get("title") or upload.name, "name": upload.name})
        if channel is not None:
            body = {
                "text": str(args.get("initial_comment") or ""),
                "markdown": False,
                "blocks": [],
                "files": done,
            }
            self.post(channel, body, args)
        return {"files": done}


def handler(methods: Methods, method: str) -> Callable[[Json], Json] | None:
    """Return what answers a method."""
    return getattr(methods, method.replace(".", "_"), None) if method in SCOPES else None


def _decoded(value: Any) -> Any:
    """Return what a form sent as JSON text."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            raise Refused("invalid_arguments") from None
    return value


def _streamed(args: Json) -> str:
    text = str(args.get("markdown_text") or "")
    for chunk in _decoded(args.get("chunks")) or []:
        kind = chunk.get("type")
        if kind == "markdown_text":
            text += chunk["text"]
        elif kind not in ("task_update", "plan_update", "blocks"):
            raise Refused("invalid_chunks")
    if len(text) > MARKDOWN:
        raise Refused("msg_too_long")
    return text


def _between(messages: list[Json], args: Json) -> list[Json]:
    oldest, latest = float(args.get("oldest") or 0), float(args.get("latest") or "inf")
    whole = str(args.get("inclusive", "")).lower() in ("1", "true")
    return [
        message
        for message in messages
        if oldest < float(message["ts"]) < latest or (whole and float(message["ts"]) in (oldest, latest))
    ]


def _page(messages: list[Json], args: Json, usual: int) -> Json:
    begin = int(str(args.get("cursor") or "at:0").removeprefix("at:"))
    end = begin + min(int(args.get("limit") or usual), 1000)
    more = end < len(messages)
    answer: Json = {"messages": messages[begin:end], "has_more": more}
    return answer | ({"response_metadata": {"next_cursor": f"at:{end}"}} if more else {})
