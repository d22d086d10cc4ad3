"""Describe what a service did after each change that was tried on it: measured, or did not come up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from agent.events import Judged
from agent.state import Change, Level, Scalar
from evals.capture_journal import not_a_template
from evals.captured_host import HostRecord
from evals.settings_match import plain_setting, plain_value

_PASSES = re.compile(r'(?m)^(\S*cuda_graph_passes_total\{[^\n]*mode="decode_(\w+)"[^\n]*\}) \S+$')
_BY_GRAPH = "decode_steps_by_cuda_graph"


def rules(record: HostRecord, unit: str, found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a rule for each state that was tried, after that of the state it was tried in.

    ``found`` is the rule of the service as it was found; its counters become live where a trial tells how.
    """
    made: dict[str, dict[str, Any]] = {}
    for judged in record.judged:
        if record.changes[judged.change].unit == unit:
            before = [made[_name(one)] for one in record.in_force[judged.change][:-1] if _name(one) in made]
            _count_steps(record, judged.change, "baseline", found if not before else before[-1])
            made |= _measured(record, judged, found, {**found, **(before[-1] if before else {})})
    for change, said in record.failed.items():
        if record.changes[change].unit == unit:
            made[_name(change)] = {
                "when": _conditions(record, change),
                "exit": {"text": not_a_template("\n".join(said)), "code": 1},
            }
    return made


def _name(change: str) -> str:
    return f"with-{change.lower()}"


def _conditions(record: HostRecord, change: str) -> dict[str, Any]:
    """Return when a state that was tried is in force, by the process's own flags and variables."""
    made: dict[str, Any] = {}
    for name in record.in_force[change]:
        made |= _condition(record.changes[name])
    return made


def _condition(change: Change) -> dict[str, Any]:
    name = change.setting if change.setting.startswith("-") else f"${change.setting}"
    value = plain_value(change.to_value)
    if value is None or value is True:
        return {name: bool(value)}
    return {name: int(value) if isinstance(value, float) and value.is_integer() else change.to_value}


def _measured(
    record: HostRecord, judged: Judged, found: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the rule, by its name, for the state after a change that was measured."""
    after = [one for one in record.measured if one.change == judged.change and one.phase == "after"]
    levels = after[-1].measurement.levels if after else []
    steps = {level.concurrency: _step(level) for level in levels if level.throughput}
    if not steps:
        return {}
    rule: dict[str, Any] = {"when": _conditions(record, judged.change), "step_ms": {"at": steps}}
    powers = [level.power_w for level in levels if level.power_w]
    if powers and found.get("gpu"):
        rule["gpu"] = {**found["gpu"], "power_w": max(powers)}
    effective = judged.comparison.effective
    rule["answers"] = dict(before.get("answers", {}))
    for path, answer in rule["answers"].items():
        if isinstance(answer, dict) and effective is not None:
            rule["answers"][path] = _changed(answer, effective.name, effective.after)
    _count_steps(record, judged.change, "after", rule)
    return {_name(judged.change): rule if rule["answers"] else _without(rule, "answers")}


def _without(rule: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if key != name}


def _step(level: Level) -> float:
    """Return the milliseconds of a step from the decode speed of all requests together."""
    return round(1000.0 * level.concurrency / fmean(level.throughput), 3)


def _count_steps(record: HostRecord, change: str, phase: str, rule: dict[str, Any]) -> None:
    """Let the counter of decode steps grow that grew in a measurement: by CUDA graph, or without."""
    text = rule.get("answers", {}).get("/metrics")
    seen = [one.measurement.observed for one in record.measured if (one.change, one.phase) == (change, phase)]
    share = seen[-1].get(_BY_GRAPH) if seen else None
    if isinstance(text, str) and isinstance(share, int | float) and share in (0, 1):
        growing = "cuda_graph" if share else "none"
        rule["answers"]["/metrics"] = _PASSES.sub(
            lambda match: f"{match[1]} {'{step}' if match[2] == growing else '0'}", text
        )


def _changed(answer: Mapping[str, Any], name: str, value: Scalar) -> dict[str, Any]:
    """Return an answer in which a setting has another value, wherever it stands."""
    made = {key: value if plain_setting(key) == plain_setting(name) else item for key, item in answer.items()}
    inner = made.get("internal_states")
    if isinstance(inner, list):
        made["internal_states"] = [
            _changed(one, name, value) if isinstance(one, dict) else one for one in inner
        ]
    return made
