"""Say where looks at hosts are kept between investigations, and what one look at one host finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent.config import Settings
from tools.contract import Host, Redactor, ToolContext, ToolError
from tools.facts_flat import Flat, looked
from tools.history_store import STORE, HistoryStore


def history_of(settings: Settings, redact: Redactor) -> HistoryStore:
    """Return the store of what hosts were like; it lies in the state folder, readable by its owner alone."""
    return HistoryStore(settings.state_dir / "fact-history", redact)


@dataclass(slots=True)
class Seen:
    """Hold what one look at a host found, or why there was none."""

    host: str
    view: dict[str, Any] = field(default_factory=dict)
    flat: Flat = field(default_factory=dict)
    problem: str = ""
    changed: list[str] = field(default_factory=list)
    """What differs from the look before, a line each."""
    before: str = ""
    """When the look before was, empty where there was none."""


async def look(host: Host, ctx: ToolContext) -> Seen:
    """Read the facts of a host and ask its engines; the look is kept, and compared with the one before."""
    from tools import engine_state, facts
    from tools.history_diff import changes, folded_gone, gone_subjects

    store: HistoryStore | None = ctx.cache.get(STORE)
    past = store.past(host.name, host.key_fingerprint) if store else None
    last = past.states[-1] if past and past.states else None
    seen = Seen(host.name)
    try:
        seen.view = await facts.run(ctx, facts.Args(host=host.name))
    except ToolError as error:
        seen.problem = str(error)
        return seen
    seen.flat = dict(ctx.cache[looked(host.name)].facts)
    try:
        state = await engine_state.run(ctx, engine_state.Args(host=host.name))
        seen.view["engine_state"] = state["engines"]
        seen.flat |= ctx.cache[looked(f"the engines of {host.name}")].facts
    except ToolError:
        pass  # no engine runs there, which the facts say
    if last is not None:
        seen.before = last.last.isoformat(timespec="seconds")
        gone = gone_subjects(last.facts, seen.flat)
        seen.changed = [f"{name} no longer runs" for name in gone]
        found = folded_gone(changes(last.facts, seen.flat), gone)
        seen.changed += [one.says() for one in found]
    if past is not None:
        seen.view["history_problems"] = past.problems
    return seen
