"""What a model is told of a trial: the result of ``propose_change`` in mode ``apply`` (docs/changes.md)."""

from __future__ import annotations

from typing import Any, Literal

from agent.state import Change, Comparison
from agent.trials import Trial
from tools.service_types import ChangeStatus as Standing

Result = Literal["kept", "rolled_back", "denied", "not_applied", "needs_person"]
"""How a trial ended."""


def trial_view(
    change: Change, trial: Trial | None, result: Result, standing: Standing, failed: str, notes: list[str]
) -> dict[str, Any]:
    """Return the whole result; every key is there whatever happened."""
    judged = trial.judged if trial else None
    found = judged.comparison if judged else None
    return {
        "change": change.id,
        "host": change.host,
        "unit": change.unit,
        "setting": change.setting,
        "from_value": change.from_value,
        "to_value": change.to_value,
        "status": change.status,
        "result": result,
        "why": _why(result, standing, failed, found),
        "verdict": found.verdict if found else None,
        "comparison": [_level(found, place) for place in range(len(found.levels))] if found else [],
        "mechanism": _mechanism(found),
        "outputs": _outputs(found),
        "prediction": {"said": change.predicted_effect, "measured": judged.measured if judged else None},
        "instructions": change.instructions,
        "artifacts": {
            "before": _handle(trial, "baseline"),
            "after": _handle(trial, "after"),
            "comparison": judged.artifact.handle if judged else None,
        },
        "notes": [*_doubts(found), *notes, *standing.lines[-8:]],
    }


def _why(result: Result, standing: Standing, failed: str, found: Comparison | None) -> str:
    if result == "kept" and found:
        return found.why
    if result == "rolled_back":
        if standing.rolled_back_by in ("timer", "readiness") or found is None or failed:
            said = failed or standing.reason or standing.detail
            by = {
                "timer": "its rollback timer fired before it was confirmed",
                "readiness": "it did not come up",
            }
            head = by.get(standing.rolled_back_by, "it was rolled back")
            return f"{head}; the old state is back: {said}"
        return f"{found.why}; the old state is back"
    parts = [standing.reason or standing.detail, failed if result == "needs_person" else ""]
    return "; ".join(part for part in parts if part)


def _level(found: Comparison, place: int) -> dict[str, Any]:
    level = found.levels[place]
    interval = [level.low, level.high] if level.low is not None and level.high is not None else None
    row: dict[str, Any] = {
        "concurrency": level.concurrency,
        "before": level.before,
        "after": level.after,
        "ratio": level.ratio,
        "interval": interval,
        "verdict": level.verdict,
        "repeats": level.repeats,
    }
    return {**row, "why": level.why} if level.why else row


def _mechanism(found: Comparison | None) -> dict[str, Any]:
    if found is None:
        return {"observable": False, "moved": None, "values": [], "effective": None, "says": "not measured"}
    return {
        "observable": found.mechanism_moved is not None,
        "moved": found.mechanism_moved,
        "values": [item.model_dump() for item in found.mechanism],
        "effective": found.effective.model_dump() if found.effective else None,
        "says": found.mechanism_says,
    }


def _outputs(found: Comparison | None) -> dict[str, Any]:
    if found is None:
        return {
            "equal": None,
            "state": None,
            "compared": 0,
            "different": 0,
            "levels": [],
            "says": "not measured",
        }
    return {
        "equal": found.outputs_equal,
        "state": found.outputs_state,
        "compared": found.outputs_compared,
        "different": found.outputs_different,
        "levels": [level.model_dump(exclude_defaults=True) for level in found.outputs],
        "says": found.outputs_says,
    }


def _doubts(found: Comparison | None) -> list[str]:
    """Return what must not be overlooked of outputs that could not be compared."""
    doubtful = found is not None and found.outputs_state in ("not_comparable", "equality_open")
    return [found.outputs_says] if found is not None and doubtful else []


def _handle(trial: Trial | None, phase: Literal["baseline", "after"]) -> str | None:
    measured = trial.measured.get(phase) if trial else None
    return measured.artifact.handle if measured else None
