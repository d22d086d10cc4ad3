"""The case file names what lies on the host afterwards, and how it goes away."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agent.case_left import left
from agent.events import ActionFinished, ActionStarted, Event, PlanMade, ToolFinished

AT = datetime(2026, 3, 1, tzinfo=UTC)
ID = "20260301t120000-a1b2c3"
DROPIN = f"/etc/systemd/system/sglang.service.d/90-leadline-{ID}.conf"
COMMON: dict[str, Any] = {"at": AT, "seq": 1, "turn": 1}


def story(*outcomes: str | None, **plan: Any) -> list[Event]:
    """Return the events of one change; None is a step without an end."""
    whole = {"id": ID, "host": "gpu1", "dropin_path": DROPIN, **plan}
    events: list[Event] = [
        PlanMade.model_validate(COMMON | {"change": "C1", "tool_call_id": "t", "plan": whole, "digest": "d"})
    ]
    for number, outcome in enumerate(outcomes, start=1):
        step = {"action": f"C1.{number}", "change": "C1", "step": "apply"}
        events.append(ActionStarted.model_validate(COMMON | step | {"digest": "d"}))
        if outcome is not None:
            events.append(ActionFinished.model_validate(COMMON | step | {"outcome": outcome}))
    return events


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (story(), []),
        (story("none"), []),
        (story("applied", "rolled_back"), ["/run/leadline/"]),
        (story("applied", "confirmed"), [f"{DROPIN}, the kept change C1", "/run/leadline/"]),
        (story("applied", "confirmed", undoes="20260201t120000-a1b2c3"), ["/run/leadline/"]),
        (story("applied"), ["perhaps /etc/systemd/system/", "/run/leadline/"]),
        (story("applied", None), ["perhaps /etc/systemd/system/", "/run/leadline/"]),
        (story("failed"), ["perhaps /etc/systemd/system/", "/run/leadline/"]),
    ],
)
def test_what_a_change_leaves(events: list[Event], says: list[str]) -> None:
    rows = left(events)
    assert [row.host for row in rows] == ["gpu1"] * len(says)
    for row, start in zip(rows, says, strict=True):
        assert row.what.startswith(start) and row.remove.startswith("leadline ")
    kept = [row.remove for row in rows if "kept change" in row.what]
    assert kept in ([], [f"leadline undo {ID}"])


def test_a_sent_rg_is_named_once() -> None:
    sent = "a static rg was put at /tmp/leadline-0/rg-1 on this host, as the settings allow"
    ended = {"call": "t1", "tool_call_id": "x", "tool": "grep", "status": "ok"}
    event = ToolFinished.model_validate(COMMON | ended | {"view": json.dumps({"host": "gpu1", "sent": sent})})
    [row] = left([event, event])
    assert row.what == "/tmp/leadline-0/rg-1, a static rg that was sent"
    assert (row.host, row.remove) == ("gpu1", "leadline host clean gpu1")
