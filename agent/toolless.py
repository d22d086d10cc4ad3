"""Tell a model that only talks from one that found nothing: without a tool call nothing was looked at."""

from __future__ import annotations

from agent.investigation import Investigation
from agent.models.faults import TAKE_TOOLS

WIRE = "openai:"
"""Begins the name of a model behind an endpoint."""

_SHOWN = 300


def without_tools(work: Investigation) -> str | None:
    """Return what to say of a model that has made no tool call at all; None for any other."""
    turns = [turn for number, turn in work.history.turns.items() if number > 0]
    if not work.model.name.startswith(WIRE) or not turns or any(turn.tool_calls for turn in turns):
        return None
    said = " ".join(turns[-1].text.split())
    cut = said if len(said) <= _SHOWN else f"{said[:_SHOWN]} ..."
    count = f"{len(turns)} turn{'s' if len(turns) > 1 else ''}"
    name = work.model.name.removeprefix(WIRE)
    return (
        f"{name} made no tool call in {count}, so it looked at nothing and what it says is a guess. "
        f"If it takes no tools: {TAKE_TOOLS}. It said: {cut or '(nothing)'}"
    )
