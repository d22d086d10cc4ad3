"""Read back what came before: the earlier messages of a Slack thread, and the events of an investigation."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from agent import threads
from agent.config import Settings
from agent.errors import LeadlineError
from agent.events import Event
from agent.slack.desk import Desk
from agent.slack.door import Door
from agent.slack.errors import SlackRefused
from agent.slack.incoming import Spoken
from agent.slack.store import Kept, Place
from agent.slack.text import escaped
from agent.slack.written import files, shortened, words, written

_MESSAGE_CHARS: Final = 2000
_CONTEXT_CHARS: Final = 24_000
"""Of all earlier messages together; the newest are kept, and the first."""

_PAGE: Final = 1000
_PAGES: Final = 5
"""Slack gives a thread from its beginning, so the newest messages stand on the last page."""

_log = logging.getLogger("leadline.slack")


async def messages_of(door: Door, place: Place) -> list[Mapping[str, Any]]:
    """Return the messages of a thread, oldest first; raise `SlackRefused`."""
    found: dict[str, Mapping[str, Any]] = {}
    cursor: dict[str, str] = {}
    for _ in range(_PAGES):
        answer = await door.look(
            "conversations.replies", channel=place.channel, ts=place.ts, limit=_PAGE, **cursor
        )
        page = answer.get("messages")
        found |= {str(one.get("ts")): one for one in page or [] if isinstance(one, dict)}
        following = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
        if not following:
            break
        cursor = {"cursor": following}
    return sorted(found.values(), key=lambda one: str(one.get("ts")))


async def context_of(desk: Desk, spoken: Spoken) -> str:
    """Return the messages of a thread before this one, without secrets: what others wrote is data."""
    most = desk.settings.slack.context_messages
    if not most:
        return ""
    try:
        found = await messages_of(desk.door, spoken.place)
    except SlackRefused as error:
        _log.warning("%s; the thread's earlier messages are not read", error)
        why = escaped(desk.door.clean.line(str(error), 300))
        with suppress(SlackRefused):
            await desk.door.say(
                spoken.place, f"I cannot read what was said here before ({why}). I go by your message alone."
            )
        return ""
    earlier = [one for one in found if str(one.get("ts")) < spoken.ts]
    return desk.door.clean.exact("\n".join(_shortened([_said(one) for one in earlier], most)))


def _shortened(lines: Sequence[str], most: int) -> list[str]:
    """Return the first message, which began it all, and as many of the newest as there is room for."""
    said = [line for line in lines if line]
    first, rest = said[:1], said[1:][-(most - 1) :] if most > 1 else []
    room = _CONTEXT_CHARS - sum(map(len, first))
    kept: list[str] = []
    for line in reversed(rest):
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    left = len(said) - len(first) - len(kept)
    return [*first, *([f"({left} messages between are left out)"] if left else []), *reversed(kept)]


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
    text = shortened(words(written(message), ""), _MESSAGE_CHARS)
    said = "\n".join(part for part in (text, files(message)) if part)
    who = message.get("user") or message.get("bot_id") or "somebody"
    return f"{who}: {said}" if said else ""
