"""Say no to somebody, politely and once in a thread, and write it down in the audit."""

from __future__ import annotations

import logging

from agent.audit import audit_of
from agent.roles import Person
from agent.slack.desk import Desk
from agent.slack.errors import SlackRefused
from agent.slack.incoming import Spoken
from agent.slack.text import escaped
from tools.display import printable

_log = logging.getLogger("leadline.slack")


async def refuse(desk: Desk, spoken: Spoken, person: Person, why: str) -> None:
    """Refuse somebody who wants to start or steer an investigation; decisions on plans are told elsewhere."""
    by = f"start or steer an investigation, by {person.label()} ({':'.join(person.key)})"
    audit = audit_of(desk.settings)
    audit.record("call_refused", what=printable(by), outcome="refused", detail=printable(why))
    _log.info("refused to %s (channel %s): %s", person.label(), spoken.place.channel, why)
    if not desk.store.first(f"refused:{spoken.place.channel}:{spoken.place.ts}:{person.user}"):
        return
    text = escaped(desk.door.clean.line(f"Sorry, I cannot do that for you: {why}."))
    try:
        await desk.door.whisper(spoken.place, spoken.user, text)
    except SlackRefused as error:
        _log.warning("%s", error)
