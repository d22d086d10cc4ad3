"""Write down in the audit who was refused something in Slack; decisions on plans are told elsewhere."""

from __future__ import annotations

from agent.audit import audit_of
from agent.config import Settings
from agent.roles import Person
from tools.display import printable


def refused_to(settings: Settings, person: Person, what: str, why: str) -> None:
    """Record that somebody was refused."""
    by = printable(f"{what}, by {person.label()} ({':'.join(person.key)})")
    audit_of(settings).record("call_refused", what=by, outcome="refused", detail=printable(why))
