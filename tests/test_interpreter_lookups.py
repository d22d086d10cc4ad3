"""What is looked up under an unknown name, and what is searched in many tables, holds on every way."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.one_file import machine_of
from tools.interpreter.base import World
from tools.interpreter.machine import Machine
from tools.interpreter.plain import NotPlain, plain
from tools.interpreter.searches import Searches
from tools.interpreter.values import Unknown
from tools.settings.types import HostFacts

TABLES = """
OVERRIDES = {"one": {"dtype": "bfloat16"}, "two": {"dtype": "bfloat16", "page": 64}}

def declared(kind):
    found = OVERRIDES.get(kind)
    fields = {}
    if found:
        fields.update(dict(found))
    return fields

def holds(kind, name):
    return name in dict(OVERRIDES[kind])

def changed(kind):
    found = OVERRIDES[kind]
    OVERRIDES["one"]["page"] = 1
    return found["page"]
"""
SEARCH = """
class Record:
    pass

def build(c0, c1, c2, c3):
    record = Record()
    record.stash = []
    record.stash.append(("a", {"x": 1}))
{appends}
    return record

def find(record, name):
    for _source, declared in reversed(getattr(record, "stash", None) or ()):
        if name in declared:
            return declared[name]
    return "raw"

def f(c0, c1, c2, c3, name):
    record = build(c0, c1, c2, c3)
    return find(record, name)
"""


def machine(text: str) -> Machine:
    return machine_of(text, "sglang", World(HostFacts(), {}))


def called(made: Machine, name: str, *given: Any) -> Any:
    module = made.module_named("sglang.m")
    assert module is not None
    return made.call(made.module_attribute(module, name), given, {})


def test_a_table_of_tables_says_what_it_may_hold_under_an_unknown_name() -> None:
    made = machine(TABLES)
    kind = Unknown(("the model's architecture",))
    fields = called(made, "declared", kind)
    assert sorted(fields) == ["dtype", "page"]
    with pytest.raises(NotPlain) as unknown:
        plain(fields["dtype"])
    assert unknown.value.needs == ("the model's architecture",)
    assert called(made, "holds", kind, "speculative_algorithm") is False
    assert called(made, "holds", kind, "dtype") is True
    assert isinstance(called(made, "holds", kind, "page"), Unknown)


def test_a_table_that_is_changed_leaves_what_was_looked_up_unknown() -> None:
    made = machine(TABLES)
    assert isinstance(called(made, "changed", Unknown(("the model",))), Unknown)


def program(seed: int) -> str:
    """Return a program that declares fields under conditions and in any order."""
    chosen = random.Random(seed)
    lines = []
    for place in range(chosen.randint(1, 7)):
        fields = {name: chosen.randint(0, 2) for name in chosen.sample("xyz", chosen.randint(1, 2))}
        line = f'record.stash.append(("s{place}", {fields!r}))'
        guard = chosen.choice(["", "", "if c0:", "if c1:", "if c2 and c3:"])
        lines += [f"    {guard}", f"        {line}"] if guard else [f"    {line}"]
    return SEARCH.replace("{appends}", "\n".join(lines))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("unknown", [(), (0,), (1, 2), (0, 1, 2, 3)])
def test_a_search_finds_what_the_program_finds(seed: int, unknown: tuple[int, ...]) -> None:
    text = program(seed)
    real: dict[str, Any] = {}
    exec(text, real)
    for name in "xyzw":
        given = [Unknown((f"c{n}",)) if n in unknown else n % 2 == 0 for n in range(4)]
        found = called(machine(text), "f", *given, name)
        ways = [
            real["f"](*(way[n] if n in unknown else given[n] for n in range(4)), name)
            for way in itertools.product((True, False), repeat=4)
        ]
        if not isinstance(found, Unknown):
            assert set(ways) == {found}
        elif found.options:
            assert set(ways) <= set(found.options)


def test_a_search_follows_only_what_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    appends = "\n".join(f'    record.stash.append(("s{n}", {{"y": {n}}}))' for n in range(200))
    text = SEARCH.replace("{appends}", appends)
    made = machine(text)
    assert called(made, "f", True, True, True, True, "x") == 1
    steps = made.steps
    monkeypatch.setattr(Searches, "deciding", lambda self, node, values: values)
    other = machine(text)
    assert called(other, "f", True, True, True, True, "x") == 1
    assert steps < other.steps * 0.7
