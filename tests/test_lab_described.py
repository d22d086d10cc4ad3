"""Described services: names, conditions and templates; a schema that refuses what means nothing."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from evals.lab.described import Rule, Service
from evals.lab.described_engine import Engine
from evals.lab.described_rules import Machine, check, flags, merged, step_ms
from evals.lab.scenario import Scenario
from evals.lab.simulator_batches import Finish, Request
from evals.lab.simulator_text import TokenStream

ARGV = ["/usr/bin/x", "serve", "/models/m", "--enforce_eager", "--port", "8000", "--seats=16", "-t", "8"]


def machine(values: Mapping[str, list[Any]] | None = None, **more: Any) -> Machine:
    environ = {"NCCL_P2P_DISABLE": "1", "NAME": "tcp://10.0.0.7:8000"}
    unit = {"CPUQuota": "400%", "MemoryMax": "8G"}
    return Machine(ARGV, environ, unit=unit, host={"cpus": 8}, values=values or {}, **more)


def test_flags_are_read_as_an_argument_parser_does() -> None:
    assert flags(ARGV) == {"--enforce-eager": True, "--port": 8000, "--seats": 16, "-t": 8}
    assert flags(["x", "--a", "1", "--a", "2"]) == {"--a": 2}
    assert flags(["x", "--low", "-5"]) == {"--low": -5}


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({}, True),
        ({"--enforce-eager": True}, True),
        ({"--enforce-eager": False}, False),
        ({"--absent": False, "--port": 8000}, True),
        ({"--seats": {"gt": 8, "le": 16}}, True),
        ({"--seats": {"gt": 16}}, False),
        ({"--absent": {"gt": 1}}, False),
        ({"-t": {"gt": "@cpu_quota"}}, True),
        ({"$NCCL_P2P_DISABLE": 1}, True),
        ({"$NAME": {"matches": "^tcp://"}}, True),
        ({"$NAME": {"gt": 3}}, False),
        ({"unit.MemoryMax": "8G", "host.cpus": 8}, True),
        ({"any": [{"--port": 1}, {"--port": 8000}]}, True),
        ({"not": {"--port": 8000}}, False),
        ({"requests": {"lt": 4}}, True),
        ({"/no/such/file": False}, True),
    ],
)
def test_conditions(when: dict[str, Any], holds: bool) -> None:
    check(when)
    assert machine(live={"requests": 2}).holds(when) is holds


def test_values_come_from_the_first_source_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "params").write_text('{"num_thread": 6}\n')
    sources = ["request.options.num_thread", f'{tmp_path}/params#"num_thread": *(\\d+)', "host.cpus"]
    one = machine({"threads": sources, "fallback": ["--absent", 4], "both": ["@threads"]})
    assert (one.of("threads"), one.of("fallback"), one.of("both")) == (6, 4, 6)
    one.request = {"options": {"num_thread": 2}}
    assert one.of("threads") == 2
    assert machine({"threads": ["/no/file#(x)", "host.cpus"]}).of("threads") == 8


def test_templates_fill_what_is_known_and_leave_the_rest() -> None:
    one = machine({"seats": ["--seats"]}, live={"tokens_s": 19.44, "kv_usage": 0.031})
    text = 'cfg={"a": {}} {seats} {--port} {tokens_s:.1f} {kv_usage:.1%} {unknown} {$NAME}'
    assert one.fill(text) == 'cfg={"a": {}} 16 8000 19.4 3.1% {unknown} tcp://10.0.0.7:8000'
    assert one.filled({"a": ["@seats", "n={seats}"]}) == {"a": [16, "n=16"]}


def test_rules_merge_in_order() -> None:
    rules = [
        {"when": {}, "start": "one", "step_ms": 10.0, "log": [{"text": "a"}], "metrics": {"x": 1}},
        {"when": {"--port": 8000}, "start": "two", "step_ms": 20.0, "metrics": {"y": 2}},
        {"when": {"--port": 1}, "step_ms": 30.0},
    ]
    found = merged(rules, machine())
    assert (found["start"], found["step_ms"]) == ("one\ntwo\n", 20.0)
    assert found["metrics"] == {"x": 1, "y": 2} and found["log"] == [{"text": "a"}]


def test_step_times() -> None:
    one = machine({"base": [82.6]})
    assert step_ms({"base": "@base", "per_request": 2.0}, 3, one) == pytest.approx(86.6)
    table = {"at": {"1": 10.0, "9": 50.0}}
    assert [step_ms(table, n, one) for n in (1, 5, 9, 20)] == [10.0, 30.0, 50.0, 50.0]


def service(**changes: Any) -> dict[str, Any]:
    rules = {"always": {"step_ms": 2.0, "prefill": {"tokens_s": 1e6}}}
    return {"api": "vllm", "model": "m", "port": 8000, "noise": 0.0, "rules": rules, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"api": "tgi"}, "api"),
        ({"context": "@long"}, "no value named long"),
        ({"rules": {"r": {"when": {"--x": {"above": 3}}}}}, "unknown comparison"),
        ({"rules": {"r": {"step_ms": {"per_request": 1}}}}, "exactly one of `base` and `at`"),
        ({"rules": {"r": {"log": [{"text": "x"}]}}}, "exactly one of `every_steps` and `every_s`"),
        ({"rules": {"r": {"speed": 3}}}, "speed"),
        ({"rules": {}}, "at least 1"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Service.model_validate(service(**changes))


async def drive(described: dict[str, Any], requests: int, tokens: int) -> tuple[Engine, list[Finish | None]]:
    """Run requests on an engine until all are done or nothing moves any more."""
    facts = Service.model_validate(described).model_dump(mode="json", exclude_none=True)
    engine = Engine(facts, Machine(ARGV, {}, values=facts["values"]), lambda line: None)
    ends: list[Finish | None] = [None] * requests

    def end(place: int) -> Any:
        return lambda finish: ends.__setitem__(place, finish)

    for place in range(requests):
        stream = TokenStream(1, f"prompt {place}")
        engine.submit(Request(f"prompt {place}", 8, tokens, stream, lambda text: None, end(place)))
    for _ in range(200):
        await asyncio.sleep(0.01)
        if None not in ends or (engine.effect.get("stall") and engine.waiting):
            break
    engine.refresh()
    engine.stop()
    return engine, ends


def test_no_more_requests_run_at_once_than_the_rules_allow() -> None:
    rules = {"always": {"step_ms": 2.0, "concurrency": 2}}
    engine, ends = asyncio.run(drive(service(rules=rules), requests=4, tokens=5))
    assert ends == ["length"] * 4
    assert engine.counts.generated == 20
    assert engine.counts.steps == 8  # two at a time: the first token of each comes from its prefill


def test_a_rule_on_finished_requests_ends_by_itself() -> None:
    rules = {"warm": {"step_ms": 1.0}, "cold": {"when": {"requests": {"lt": 1}}, "step_ms": 5.0}}
    engine, _ = asyncio.run(drive(service(rules=rules), requests=1, tokens=4))
    assert engine.effect["step_ms"] == 1.0


def test_drafts_bring_several_tokens_a_step() -> None:
    rules = {"always": {"step_ms": 2.0, "tokens_per_step": 2.5}}
    engine, ends = asyncio.run(drive(service(rules=rules), requests=1, tokens=11))
    assert ends == ["length"] and engine.counts.steps == 4


def test_a_stalled_service_takes_requests_and_runs_none() -> None:
    engine, ends = asyncio.run(drive(service(rules={"always": {"stall": True}}), requests=1, tokens=2))
    assert ends == [None] and engine.machine.live["waiting"] == 1


def test_the_page_of_scenarios_holds_every_field_in_a_scenario_that_is_valid() -> None:
    page = (Path(__file__).parent.parent / "docs" / "scenarios.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    found = Scenario.model_validate({"name": "page", **yaml.safe_load(block)})
    (described,) = found.services.values()
    assert set(Service.model_fields) == described.model_fields_set
    told = {name for rule in described.rules.values() for name in rule.model_fields_set}
    assert set(Rule.model_fields) == told
    given = set(Scenario.model_fields) - found.model_fields_set
    assert given == {"engine", "model_dir"}
    facts = found.services["vllm.service"].model_dump(mode="json", exclude_none=True)
    assert json.dumps(facts)
