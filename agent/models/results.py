"""What became of proposed changes that were tried: kept, rolled back, denied, and the figures of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent.models.views import Quote, View, rows


def tried(results: Sequence[View]) -> list[View]:
    """Return the results of changes that a host saw; a proposal alone has no result."""
    return [view for view in results if view.get("result")]


def outcome_of(results: Sequence[View]) -> str | None:
    """Return the outcome that tried changes ask for; None when nothing was tried."""
    ended = {str(view.get("result")) for view in tried(results)}
    if "needs_person" in ended:
        return "needs_person"
    if "kept" in ended:
        return "fixed"
    return "diagnosed" if ended else None


def sentences(results: Sequence[View]) -> list[str]:
    """Say in a sentence each what became of the changes."""
    return [_sentence(view) for view in tried(results)]


def not_kept(results: Sequence[View]) -> list[str]:
    """Name the settings whose change was tried or asked for and is not in force."""
    return [str(view.get("setting")) for view in tried(results) if view.get("result") != "kept"]


def in_part(results: Sequence[View]) -> Iterator[str]:
    """Say which changes are kept and which are not, where some are and some are not."""
    kept = [str(view.get("setting")) for view in tried(results) if view.get("result") == "kept"]
    left = [view for view in tried(results) if view.get("result") != "kept"]
    if kept and left:
        before = (f"{view.get('setting')} ({str(view.get('result')).replace('_', ' ')})" for view in left)
        verb = "is" if len(kept) == 1 else "are"
        yield (
            f"Of {len(kept) + len(left)} changes {len(kept)} {verb} kept: {', '.join(kept)}. "
            f"As before: {', '.join(before)}."
        )


def next_step(results: Sequence[View]) -> str:
    """Say what a person should do after the trials."""
    ended = {str(view.get("result")) for view in tried(results)}
    if "needs_person" in ended:
        return (
            "Look at the host now: how it stands is not known. The change's result says what was seen last."
        )
    left = ", ".join(not_kept(results))
    left = f" Not kept: {left}; the reasons stand with the changes." if left else ""
    if "kept" in ended:
        return (
            f"Watch the server under the load that is really served; each change says how to undo it.{left}"
        )
    return f"Nothing was kept.{left} Decide with the reasons at hand whether to try again."


def _sentence(view: View) -> str:
    setting = f"{view.get('change')} ({view.get('setting')} {view.get('to_value') or 'left out'})"
    figures = [
        f"{row['before']:.4g} -> {row['after']:.4g} tok/s at concurrency {row['concurrency']}"
        for row in rows(view, "comparison")
        if isinstance(row.get("before"), int | float) and isinstance(row.get("after"), int | float)
    ]
    measured = f" {'; '.join(figures)}." if figures else ""
    return f"{setting} {str(view.get('result')).replace('_', ' ')}: {view.get('why')}.{measured}"


def claims_of(results: Sequence[View]) -> Iterator[dict[str, Any]]:
    """Claim the ratio of every measured level, computed again from the two figures."""
    for view in tried(results):
        artifacts = view.get("artifacts") or {}
        handle = artifacts.get("comparison") if isinstance(artifacts, dict) else None
        for row in rows(view, "comparison") if handle else []:
            before, after = row.get("before"), row.get("after")
            if isinstance(before, int | float) and isinstance(after, int | float) and before > 0:
                yield _ratio(view, str(handle), int(row["concurrency"]), float(before), float(after))


def _ratio(view: View, handle: str, concurrency: int, before: float, after: float) -> dict[str, Any]:
    numbers = {
        name: {
            "cite": Quote(handle, f'"{key}_tok_s_at_{concurrency}": {value}').cite(),
            "pattern": rf'"{key}_tok_s_at_{concurrency}": ([0-9.]+)',
        }
        for name, key, value in (("a", "after", after), ("b", "before", before))
    }
    return {
        "type": "measurement",
        "says": f"With {view.get('change')} the throughput at concurrency {concurrency} is "
        f"{after / before:.3g} x what it was before.",
        "value": after / before,
        "unit": "x",
        "expression": "a / b",
        "numbers": numbers,
    }
