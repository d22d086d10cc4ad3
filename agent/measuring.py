"""What a trial measures and how it reads its figures: arguments, repeats, mechanism values, outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any, Final

from agent.config import Settings
from agent.outputs import Outputs
from agent.state import Change, Comparison, Level, Measurement, Scalar
from agent.verdicts import effective_name
from tools.observe import Observation
from tools.service_types import ChangePlan

MEASURE: Final = "benchmark"
"""The tool that measures."""

REUSED_FOR = timedelta(minutes=30)
"""A measurement of the same state is a baseline for so long."""

_AT_ONCE = 8


def arguments(plan: ChangePlan, seen: Observation, settings: Settings, seed: int) -> dict[str, Any]:
    """Return the arguments of the measuring tool: alone, and as many at once as the pipeline has slots."""
    return {
        "host": plan.host,
        "port": plan.port,
        "concurrency": _levels(seen),
        "requests": settings.experiment_requests,
        "max_tokens": settings.experiment_tokens,
        "repeats": settings.experiment_repeats,
        "spread": settings.experiment_spread,
        "max_repeats": settings.experiment_max_repeats,
        "warmup": 1,
        "control": True,
        "seed": seed,
        "allow_busy": settings.tools.allow_in_flight,
    }


def _levels(seen: Observation) -> list[int]:
    slots = seen.settings.get("pp_size")
    return [1, slots if isinstance(slots, int) and 1 < slots <= 64 else _AT_ONCE]


def reusable(found: Measurement, seen: Observation, settings: Settings) -> bool:
    """Tell whether an earlier measurement is of the state that the server is in now."""
    fresh = datetime.now(UTC) - found.taken_at < REUSED_FOR
    same = bool(found.state) and found.state == seen.fingerprint
    whole = [level.concurrency for level in found.levels] == _levels(seen) and all(
        len(level.throughput) >= settings.experiment_repeats for level in found.levels
    )
    return fresh and same and whole


def levels_of(runs: Sequence[Mapping[str, Any]]) -> list[Level]:
    """Return the repeats of each concurrency, in the order they ran."""
    levels: list[Level] = []
    for concurrency in dict.fromkeys(int(run["concurrency"]) for run in runs):
        mine = [run for run in runs if run["concurrency"] == concurrency]
        watts = _numbers([run.get("gpu") or {} for run in mine], "power_w_mean")
        levels.append(
            Level(
                concurrency=concurrency,
                throughput=[round(concurrency * one, 4) for one in _numbers(mine, "tok_s_per_request")],
                total=_numbers(mine, "output_throughput"),
                errors=sum(int(run.get("errors") or 0) for run in mine),
                power_w=round(fmean(watts), 1) if watts else None,
            )
        )
    return levels


def _numbers(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [float(row[name]) for row in rows if isinstance(row.get(name), int | float)]


def observed_of(
    change: Change, before: Observation, after: Observation, runs: Sequence[Mapping[str, Any]]
) -> dict[str, Scalar]:
    """Return the values beside a measurement that can show a mechanism; what is not told is left out."""
    found: dict[str, Scalar] = {}
    gauges = _numbers([run.get("server") or {} for run in runs], "sglang:is_cuda_graph")
    if gauges:
        found["sglang:is_cuda_graph"] = max(gauges)
    if (share := _graph_share(before, after)) is not None:
        found["decode_steps_by_cuda_graph"] = share
    if after.graph_memory_gib is not None:
        found["memory_usage.graph"] = after.graph_memory_gib
    watts = _numbers([run.get("gpu") or {} for run in runs], "power_w_mean")
    if watts:
        found["gpu_power_w"] = round(max(watts), 1)
    name = effective_name(change.setting)
    if name is not None and name in after.settings:
        value = after.settings[name]
        found[name] = value if value is None or isinstance(value, bool | int | float | str) else str(value)
    return found


def _graph_share(before: Observation, after: Observation) -> float | None:
    """Return the share of decode steps in between that ran by CUDA graph."""
    grown = {mode: count - before.passes.get(mode, 0.0) for mode, count in after.passes.items()}
    steps = sum(grown.values())
    return round(grown.get("decode_cuda_graph", 0.0) / steps, 4) if steps > 0 else None


def outputs_of(figures: bytes) -> Outputs:
    """Return the digest of each greedy output, by its prompt, and of those that were made twice."""
    whole = json.loads(figures)
    sides = (whole.get(name) or {} for name in ("outputs", "outputs_again"))
    return Outputs(*({str(key): str(digest) for key, digest in side.items()} for side in sides))


def known_cautions(setting: str) -> list[str]:
    """Return the cautions of the playbooks that would change a setting."""
    from prompts.playbooks import load_all

    books = [book for book in load_all() if book.change is not None and book.change.setting == setting]
    return [caution for book in books for caution in book.cautions]


def comparison_text(change: Change, before: Measurement, after: Measurement, found: Comparison) -> bytes:
    """Return a comparison as JSON with one key a line, each key once, so that a claim can quote one."""
    flat: dict[str, Any] = {"change": change.id, "setting": change.setting}
    for level in found.levels:
        at = level.concurrency
        flat |= {
            f"before_tok_s_at_{at}": level.before,
            f"after_tok_s_at_{at}": level.after,
            f"ratio_at_{at}": level.ratio,
            f"ratio_low_at_{at}": level.low,
            f"ratio_high_at_{at}": level.high,
            f"verdict_at_{at}": level.verdict,
        }
    names = [name for name in before.observed if name in after.observed]
    for name in names:
        flat |= {f"before_{name}": before.observed[name], f"after_{name}": after.observed[name]}
    for one in found.outputs:
        at = one.concurrency
        flat |= {
            f"outputs_equal_at_{at}": one.equal,
            f"outputs_repeated_at_{at}": one.repeated,
            f"outputs_not_reproduced_at_{at}": one.unlike,
        }
    flat |= {
        "mechanism_moved": found.mechanism_moved,
        "outputs_state": found.outputs_state,
        "outputs_equal": found.outputs_equal,
        "outputs_compared": found.outputs_compared,
        "outputs_different": found.outputs_different,
        "verdict": found.verdict,
        "kept": found.kept,
        "before": before.artifact,
        "after": after.artifact,
    }
    return json.dumps(flat, indent=1, ensure_ascii=False).encode() + b"\n"
