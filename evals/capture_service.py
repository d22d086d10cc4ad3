"""Describe a service by what was measured of it: step times, prefill, power, log lines, what it answered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import Any, Final

from evals import capture_trials
from evals.capture_answers import answers
from evals.capture_journal import Entry, not_a_template
from evals.capture_units import Engine
from evals.captured_host import HostRecord

_LIVE: Final = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "{time:%Y-%m-%d %H:%M:%S}"),
    (r"\b\d\d-\d\d \d\d:\d\d:\d\d", "{time:%m-%d %H:%M:%S}"),
    (r"(gen(?:eration)? throughput(?: \(token/s\))?: )[\d.]+", r"\g<1>{tokens_s:.2f}"),
    (r"(prompt throughput: )[\d.]+", r"\g<1>{prompt_tokens_s:.1f}"),
    (r"(#queue-req: )\d+", r"\g<1>{waiting}"),
    (r"(Running: )\d+", r"\g<1>{running}"),
    (r"(Waiting: )\d+", r"\g<1>{waiting}"),
)
"""What in a line printed under load follows the load."""
_PERIODIC = re.compile(r"Decode batch|generation throughput: |Avg prompt throughput: ")
_COUNT = re.compile(r"#running-req: (\d+)")
_MEMORY = re.compile(r"\| +(\d+)MiB / +(\d+)MiB \|")
_OWN_METRICS = re.compile(
    r"num_(running|queue)_reqs|num_requests_(running|waiting)|gen_throughput|token_usage|kv_cache_usage"
)


@dataclass(slots=True)
class Described:
    """Hold a described service and what could not be told of it."""

    fields: dict[str, Any]
    missing: list[str] = field(default_factory=list)


def service(record: HostRecord, engine: Engine, lines: Sequence[Entry]) -> Described:
    """Return the description of one engine; without a measurement it refuses to make tokens."""
    made = Described({})
    measured = [one for _, one in record.benchmarks if one.get("port") == engine.port and one.get("runs")]
    first = measured[0] if measured else None
    rules: dict[str, Any] = {"recorded": _as_found(record, engine, first, made)}
    if first is not None and (single := _single(first)):
        rules["one-request"] = single
    trials = capture_trials.rules(record, engine.unit, rules["recorded"])
    if (log := _log(record, engine, lines, first)) and trials:
        # what it printed in another state was not recorded, and must not be what it printed in this one
        rules["recorded-log"] = {
            "when": {"all": [{"not": one["when"]} for one in trials.values()]},
            "log": log,
        }
        made.missing.append(f"the log lines of {engine.unit} under load after a change")
    elif log:
        rules["recorded-log"] = {"log": log}
    rules |= trials
    flags = set(word.partition("=")[0] for word in engine.argv)
    made.fields = {
        "api": engine.api,
        "model": not_a_template(str((first or {}).get("model") or _model(engine))),
        **({"version": engine.version} if engine.version else {}),
        "port": "--port" if "--port" in flags and f"{engine.port}" in engine.argv else engine.port,
        **({"program": engine.program} if engine.program else {}),
        "noise": 0.02,
        "rules": rules,
    }
    return made


def _model(engine: Engine) -> str:
    words = dict(zip(engine.argv, engine.argv[1:], strict=False))
    named = (
        words.get("--served-model-name") or words.get("--model-path") or words.get("--model") or "recorded"
    )
    return named if words.get("--served-model-name") else named.rstrip("/").rpartition("/")[2] or "recorded"


def _as_found(
    record: HostRecord, engine: Engine, first: dict[str, Any] | None, made: Described
) -> dict[str, Any]:
    """Return the rule that always holds: the service as it was found."""
    rule: dict[str, Any] = {}
    if first is None:
        made.missing.append(f"the speed of {engine.unit}: no benchmark was run, so it answers no request")
        rule["refuse"] = {"status": 503, "message": "not recorded: no benchmark was run on this host"}
    else:
        rule |= _pace(first, engine)
    gpu = _gpu(record, first)
    rule |= {"gpu": gpu} if gpu else {}
    told = answers(record, engine.port)
    series = {name: value for name, value in _series(first).items() if "/metrics" not in told}
    rule |= {"answers": told} if told else {}
    rule |= {"metrics": series} if series else {}
    return rule


def _levels(benchmark: Mapping[str, Any], name: str) -> dict[int, float]:
    """Return a figure of every level that was completed: the mean over its runs."""
    found: dict[int, list[float]] = {}
    for run in benchmark["runs"]:
        value = run.get(name)
        if isinstance(value, int | float) and value > 0 and run.get("completed"):
            found.setdefault(int(run["concurrency"]), []).append(float(value))
    return {level: round(fmean(values), 3) for level, values in sorted(found.items())}


def _pace(benchmark: Mapping[str, Any], engine: Engine) -> dict[str, Any]:
    steps, waits = _levels(benchmark, "mean_tpot_ms"), _levels(benchmark, "mean_ttft_ms")
    rule: dict[str, Any] = {"step_ms": {"at": steps}} if steps else {}
    prompt = (benchmark.get("arguments") or {}).get("input_tokens")
    if waits and steps and isinstance(prompt, int):
        level = min(waits)
        left = max(waits[level] - steps.get(level, 0.0), 1.0)  # the first token takes a step as well
        rule["prefill"] = {"tokens_s": round(1000.0 * prompt / left, 1)}
    return rule


def _power(benchmark: Mapping[str, Any], level: int) -> dict[str, float]:
    """Return power and utilisation of a GPU at one level."""
    rows = [run.get("gpu") or {} for run in benchmark["runs"] if run["concurrency"] == level]
    names = {"power_w": "power_w_mean", "utilization": "utilization_mean"}
    found = {
        key: [row[name] for row in rows if isinstance(row.get(name), int | float)]
        for key, name in names.items()
    }
    return {key: round(fmean(values), 1) for key, values in found.items() if values}


def _gpu(record: HostRecord, first: Mapping[str, Any] | None) -> dict[str, Any] | None:
    held = [(int(used), int(size)) for used, size in _MEMORY.findall(record.facts.text("gpu_header"))]
    used = [mib for mib, size in held if mib > size * 0.03]
    if not used:
        return None
    gpu: dict[str, Any] = {"count": len(used), "memory_mib": round(median(used))}
    return gpu | (_power(first, max(int(run["concurrency"]) for run in first["runs"])) if first else {})


def _single(first: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the GPUs show at one request, where more were measured as well."""
    levels = {int(run["concurrency"]) for run in first["runs"]}
    shown = _power(first, 1)
    if 1 not in levels or len(levels) == 1 or not shown:
        return None
    return {"when": {"running": {"le": 1}}, "gpu": shown}


def _log(
    record: HostRecord, engine: Engine, lines: Sequence[Entry], first: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the line that the engine prints while it works, as its newest one under our own load reads."""
    live = [
        line
        for line in lines
        if line.at >= record.zero and line.pid == engine.pid and _PERIODIC.search(line.text)
    ]
    if first is None or not live:
        return []
    text = not_a_template(live[-1].text)
    for pattern, template in _LIVE:
        text = re.sub(pattern, template, text)
    most = max((int(count) for line in live for count in _COUNT.findall(line.text)), default=0)
    if most > 1 and most >= max(int(run["concurrency"]) for run in first["runs"]) * 0.75:
        text = _COUNT.sub("#running-req: {running}", text)
    gaps = [b.at - a.at for a, b in pairwise(live) if 0 < b.at - a.at < 20]
    return [{"text": text, "every_s": max(0.5, round(fmean(gaps), 1)) if gaps else 2.0}]


def _series(first: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the server's gauges as they stood under load, but those that the lab makes itself."""
    rows = [run.get("server") or {} for run in (first or {}).get("runs", ())]
    return {
        name: float(value)
        for row in rows
        for name, value in row.items()
        if isinstance(value, int | float) and not _OWN_METRICS.search(name)
    }
