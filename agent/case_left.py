"""Tell what an investigation left on its hosts: kept drop-ins, states of changes, a sent rg."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.events import ActionFinished, ActionStarted, Event, PlanMade, ToolFinished
from agent.state import Record

_SENT = re.compile(r'"a static rg was put at ([^" ]+) on this host')


class LeftRow(Record):
    """One thing that was left on a host, and how it goes away."""

    host: str
    what: str
    remove: str


@dataclass(slots=True)
class _Step:
    plan: PlanMade
    outcome: str = ""


def left(events: Sequence[Event]) -> list[LeftRow]:
    """Return what was left, as far as the transcript knows; the host itself is asked by ``host clean``."""
    rows: list[LeftRow] = []
    begun: dict[str, _Step] = {}
    made: dict[str, PlanMade] = {}
    for event in events:
        if isinstance(event, PlanMade):
            made[event.digest] = event
        elif isinstance(event, ActionStarted) and event.digest in made:
            begun.setdefault(event.change, _Step(made[event.digest])).plan = made[event.digest]
            begun[event.change].outcome = ""
        elif isinstance(event, ActionFinished) and event.change in begun:
            begun[event.change].outcome = event.outcome
        elif isinstance(event, ToolFinished) and (sent := _SENT.search(event.view)):
            told = re.search(r'"host": ?"([^"]+)"', event.view)
            row = _rg(event.host or (told[1] if told else ""), sent[1])
            rows += [row] if row not in rows else []
    return rows + [row for step in begun.values() for row in _of_change(step)]


def _rg(host: str, path: str) -> LeftRow:
    return LeftRow(host=host, what=f"{path}, a static rg that was sent", remove=_clean(host))


def _clean(host: str) -> str:
    return f"leadline host clean {host or 'HOST'}"


def _of_change(step: _Step) -> list[LeftRow]:
    plan = step.plan.plan
    host, name = str(plan.get("host") or ""), str(plan.get("id") or "")
    dropin = str(plan.get("dropin_path") or "")
    state = LeftRow(
        host=host,
        what=f"/run/leadline/{name}, the state of {step.plan.change}; a restart of the host removes it",
        remove=_clean(host),
    )
    if step.outcome == "none":
        return []
    if step.outcome == "rolled_back" or (step.outcome == "confirmed" and plan.get("undoes")):
        return [state]
    if step.outcome == "confirmed":
        kept = LeftRow(
            host=host, what=f"{dropin}, the kept change {step.plan.change}", remove=f"leadline undo {name}"
        )
        return [kept, state]
    open_ = (
        f"perhaps {dropin}, and its rollback timer: how {step.plan.change} stands was not known at the end"
    )
    return [LeftRow(host=host, what=open_, remove=f"{_clean(host)} --dry-run says what is there"), state]
