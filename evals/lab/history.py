"""Write out a scenario's recorded journal: times become absolute, load becomes its decode lines."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.lab import cost_model
from evals.lab.engine_facts import Cost
from evals.lab.engine_facts import Scenario as Facts
from evals.lab.scenario import Line, Load, Scenario, span
from evals.lab.simulator_log import decode_line

_STEPS_A_LINE = 40
"""The engine logs every so many forward steps of a stage."""
_LINE_GAP_S = 0.004
"""Lines of one text follow each other at this distance."""


def boots(scenario: Scenario) -> list[str]:
    """Return a stable id for each boot, from the oldest to the current."""
    return [uuid.uuid5(uuid.NAMESPACE_OID, f"{scenario.name} {boot.start}").hex for boot in scenario.boots]


def entries(scenario: Scenario, package_dir: str, now: float) -> list[dict[str, Any]]:
    """Return the recorded lines as the journal's entries, as if the lab had started at ``now``."""
    facts = Facts.from_json(scenario.facts(package_dir=package_dir))
    site = str(Path(package_dir).parent)
    draw = random.Random(facts.noise.seed)
    rows: list[dict[str, Any]] = []
    for line in scenario.history.values():
        start = now + span(line.at)
        made = _load_lines(line.load, facts, draw) if line.load else _text_lines(line)
        for offset, text in made:
            at = start + offset
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
            rows.append(_row(scenario, line, at, text.replace("{time}", stamp).replace("{site}", site), now))
    return rows


def _row(scenario: Scenario, line: Line, at: float, text: str, now: float) -> dict[str, Any]:
    ids = boots(scenario)
    index = max((i for i, boot in enumerate(scenario.boots) if now + span(boot.start) <= at), default=0)
    return {
        "at": int(at * 1e6),
        "boot": ids[index],
        "text": text,
        "unit": line.unit,
        "ident": "kernel" if line.kernel else line.ident,
        "pid": line.pid,
        "priority": line.priority,
        "transport": "kernel" if line.kernel else "stdout",
    }


def _text_lines(line: Line) -> Iterator[tuple[float, str]]:
    lines = [text for text in line.text.split("\n") if text]  # journald drops empty ones
    for number, text in enumerate(lines):
        yield number * _LINE_GAP_S, text


def batches(load: Load) -> list[int]:
    """Return the requests of each micro-batch that is in flight under a load."""
    full, rest = divmod(load.concurrency, load.micro_batch)
    return [load.micro_batch] * full + ([rest] if rest else [])


def rate(cost: Cost, load: Load) -> float:
    """Return tokens a second of all requests together, noise left out."""
    plan = cost_model.Plan(stages=load.stages, depth=load.depth, graph_batch=256 if load.graphs else 0)
    return cost_model.tokens_per_second(cost, plan, batches(load))


def _load_lines(load: Load, facts: Facts, draw: random.Random) -> Iterator[tuple[float, str]]:
    """Yield the decode lines of a load: requests of 512 tokens after a prompt of 128, one after another."""
    speed = rate(facts.cost, load)
    running = batches(load)[0]
    at, step = 2.0, 0
    while at < load.minutes * 60:
        seen = speed * (1 + draw.gauss(0, facts.noise.relative))
        tokens_each = 128 + step * _STEPS_A_LINE // len(batches(load)) % 512
        tokens = tokens_each * load.concurrency
        yield (
            at,
            "[{time} PP0] "
            + decode_line(
                running=running,
                tokens=tokens,
                usage=tokens / facts.model.kv_pool_tokens,
                graph=load.graphs,
                rate=seen,
                queued=0,
            ),
        )
        at += _STEPS_A_LINE * running / seen
        step += 1
