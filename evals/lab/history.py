"""Write out a scenario's recorded journal: times become absolute, load becomes its decode lines."""

from __future__ import annotations

import random
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.lab import cost_model
from evals.lab.engine_facts import Cost
from evals.lab.engine_facts import Scenario as Facts
from evals.lab.past import Line, Load, span
from evals.lab.scenario import Scenario
from evals.lab.simulator_launch import hybrid_model
from evals.lab.simulator_log import decode_line, prefill_line

_TIME = re.compile(r"\{time(?::([^{}]*))?\}")
_STEPS_A_LINE = 40
"""The engine logs every so many forward steps of a stage."""
_CHUNK = 8192
"""Tokens of a prompt that are prefilled at once, on GPUs of 60 GiB and more."""
_LONG_PROMPT = 4096
_DRAFTS = 3
"""Tokens drafted a step, as the engine chooses for a model's own draft layer."""
_LINE_GAP_S = 0.004
"""Lines of one text follow each other at this distance."""


def boots(scenario: Scenario) -> list[str]:
    """Return a stable id for each boot, from the oldest to the current."""
    return [uuid.uuid5(uuid.NAMESPACE_OID, f"{scenario.name} {boot.start}").hex for boot in scenario.boots]


def entries(scenario: Scenario, package_dir: str, now: float) -> list[dict[str, Any]]:
    """Return the recorded lines as the journal's entries, as if the lab had started at ``now``."""
    facts = Facts.from_json(scenario.facts(package_dir=package_dir)) if scenario.engine else None
    site = str(Path(package_dir).parent)
    draw = random.Random(facts.noise.seed if facts else 0)
    rows: list[dict[str, Any]] = []
    for line in scenario.history.values():
        start = now + span(line.at)
        made = _load_lines(line.load, facts, draw) if line.load and facts else _text_lines(line)
        for offset, text in made:
            at = start + offset
            rows.append(_row(scenario, line, at, _stamped(text, at).replace("{site}", site), now))
    return rows


def _stamped(text: str, at: float) -> str:
    """Put an entry's own time into its text, for ``{time}`` or in the form ``{time:STRFTIME}``."""
    form = "%Y-%m-%d %H:%M:%S"
    return _TIME.sub(lambda match: time.strftime(match[1] or form, time.gmtime(at)), text)


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


def rate(cost: Cost, load: Load, tokens_each: int = 0) -> float:
    """Return tokens a second of all requests that one scheduler tells of, noise left out."""
    plan = cost_model.Plan(
        stages=load.stages,
        tensor=load.tensor,
        workers=load.workers,
        overlap=load.overlap,
        depth=load.depth,
        graph_batch=256 if load.graphs else 0,
    )
    sizes = batches(load)
    step_ms = cost_model.token_ms(cost, plan, sizes, [size * tokens_each for size in sizes]) * load.slowed
    return 1000.0 * sum(sizes) * _tokens_a_step(cost, load) / load.workers / step_ms


def _tokens_a_step(cost: Cost, load: Load) -> float:
    return cost.accept_length if load.drafts else 1.0


def _load_lines(load: Load, facts: Facts, draw: random.Random) -> Iterator[tuple[float, str]]:
    """Yield the lines of a load of equal requests, one after another: decode, and prefill of long prompts."""
    sizes, accept = batches(load), _tokens_a_step(facts.cost, load)
    telling = max(1, len(sizes) // load.workers)
    held_by = sizes[0] if load.workers > 1 else load.concurrency
    accepted = (accept, (accept - 1) / _DRAFTS) if load.drafts else None
    hybrid = hybrid_model(facts.model)
    at, step, last = 2.0, 0, load.output
    while at < load.minutes * 60:
        made = int(step * _STEPS_A_LINE * accept) // telling % load.output
        if made < last and load.prompt >= _LONG_PROMPT:
            for after, text in _prefill(load, facts):
                yield at + after, text
            at += load.prompt / facts.cost.prefill_tokens_per_s
        last = made
        seen = rate(facts.cost, load, load.prompt + made) * (1 + draw.gauss(0, facts.noise.relative))
        tokens = (load.prompt + made) * held_by
        text = decode_line(
            running=sizes[0],
            tokens=tokens,
            usage=tokens / facts.model.kv_pool_tokens,
            graph=load.graphs,
            rate=seen,
            queued=load.queued,
            accepted=accepted,
            hybrid=hybrid,
        )
        yield at, f"[{{time}}{load.rank}] {text}"
        at += _STEPS_A_LINE * sizes[0] * accept / seen
        step += 1


def _prefill(load: Load, facts: Facts) -> Iterator[tuple[float, str]]:
    """Yield the lines of one long prompt's chunks, and when each came."""
    done, pool = 0, facts.model.kv_pool_tokens
    while done < load.prompt:
        chunk = min(_CHUNK, load.prompt - done)
        done += chunk
        speed = facts.cost.prefill_tokens_per_s
        text = prefill_line(
            seqs=1,
            tokens=chunk,
            cached=0,
            usage=done / pool,
            running=0,
            queued=0,
            graph=False,
            rate=speed,
            hybrid=hybrid_model(facts.model),
        )
        yield done / speed, f"[{{time}}{load.rank}] {text}"
