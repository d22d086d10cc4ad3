"""Read back what came before: the earlier messages of a Slack thread, and the events of an investigation."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent import threads
from agent.config import Settings
from agent.errors import LeadlineError
from agent.events import Event
from agent.slack.desk import Desk
from agent.slack.errors import SlackRefused
from agent.slack.incoming import Spoken, words
from agent.slack.store import Kept

_MESSAGE_CHARS: Final = 2000
_log = logging.getLogger("leadline.slack")


async def context_of(desk: Desk, spoken: Spoken) -> str:
    """Return the messages of a thread before this one, without secrets: what others wrote is data."""
    most = desk.settings.slack.context_messages
    if not most:
        return ""
    try:
        answer = await desk.door.look(
            "conversations.replies", channel=spoken.place.channel, ts=spoken.place.ts, limit=most + 1
        )
    except SlackRefused as error:
        _log.warning("%s; the thread's earlier messages are not read", error)
        return ""
    found = answer.get("messages")
    earlier = (
        [one for one in found or [] if str(one.get("ts")) < spoken.ts] if isinstance(found, list) else []
    )
    lines = [_said(one) for one in earlier[-most:]]
    return desk.door.clean.exact("\n".join(line for line in lines if line))


def events_of(settings: Settings, kept: Kept) -> Sequence[Event]:
    """Return the stored events of an investigation; none where it never began."""
    from agent.transcript import read_events

    if kept.thread is None:
        return ()
    try:
        return read_events(threads.find(settings, kept.thread) / "transcript.jsonl")
    except LeadlineError as error:
        _log.warning("%s", error)
        return ()


def _said(message: Mapping[str, Any]) -> str:
    from agent.slack.incoming import attached

    texts = [str(message.get("text") or ""), *attached(message)]
    text = words("\n".join(text for text in texts if text), "")[:_MESSAGE_CHARS]
    who = message.get("user") or message.get("bot_id") or "somebody"
    return f"{who}: {text}" if text else ""
