"""Tell whoever edits or deletes a message that it was heard as it first stood: nothing is unsaid here."""

from __future__ import annotations

import logging
from typing import Final

from agent.slack.desk import Desk
from agent.slack.errors import SlackRefused
from agent.slack.incoming import Revised

EDITED: Final = "I took that message as it first stood. Write what you changed as a new message."
DELETED: Final = (
    "I heard that message before you deleted it, and it stays in the record. `stop` ends the work."
)

_log = logging.getLogger("leadline.slack")


async def tell(desk: Desk, revised: Revised) -> None:
    """Tell it to the person alone, where the message was one that counted."""
    if not desk.store.first(f"event:{revised.delivery}"):
        return
    kept = desk.store.get(revised.place)
    if kept is None or not desk.store.heard(revised.name):
        return
    person = await desk.access.person(revised.team, revised.user)
    if await desk.access.refusal(person, revised.place.channel, starts=False) is not None:
        return
    try:
        await desk.door.whisper(revised.place, revised.user, DELETED if revised.deleted else EDITED)
    except SlackRefused as error:
        _log.warning("%s", error)
