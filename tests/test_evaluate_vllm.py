"""vLLM's launch lines: classes checked by pydantic, parsers that derive from argparse's, real packages."""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab import package
from evals.truth import facts, models, read
from evals.truth.compare import judged
from tests.one_file import machine_of
from tools.interpreter.base import World
from tools.interpreter.plain import plain
from tools.interpreter.values import GuestRaise, Instance
from tools.settings.evaluate import evaluate
from tools.settings.source import LocalTree
from tools.settings.types import HostFacts

RECORDS = Path(__file__).parent / "data" / "settings_truth" / "vllm-0.11.0.json.gz"


def followed(text: str) -> Any:
    """Return what ``f()`` gives when it is followed: plain data, or the word that it raised."""
    machine = machine_of(text, "vllm", World(HostFacts(packages={"pydantic": "2"}), {}))
    module = machine.module_named("vllm.m")
    assert module is not None
    try:
        found = machine.call(machine.module_attribute(module, "f"), (), {})
    except GuestRaise as raised:
        return "refused" if not isinstance(raised.value, Instance) else raised.value.cls.name
    return plain(found, journal=machine.journal)


def really(text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what ``f()`` gives when Python runs it."""
    module = types.ModuleType("followed_for_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(text, "m.py", "exec"), module.__dict__)
    try:
        return as_data(module.f())
    except (ValueError, TypeError, AssertionError, SystemExit):
        return "refused"


def as_data(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value, int) or isinstance(value.value, str) else value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_data(getattr(value, field.name, None)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): as_data(v) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((as_data(v) for v in value), key=str)
    return [as_data(v) for v in value] if isinstance(value, (list, tuple)) else value


HEAD = """
from dataclasses import InitVar, field
import dataclasses
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, Optional, Union
from pydantic import ConfigDict, Field, SkipValidation, TypeAdapter, field_validator, model_validator
from pydantic.dataclasses import dataclass

class Level(IntEnum):
    LOW = 0
    HIGH = 1

class Mode(Enum):
    ONE = "one"
    TWO = (1, 2)

@dataclass(config=ConfigDict(extra="forbid"))
class Inner:
    size: int = 4
    names: list[str] = Field(default_factory=list)
"""
KINDS = (
    "int", "float", "bool", "str", "int | None", "str | None", "int | str", "float | str", "bool | str",
    "Any", "Literal['a', 'b']", "Literal['a'] | int", "list[int]", "list[str] | None", "dict[str, int]",
    "tuple[int, ...]", "set[int]", "Level", "Mode", "Level | None", "Inner", "Inner | None",
    "Optional[Union[int, str]]", "dict | None", "SkipValidation[int]", "Annotated[int, Field(ge=2)]",
    "list[int | str]", "dict[str, float] | str",
)  # fmt: skip
VALUES = (
    "0", "1", "3", "1.0", "1.5", "True", "None", "'a'", "'1'", "'yes'", "'1.5'", "'one'", "[1, '2']",
    "(1, 2)", "{1}", "{'a': 1}", "{'size': '7'}", "{'size': 'x'}", "Level.HIGH", "Mode.TWO",
    "Inner(size=9)", "[]", "{}", "''",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_values_become_what_pydantic_makes_of_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in VALUES:
        body = f"class Held:\n    value: {kind}\n\ndef f():\n    return Held(value={value})\n"
        text = f"{HEAD}\n@dataclass\n{body}"
        assert followed(text) == really(text, monkeypatch), value


CLASSES = {
    "validators run from the last to the first": """
@dataclass
class Held:
    value: int | None = None
    seen: list[str] = Field(default_factory=list)

    @field_validator("value", mode="before")
    @classmethod
    def first(cls, value):
        return value + 1 if isinstance(value, int) else value

    @field_validator("value", mode="wrap")
    @classmethod
    def around(cls, value, handler):
        return None if value is None else handler(value) * 10

    @field_validator("value")
    @classmethod
    def last(cls, value):
        return value if value is None else value + 5

    def __post_init__(self):
        self.seen.append("post")

    @model_validator(mode="after")
    def after(self):
        self.seen.append("after")
        return self

@dataclass
class Outer:
    held: Held
    other: Held = Field(default_factory=Held)

def f():
    return [Held(value="3"), Held(), Outer(held=Held(value=1)), Outer(held={"value": 2})]
""",
    "what is given and what is not": """
@dataclass
class Held:
    start: InitVar[int]
    length: int = Field(default=2, gt=1)
    made: int = field(init=False, default=8)
    late: str = field(init=False)

    def __post_init__(self, start):
        self.late = f"{start}+{self.length}"

def f():
    return [Held(start=3), Held("4", length="5"), Held.length, [x.name for x in dataclasses.fields(Held)]]
""",
    "errors of a class are pydantic's": """
@dataclass
class Held:
    value: int

    def __post_init__(self):
        if self.value > 3:
            raise ValueError("too much")

def attempt(make):
    try:
        return make()
    except ValueError as error:
        return type(error).__name__

def f():
    makers = [lambda: Held(4), lambda: Held(1), lambda: Held(), lambda: Held("x")]
    return [attempt(make) for make in makers]
""",
    "nothing else is taken": "def f():\n    return Inner(size=1, other=2)\n",
    "text as JSON": """
def f():
    return TypeAdapter(Inner).validate_json('{"size": "12", "names": ["a"]}')
""",
    "a default belongs to one object": """
@dataclass
class Held:
    inner: Inner = Field(default=Inner())
    names: list[str] = Field(default=["a"])

def f():
    one, two = Held(), Held()
    one.inner.size = 99
    one.names.append("x")
    return [one, two, dataclasses.replace(two, names=["y"])]
""",
    "a class that inherits": """
@dataclass
class Base:
    first: int = 1

    @field_validator("first", mode="before")
    @classmethod
    def half(cls, value):
        return value // 2

@dataclass
class Held(Base):
    second: int = 2

def f():
    return [Held(first=10), Held(8, "9")]
""",
}


@pytest.mark.parametrize("name", CLASSES)
def test_objects_become_what_pydantic_makes_of_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + CLASSES[name]
    expected = really(text, monkeypatch)
    assert followed(text) == expected and expected is not None


PARSER = """
import argparse
from argparse import Action, ArgumentParser, BooleanOptionalAction, _ArgumentGroup

class Switch(BooleanOptionalAction):
    def __call__(self, parser, namespace, values, option_string=None):
        super().__call__(parser, namespace, values, option_string)
        namespace.seen = option_string

class Flexible(ArgumentParser):
    class Group(_ArgumentGroup):
        def add_argument(self, *args, **kwargs):
            kwargs.pop("deprecated", None)
            return super().add_argument(*args, **kwargs)

    def __init__(self, *args, **kwargs):
        self.count = 0
        super().__init__(*args, **kwargs)
        self.register("action", BooleanOptionalAction, Switch)

    def add_argument_group(self, *args, **kwargs):
        group = self.Group(self, *args, **kwargs)
        self._action_groups.append(group)
        return group

    def parse_known_args(self, args=None, namespace=None):
        namespace, rest = super().parse_known_args(args, namespace)
        namespace.passed = True
        return namespace, rest

    def parse_args(self, args=None, namespace=None):
        words = ["--" + a[2:].replace("_", "-") if a.startswith("--") else a for a in args]
        return super().parse_args(words, namespace)

def size(text):
    if text == "bad":
        raise ValueError("no size")
    return int(text) * 2

def f():
    parser = Flexible(prog="serve")
    parser.add_argument("model", nargs="?")
    group = parser.add_argument_group("one", description="two")
    group.add_argument("--block-size", type=size, default=None, deprecated=True)
    group.add_argument("--eager", action=argparse.BooleanOptionalAction, default=None)
    group.add_argument("--kind", choices=["a", "b"], default="a")
    return vars(parser.parse_args(ARGV))
"""


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["m", "--block_size", "4"],
        ["--no-eager"],
        ["--eager", "--kind", "b", "m"],
        ["--kind", "c"],
        ["--block-size", "bad"],
        ["--other", "1"],
    ],
)
def test_parsers_of_the_source_read_as_argparse_does(
    argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PARSER.replace("ARGV", repr(argv))
    assert followed(text) == really(text, monkeypatch)


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("position", [1, 3, 5])
def test_a_line_ends_as_the_engine_recorded_it(position: int, tmp_path: Path) -> None:
    held = read.read(RECORDS)
    record = held.records[position]
    site = package.fetch("vllm", held.version, Settings().cache_dir)
    models.write(tmp_path)
    said = facts.of_record(record, site, facts.from_folder(tmp_path))
    argv = [word.replace("{M}", str(tmp_path)) for word in record.argv]
    found = judged(record, evaluate(LocalTree(site), argv, facts.ALWAYS, said), str(tmp_path))
    assert found.wrong == [] and found.misjudged == []
    assert found.share("unknown") <= 0.1
