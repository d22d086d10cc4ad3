"""Compare this machine's clock with those that answer anyway: hosts, the model's endpoint, Slack."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from agent.surfaces.doctor_types import Check, warning
from tools.display import printable
from tools.facts_parse import clock_offset

MOST_S = 60.0
"""Seconds that clocks may differ: approvals expire, Slack refuses what is old, logs are ordered by them."""

MEND = "see which is wrong (`timedatectl`), and start systemd-timesyncd or chrony there"


def differs(seconds: float) -> str:
    """Return how far another clock is from ours, where that is too far; empty else."""
    if abs(seconds) <= MOST_S:
        return ""
    size = abs(seconds)
    amount = f"{size / 60:.0f} min" if size < 7200 else f"{size / 3600:.0f} h" if size < 172_800 else ""
    amount = amount or f"{size / 86_400:.0f} days"
    return f"its clock is {amount} {'ahead of' if seconds > 0 else 'behind'} this machine's"


def of_answer(who: str, headers: Mapping[str, str], asked: datetime) -> list[Check]:
    """Return what the ``Date`` of an answer tells of the clocks: nothing where they agree or it says none.

    ``asked`` is when the question was sent; the answer was written between that and now.
    """
    named = {name.lower(): value for name, value in headers.items()}
    if "date" not in named or "age" in named:  # one from a cache is old by right
        return []
    try:
        said = parsedate_to_datetime(named["date"])
        said = said if said.tzinfo is not None else said.replace(tzinfo=UTC)
        found = differs(clock_offset(said.timestamp(), asked.timestamp(), datetime.now(UTC).timestamp()))
    except (ValueError, OverflowError, TypeError):
        return []
    return [warning("clock", f"{printable(who)}: {found}", MEND)] if found else []
