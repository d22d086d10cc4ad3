"""What is called known must hold whatever the unknown inputs are: programs followed and really run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.one_file import machine_of
from tools.interpreter.base import World
from tools.interpreter.machine import Machine
from tools.interpreter.plain import NotPlain, plain
from tools.interpreter.values import GuestRaise, Unknown
from tools.settings.types import HostFacts

INPUTS = (0, 1, 2, -1)
NAMES = ("x", "y", "z")


def followed(text: str, given: Sequence[Any]) -> tuple[Any, Machine]:
    machine = machine_of(text, "sglang", World(HostFacts(), {}))
    module = machine.module_named("sglang.m")
    assert module is not None
    return machine.call(machine.module_attribute(module, "f"), tuple(given), {}), machine


class Programs:
    """Write random programs over three variables, a list, a dict and an object."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self) -> str:
        r = self.random
        return r.choice(
            [
                r.choice(NAMES),
                "a",
                "b",
                str(r.randint(-2, 3)),
                "len(items)",
                f"o.{r.choice('pq')}",
                f"table.get({r.randint(0, 2)}, {r.randint(0, 3)})",
                f"({r.choice(NAMES)} + {r.randint(0, 2)})",
                f"({self.test()} and {r.choice(NAMES)})",
                f"({r.choice(NAMES)} if {self.test()} else b)",
            ]
        )

    def test(self) -> str:
        r = self.random
        left = r.choice([*NAMES, "a", "b", "o.p"])
        return r.choice(
            [
                f"{left} > {r.randint(-1, 2)}",
                f"{left} == {r.randint(0, 2)}",
                f"not ({left} < 1)",
                f"{left} in items",
                f"{r.randint(0, 2)} in table",
                f"{left} is None",
                "bool(items)",
                f"any(i == {left} for i in items)",
            ]
        )

    def statement(self, depth: int, loop: bool) -> list[str]:
        r = self.random
        kinds = ["assign"] * 5 + ["augment", "append", "put", "attribute", "pop", "call"]
        if depth < 3:
            kinds += ["if"] * 5 + ["for", "try", "while"]
        if depth:
            kinds += ["return", "raise"] + (["break", "continue"] if loop else [])
        kind = r.choice(kinds)
        if kind in ("if", "for", "try", "while"):
            lines: list[str] = getattr(self, f"_{kind}")(depth, loop)
            return lines
        name = r.choice(NAMES)
        return {
            "assign": [f"{name} = {self.value()}"],
            "augment": [f"{name} = {name} + {r.randint(1, 2)}"],
            "append": [f"items.append({self.value()})"],
            "put": [f"table[{r.randint(0, 2)}] = {self.value()}"],
            "attribute": [f"o.{r.choice('pq')} = {self.value()}"],
            "pop": [f"table.pop({r.randint(0, 2)}, None)"],
            "call": [f"{name} = g({self.value()}, o)"],
            "return": [f"return ('early', {name})"],
            "raise": [f"raise {r.choice(['ValueError', 'KeyError'])}('no')"],
            "break": ["break"],
            "continue": ["continue"],
        }[kind]

    def block(self, depth: int, loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, 3)):
            lines += self.statement(depth, loop)
        return ["    " + line for line in lines]

    def _if(self, depth: int, loop: bool) -> list[str]:
        lines = [f"if {self.test()}:", *self.block(depth + 1, loop)]
        if self.random.random() < 0.5:
            lines += ["else:", *self.block(depth + 1, loop)]
        return lines

    def _for(self, depth: int, loop: bool) -> list[str]:
        source = self.random.choice(["range(3)", "list(items)[:4]", "(1, 2)", "range(max(0, min(a, 3)))"])
        return [f"for i in {source}:", f"    {self.random.choice(NAMES)} = i", *self.block(depth + 1, True)]

    def _while(self, depth: int, loop: bool) -> list[str]:
        name = f"n{self.random.randint(0, 999)}"
        return [f"{name} = 0", f"while {name} < 3:", f"    {name} += 1", *self.block(depth + 1, True)]

    def _try(self, depth: int, loop: bool) -> list[str]:
        caught = self.random.choice(["ValueError", "(ValueError, KeyError)", "Exception"])
        lines = ["try:", *self.block(depth + 1, loop), f"except {caught}:", *self.block(depth + 1, loop)]
        return lines + (["finally:", "    z = z"] if self.random.random() < 0.2 else [])

    def text(self) -> str:
        body: list[str] = []
        for _ in range(self.random.randint(3, 7)):
            body += self.statement(0, False)
        lines = [
            "class O:",
            "    def __init__(self):",
            "        self.p = 0",
            "        self.q = None",
            "",
            "def g(v, o):",
            f"    if v == {self.random.randint(0, 2)}:",
            "        o.q = 7",
            "        return 5",
            "    return v",
            "",
            "def f(a, b):",
            "    x, y, z = 0, 1, None",
            "    items, table, o = [1], {0: 3}, O()",
            *("    " + line for line in body),
            "    return (x, y, z, items, table, o.p, o.q)",
        ]
        return "\n".join(lines) + "\n"


def really(text: str, given: Sequence[Any]) -> Any:
    names: dict[str, Any] = {}
    exec(compile(text, "m.py", "exec"), names)
    return names["f"](*given)


def agrees(found: Any, real: Any, machine: Machine) -> bool:
    """Tell whether every known part of a value is what the program really gave."""
    if isinstance(found, tuple) and isinstance(real, tuple) and len(found) == len(real):
        return all(agrees(f, r, machine) for f, r in zip(found, real, strict=True))
    try:
        known = plain(found, journal=machine.journal)
    except NotPlain:
        return True
    return bool(known == plain(real)) and type(known) is type(plain(real))


def check(seed: int) -> tuple[int, int]:
    text = Programs(seed).text()
    outcomes = []
    for given in itertools.product(INPUTS, INPUTS[:2]):
        try:
            outcomes.append(really(text, given))
        except Exception as error:  # noqa: BLE001 - a program may end in any error
            outcomes.append(error)
    needs = (Unknown(("a",), INPUTS), Unknown(("b",)))
    try:
        found, machine = followed(text, needs if seed % 2 else (Unknown(("a",)), Unknown(("b",))))
    except GuestRaise:
        assert all(isinstance(o, Exception) for o in outcomes), (
            f"seed {seed}: it does not always fail\n{text}"
        )
        return 0, 0
    for outcome in outcomes:
        if not isinstance(outcome, Exception):
            assert agrees(found, outcome, machine), f"seed {seed}: {found!r} is not {outcome!r}\n{text}"
    parts = found if isinstance(found, tuple) else (found,)
    return sum(not isinstance(p, Unknown) for p in parts), len(parts)


@pytest.mark.parametrize("block", range(8))
def test_what_is_known_holds_for_every_input(block: int) -> None:
    known = total = 0
    for seed in range(block * 400, block * 400 + 400):
        some, all_of_it = check(seed)
        known, total = known + some, total + all_of_it
    assert total > 100
    assert known / total > 0.15, (
        "hardly anything is known: the test would pass for a machine that knows nothing"
    )


@pytest.mark.parametrize("seed", range(30))
def test_known_inputs_give_the_value_itself(seed: int) -> None:
    text = Programs(seed + 5000).text()
    for given in ((0, 0), (2, 1), (-1, 0)):
        try:
            real = really(text, given)
        except Exception as error:  # noqa: BLE001 - a program may end in any error
            with pytest.raises(GuestRaise) as raised:
                followed(text, given)
            assert type(raised.value.value) is type(error)
            continue
        assert plain(followed(text, given)[0]) == plain(real)
