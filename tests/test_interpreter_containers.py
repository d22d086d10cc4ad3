"""Lists and dicts whose items are unknown or may be absent: what is called known holds either way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.one_file import machine_of
from tools.interpreter.base import World
from tools.interpreter.plain import NotPlain, plain
from tools.interpreter.values import GuestRaise, Unknown
from tools.settings.types import HostFacts

PROGRAM = """
def f(c):
    items = ["a"]
    table = {"k": 1}
    if c:
        items.append("b")
        table["m"] = 2
    return RESULT
"""
OF_ITEMS = (
    "','.join(items)",
    "','.join(x for x in items)",
    "'%s' % items",
    "'{}'.format(items)",
    "f'{items}'",
    "str(items)",
    "repr(items)",
    "items == ['a']",
    "items != ['a']",
    "['a'] == items",
    "items == []",
    "items == ['a', 'b', 'c', 'd']",
    "[items] == [['a']]",
    "(items, 1) == (['a'], 1)",
    "{'q': items} == {'q': ['a']}",
    "tuple(items) == ('a',)",
    "items <= ['a']",
    "['a'] < items",
    "len(tuple(items))",
    "all(items)",
    "[all(items)] == [True]",
    "any(items)",
    "'x'.startswith(tuple(items))",
    "'b'.startswith(tuple(items))",
    "items[0]",
    "bool(items)",
)
OF_TABLE = (
    "table == {'k': 1}",
    "table != {'k': 1}",
    "table == {'k': 2}",
    "table == {'z': 1}",
    "table == {'k': 1, 'm': 3}",
    "list(table)",
    "tuple(table)",
    "list(table) == ['k']",
    "' '.join(table)",
    "str(table)",
    "list(table.values()) == [1]",
    "dict(table) == {'k': 1}",
    "table['k']",
)
OF_ONE = (
    "','.join([c])",
    "','.join(['a', f'{c}'])",
    "str([c])",
    "repr({'k': c})",
    "'%s' % [c]",
    "'x'.startswith((c, 'x'))",
    "[c, 1] == [c, 2]",
    "int([c][0])",
)


@pytest.mark.parametrize("result", [*OF_ITEMS, *OF_TABLE])
def test_what_is_known_of_a_container_holds_either_way(result: str) -> None:
    check(result, (False, True))


@pytest.mark.parametrize("result", OF_ONE)
def test_a_value_inside_a_container_is_no_text_and_no_error(result: str) -> None:
    check(result, ("", "1"))


def check(result: str, inputs: tuple[Any, ...]) -> None:
    text = PROGRAM.replace("RESULT", result)
    real = [really(text, given) for given in inputs]
    kind, found = followed(text)
    # Unknown is always allowed; what must be known stands below.
    assert kind == "unknown" or all((kind, found) == one for one in real), (result, found, real)


def test_what_no_item_changes_stays_known() -> None:
    for result, value in (("items == []", False), ("table == {'z': 1}", False), ("any(items)", True)):
        assert followed(PROGRAM.replace("RESULT", result)) == ("value", value)


def really(text: str, given: Any) -> tuple[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, "m.py", "exec"), names)
    try:
        return "value", as_plain(names["f"](given))
    except (TypeError, ValueError) as error:
        return "raised", type(error).__name__


def as_plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def followed(text: str) -> tuple[str, Any]:
    machine = machine_of(text, "sglang", World(HostFacts(), {}))
    module = machine.module_named("sglang.m")
    assert module is not None
    try:
        found = machine.call(machine.module_attribute(module, "f"), (Unknown(("c",)),), {})
    except GuestRaise as raised:
        return "raised", type(raised.value).__name__
    try:
        return "value", as_plain(plain(found, journal=machine.journal))
    except NotPlain:
        return "unknown", None
