"""Measure a kept change again: is it in force, is its mechanism there, is its effect still what it was?"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agent.config import Settings
from agent.kept import Kept
from agent.measuring import arguments, levels_of, observed_of
from agent.ports import Observe
from agent.state import Level, LevelComparison, MechanismValue, Record, Scalar
from agent.verdicts import compare_level, value
from tools.artifacts import ArtifactStore
from tools.contract import Host, Redactor, Tool, ToolContext, ToolError
from tools.observe import Observation
from tools.service_standing import Holding

State = Literal["still_holds", "lapsed", "not_in_force", "unknown"]
"""``lapsed``: in force, but its effect or its mechanism is gone; ``unknown``: noise hides it."""


class LevelThenAndNow(Record):
    """Hold one concurrency before the change, after it, and now, in decode tok/s of all requests."""

    concurrency: int
    before: float | None
    after: float | None
    now: float | None
    against_before: LevelComparison = Field(description="Now over before: what is left of the effect.")
    against_after: LevelComparison = Field(description="Now over after: what changed since.")


class StillHolds(Record):
    """Say how a kept change stands today."""

    schema_version: int = 1
    change: str
    plan: str
    host: str
    unit: str
    setting: str
    value: str | None
    kept_at: str
    state: State
    why: str
    in_force: bool
    measured: bool = False
    mechanism: list[MechanismValue] = Field(default_factory=list, description="Before the change, and now.")
    levels: list[LevelThenAndNow] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


async def look_again(
    settings: Settings,
    kept: Kept,
    host: Host,
    holding: Holding,
    *,
    observe: Observe,
    tool: Tool[Any],
    redact: Redactor,
    progress: Callable[[str], None] = lambda text: None,
) -> StillHolds:
    """Return how a kept change stands, from what the host said, and by load where that is allowed."""
    seen = await observe(host, kept.plan.port)
    reasons = [*holding.reasons, *_overruled(kept, seen)]
    if reasons:
        return _report(kept, "not_in_force", "; ".join(reasons), holding, in_force=False)
    runs: list[dict[str, object]] = []
    after, notes = seen, list(holding.notes)
    if settings.tools.allow_load and "baseline" in kept.measured:
        runs, told = await _measured(settings, kept, host, seen, tool, redact, progress)
        notes += told
        after = await observe(host, kept.plan.port)
    else:
        notes.append(
            "not measured: load is not allowed (--allow-load)"
            if "baseline" in kept.measured
            else "not measured: nothing was measured when it was kept"
        )
    since = seen if runs else Observation()
    mechanism = _mechanism(kept, observed_of(kept.change, since, after, runs))
    levels = _levels(kept, levels_of(runs)) if runs else []
    state, why = _judged(kept, mechanism, levels)
    found = _report(kept, state, why, holding, in_force=True)
    return found.model_copy(
        update={"measured": bool(runs), "mechanism": mechanism, "levels": levels, "notes": notes}
    )


def _report(kept: Kept, state: State, why: str, holding: Holding, *, in_force: bool) -> StillHolds:
    return StillHolds(
        change=kept.ref,
        plan=kept.plan.id,
        host=kept.plan.host,
        unit=kept.plan.unit,
        setting=kept.plan.setting,
        value=kept.plan.to_value,
        kept_at=kept.kept_at.isoformat(timespec="seconds"),
        state=state,
        why=why,
        in_force=in_force,
        notes=list(holding.notes),
    )


def _overruled(kept: Kept, seen: Observation) -> list[str]:
    """Return what the engine itself says against the setting being in force."""
    effective = kept.judged.comparison.effective if kept.judged else None
    if effective is None or effective.name not in seen.settings:
        return []
    now = seen.settings[effective.name]
    if now == effective.after or str(now) == str(effective.after):
        return []
    return [f"the engine itself says {effective.name} is {now}, not {effective.after}"]


async def _measured(
    settings: Settings,
    kept: Kept,
    host: Host,
    seen: Observation,
    tool: Tool[Any],
    redact: Redactor,
    progress: Callable[[str], None],
) -> tuple[list[dict[str, object]], list[str]]:
    """Put the load of the trial on the server again: same prompts, same levels."""
    seed = kept.measured["baseline"].measurement.seed
    raw = {**arguments(kept.plan, seen, settings, seed), "control": False}
    raw["concurrency"] = [level.concurrency for level in kept.measured["baseline"].measurement.levels]
    with tempfile.TemporaryDirectory() as folder:
        store = ArtifactStore(Path(folder) / "artifacts")
        ctx = ToolContext("v1", {host.name: host}, store, redact, settings.tools, progress=progress)
        try:
            view = await tool.run(ctx, tool.args.model_validate(raw))
        except ToolError as error:
            return [], [f"not measured: {error}"]
        ref = next(ref for ref in ctx.kept if ref.handle == view["artifact"])
        figures = json.loads(store.get(ref.sha256))
    return figures["runs"], [str(note) for note in figures.get("notes", [])]


def _mechanism(kept: Kept, now: dict[str, Scalar]) -> list[MechanismValue]:
    moved = [item for item in kept.judged.comparison.mechanism if item.moved] if kept.judged else []
    return [value(item.name, item.before, now[item.name]) for item in moved if item.name in now]


def _levels(kept: Kept, now: list[Level]) -> list[LevelThenAndNow]:
    before = {level.concurrency: level for level in kept.measured["baseline"].measurement.levels}
    after_ = kept.measured.get("after")
    after = {level.concurrency: level for level in after_.measurement.levels} if after_ else {}
    rows = []
    for level in now:
        at, none = level.concurrency, Level(concurrency=level.concurrency, throughput=[])
        old, new = compare_level(before.get(at, none), level), compare_level(after.get(at, none), level)
        rows.append(
            LevelThenAndNow(
                concurrency=at,
                before=old.before,
                after=new.before,
                now=old.after,
                against_before=old,
                against_after=new,
            )
        )
    return rows


def _judged(kept: Kept, mechanism: list[MechanismValue], levels: list[LevelThenAndNow]) -> tuple[State, str]:
    gone = [item for item in mechanism if not item.moved]
    if gone and len(gone) == len(mechanism):
        return (
            "lapsed",
            f"in force, but its mechanism is gone: {gone[0].name} is {gone[0].after} as before it",
        )
    if not levels:
        seen = "its mechanism is there" if mechanism else "its mechanism cannot be seen"
        return "still_holds", f"in force; {seen}"
    gained = {
        level.concurrency
        for level in (kept.judged.comparison.levels if kept.judged else [])
        if level.verdict == "improved"
    }
    rows = [row for row in levels if row.concurrency in gained] or levels
    words = ", ".join(_words(row) for row in rows)
    verdicts = {row.against_before.verdict for row in rows}
    if verdicts & {"worse", "no_effect"}:
        return "lapsed", f"in force, but its gain is gone: {words}"
    if "inconclusive" in verdicts:
        return "unknown", f"in force, but the runs differ too much to tell: {words}"
    return "still_holds", f"in force, and the gain is there: {words}"


def _words(row: LevelThenAndNow) -> str:
    ratio = row.against_before.ratio
    then = row.after / row.before if row.after and row.before else None
    said = f"x{ratio:.2f} over before" if ratio is not None else "nothing completed"
    return f"{said} at concurrency {row.concurrency}" + (f" (x{then:.2f} when kept)" if then else "")
