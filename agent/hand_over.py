"""Give a change as instructions for a person, where `facts` saw that no unit starts the engine."""

from __future__ import annotations

import json
from typing import Any

from agent.events import ChangeMoved
from agent.hypotheses import Step
from agent.investigation import Investigation
from agent.state import Change
from tools.display import printable
from tools.launch_manual import manual_steps

WHY = "no unit that can be changed here starts this engine; a person has to make the change, as the steps say"


def instructions(work: Investigation, change: Change) -> list[str]:
    """Return the steps for a person; empty where a unit starts the engine, or nothing is known of it."""
    rows = engines_of(work, change.host)
    if any(row.get("unit") == change.unit and not _contained(row) for row in rows):
        return []
    loose = [row for row in rows if isinstance(row.get("started"), dict)]
    named = [row for row in loose if row.get("unit") == change.unit] or loose
    if not named:
        return []
    steps = manual_steps(named[0], change.setting, change.from_value, change.to_value)
    return [printable(step) for step in steps]


def handed_over(work: Investigation, step: Step) -> Step:
    """Return what a `propose_change` call adds, with the steps for a person where one has to do it."""
    moved = step.events[0]
    if not isinstance(moved, ChangeMoved) or not (steps := instructions(work, moved.change)):
        return step
    change = moved.change.model_copy(update={"instructions": steps})
    return Step([moved.model_copy(update={"change": change})], {**step.view, "instructions": steps})


def engines_of(work: Investigation, host: str) -> list[dict[str, Any]]:
    """Return the engines as `facts` last saw them on a host."""
    for event in reversed(work.history.finished.values()):
        if event.tool == "facts" and event.host == host and (rows := _engines(event.view)):
            return rows
    return []


def _engines(view: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(view).get("engines")
    except (ValueError, AttributeError):
        return []  # a view that was cut
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _contained(row: dict[str, Any]) -> bool:
    started = row.get("started")
    return isinstance(started, dict) and started.get("kind") == "container"
