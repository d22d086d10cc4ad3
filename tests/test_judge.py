"""Settings are read from source, and conditions are judged three-valued: wrong is worse than unknown."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

import pytest

from tools.definitions import (
    Definitions,
    Engine,
    outside_pattern,
    read_definitions,
    read_outside,
)
from tools.guards import guards_of
from tools.judge import Judge, Judgement
from tools.launch_values import launch_values
from tools.resolvers import resolver_at
from tools.statements import UNKNOWN
from tools.syntax import Module, parse, steps_to

ENGINE = Engine("toy", "core/args.py", "Args", ("server_args",), ("get_args",), "core/")
SOURCE = """
import argparse
import dataclasses

LIMIT = 7

@dataclasses.dataclass
class Args:
    model: str
    fast: bool = False
    slow: bool = True
    size: int = 1
    ratio: float = 0.5
    mode: str = "auto"
    backend: str | None = None
    limit: int = LIMIT
    names: list = dataclasses.field(default_factory=list)
    later: int = dataclasses.field(default_factory=compute)
    depth: int = 0
    bs: list[int] | None = None
    level: str = "low"
    chosen: str | None = None
    api_key: str | None = None

    def __post_init__(self):
        self.pick()
        if self.fast:
            self.mode = "quick"
        if self.level == "high":
            self.depth = 9

    def pick(self):
        if self.backend is None:
            self.backend = best()
        if self.backend == "native":
            self.slow = False
        if self.size > 1:
            self.chosen = "many"

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model", "-m", type=str, required=True)
        parser.add_argument("--fast", action="store_true")
        parser.add_argument("--no-slow", dest="slow", action="store_false")
        parser.add_argument("--total-size", "--size", type=int, default=Args.size)
        parser.add_argument("--ratio", type=float, default=Args.ratio)
        parser.add_argument("--mode", default=Args.mode, choices=["auto", "quick"])
        parser.add_argument("--backend", type=str)
        parser.add_argument("--limit", type=parse_limit, default=Args.limit)
        parser.add_argument("--bs", type=int, nargs="+")
        parser.add_argument("--names", nargs="*", default=[])
        parser.add_argument("--level", nargs="?", const="high", default="low")
        parser.add_argument("--depth", type=int, default=compute())
        parser.add_argument("--api-key", default=None)

    @classmethod
    def from_cli_args(cls, args):
        args.size = args.total_size
        return cls(**vars(args))
"""


@pytest.fixture
def definitions() -> Definitions:
    return read_definitions(ENGINE, parse(SOURCE.encode()))


def judged(
    definitions: Definitions, condition: str, argv: str = "", effective: dict[str, Any] | None = None
) -> Judgement:
    """Judge a condition as it would stand in a method of the class."""
    tree = ast.parse(condition, mode="eval").body
    way = steps_to(definitions.module, *_inside(definitions.module))
    resolve, inside = resolver_at(definitions, definitions.module, ENGINE.file, way)
    return Judge.of(definitions, argv.split(), effective).judge(tree, resolve, inside=inside)


def _inside(module: Module) -> tuple[int, int]:
    line = next(n for n, text in enumerate(module.lines, 1) if b"self.pick()" in text)
    return line, 9


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("python -m toy --model m", {"model": "m"}),
        ("--fast --no-slow", {"fast": True, "slow": False}),
        ("--size 8 --ratio=2", {"size": 8, "ratio": 2.0}),
        ("--total-size=3", {"size": 3}),
        ("--total 4", {"size": 4}),
        ("--bs 1 2 4 --fast", {"bs": [1, 2, 4], "fast": True}),
        ("--names --fast", {"names": UNKNOWN, "fast": True}),
        ("--level --fast", {"level": "high", "fast": True}),
        ("--level mid", {"level": "mid"}),
        ("--limit 5", {"limit": UNKNOWN}),
        ("--size many", {"size": UNKNOWN}),
        ("--depth -1", {"depth": -1}),
        ("--unheard-of 3 --fast", {"fast": True}),
        ("--config c.yaml", {"config": "c.yaml"}),
        ("--size 1 --size 2", {"size": 2}),
    ],
)
def test_a_launch_line_is_read_as_the_source_declares_it(
    definitions: Definitions, argv: str, expected: dict[str, Any]
) -> None:
    assert launch_values(definitions, argv.split()) == expected


@pytest.mark.parametrize(
    ("condition", "argv", "verdict"),
    [
        ("self.fast", "", "false"),
        ("self.fast", "--fast", "true"),
        ("not self.fast", "", "true"),
        ("self.size > 1", "--size 8", "true"),
        ("1 < self.size <= 8", "--size 8", "true"),
        ("self.size > self.limit", "", "false"),
        ("self.level in ('low', 'high')", "", "true"),
        ("self.level not in ['low']", "", "false"),
        ("self.level.upper() == 'LOW'", "", "true"),
        ("self.bs is None", "", "true"),
        ("self.bs is not None", "--bs 1", "true"),
        ("self.fast is True", "--fast", "true"),
        ("self.size is 1", "", "unknown"),
        ("self.size // 2 == 4", "--size 8", "true"),
        ("self.size // self.depth == 4", "--depth 0 --size 8", "unknown"),
        ("self.fast and other()", "", "false"),
        ("other() and self.fast", "", "false"),
        ("self.fast and other()", "--fast", "unknown"),
        ("self.fast or other()", "--fast", "true"),
        ("other()", "", "unknown"),
        ("self.unheard_of", "", "unknown"),
        ("self.bs > 1", "", "unknown"),
        ("self.bs[0] == 1", "--bs 1", "unknown"),
        ("self.later", "", "unknown"),
        ("self.limit > 6", "--limit 9", "unknown"),
        ("self.fast", "--config c.yaml", "unknown"),
        ("args.fast", "", "unknown"),
        ("server_args.fast", "", "false"),
        ("self.depth", "", "unknown"),
        ("self.names", "", "false"),
    ],
)
def test_conditions_are_judged_three_valued(
    definitions: Definitions, condition: str, argv: str, verdict: str
) -> None:
    assert judged(definitions, condition, argv).verdict == verdict


@pytest.mark.parametrize(
    ("condition", "argv", "effective", "verdict"),
    [
        # Overwritten by something that cannot be known: without the server's word it stays open.
        ("self.backend == 'native'", "", None, "unknown"),
        ("self.backend == 'native'", "", {"backend": "triton"}, "false"),
        ("self.backend == 'native'", "", {"backend": "native"}, "unknown"),
        ("self.backend == 'native'", "--backend native", {"backend": "native"}, "true"),
        # The overwrite is under a condition that does not hold: it changes nothing.
        ("self.mode == 'auto'", "", None, "true"),
        ("self.mode == 'auto'", "--fast", None, "unknown"),
        ("self.mode == 'auto'", "--fast", {"mode": "quick"}, "unknown"),
        ("self.mode in ('auto', 'quick')", "--fast", None, "true"),
        ("self.chosen is None", "", None, "true"),
        ("self.chosen is None", "--size 2", None, "unknown"),
        # A value that was written on the way counts, even when the server now says another.
        ("self.mode == 'quick'", "--fast", {"mode": "auto"}, "unknown"),
        # The server says something that nothing in the class explains: both count.
        ("self.size > 1", "", {"size": 4}, "unknown"),
        ("self.size > 1", "--size 2", {"size": 4}, "true"),
    ],
)
def test_a_setting_that_is_overwritten_is_judged_only_when_all_its_values_agree(
    definitions: Definitions, condition: str, argv: str, effective: dict[str, Any] | None, verdict: str
) -> None:
    assert judged(definitions, condition, argv, effective).verdict == verdict


def test_a_judgement_names_what_decides_it(definitions: Definitions) -> None:
    line = 1 + next(n for n, t in enumerate(SOURCE.split("\n")) if t.startswith("    fast: bool"))
    by_default = judged(definitions, "self.fast and other()")
    assert by_default.because == f"fast is False (default, line {line})"
    assert [(k.name, k.value, k.origin, k.line) for k in by_default.decided_by] == [
        ("fast", False, "default", line)
    ]
    by_flag = judged(definitions, "self.fast and self.size > 1", "--fast --size 8")
    assert [(k.name, k.origin) for k in by_flag.decided_by] == [("fast", "flag"), ("size", "flag")]
    by_server = judged(definitions, "self.backend == 'native'", "", {"backend": "triton"})
    assert [(k.value, k.origin) for k in by_server.decided_by] == [(None, "default"), ("triton", "effective")]
    open_one = judged(definitions, "self.backend == 'native'")
    assert "overwritten" in open_one.because and "effective value is not known" in open_one.because
    assert open_one.decided_by == ()


def test_secrets_are_not_spelled_out(definitions: Definitions) -> None:
    assert "s3cr3t" not in judged(definitions, "self.api_key", "--api-key s3cr3t").because


OTHER = """
class Runner:
    def __init__(self, server_args):
        self.server_args = server_args
        self.quick = server_args.fast
        self.both = server_args.fast
        self.size, self.other = server_args.size, 1

    def again(self):
        self.both = True
        if self.quick: HERE
        if self.both: HERE
        if self.size: HERE
        if self.server_args.fast: HERE
        if get_args().fast: HERE
        if self.runner.server_args.fast: HERE
        if server_args.unheard_of: HERE
        if runner.fast: HERE
"""


def verdicts(definitions: Definitions, source: str, path: str = "core/run.py") -> list[str]:
    module = parse(textwrap.dedent(source).encode())
    judge = Judge.of(definitions, [])
    found: list[str] = []
    for line, text in enumerate(module.lines, 1):
        if b"HERE" in text:
            way = steps_to(module, line, text.index(b"HERE"))
            resolve, inside = resolver_at(definitions, module, path, way)
            guards = guards_of(module, way)
            found.append(judge.judge(guards[-1].condition, resolve, inside=inside).verdict)
    return found


def test_other_files_reach_settings_by_their_names_and_by_plain_copies(definitions: Definitions) -> None:
    expected = ["false", "unknown", "unknown", "false", "false", "false", "unknown", "unknown"]
    assert verdicts(definitions, OTHER) == expected


def test_files_that_are_not_of_the_process_are_not_judged(definitions: Definitions) -> None:
    assert set(verdicts(definitions, OTHER, "bench/run.py")) == {"unknown"}
    rebinding = OTHER.replace("self.server_args = server_args", "self.server_args = copy(server_args)")
    assert set(verdicts(definitions, rebinding)) == {"unknown"}


def test_writes_in_other_files_count_outside_of_the_class(definitions: Definitions) -> None:
    listing = "core/a.py:3:    server_args.fast = True\ncore/args.py:9:  args.size = args.total_size\n"
    read_outside(definitions, listing + "core/b.py:4:  get_args().level = pick(\nnonsense\n")
    assert [(w.path, w.value) for w in definitions.outside["fast"]] == [("core/a.py", True)]
    assert "size" not in definitions.outside, "the settings file's own lines are read from its tree"
    assert verdicts(definitions, OTHER)[3] == "unknown"
    assert judged(definitions, "self.fast").verdict == "false"


def test_the_pattern_for_writes_elsewhere_finds_writes_only() -> None:
    import re

    pattern = re.compile(outside_pattern(ENGINE))
    assert pattern.search("  server_args.x = 1")
    assert pattern.search("get_args().x += 1")
    assert pattern.search("self.server_args.x = (")
    for text in ("server_args.x == 1", "f(server_args.x)", "my_server_args.x = 1", "server_args.x.y"):
        assert not pattern.search(text)


def test_setting_by_a_computed_name_makes_every_setting_open() -> None:
    source = SOURCE.replace(
        "        self.pick()\n", "        for k, v in more():\n            setattr(self, k, v)\n"
    )
    definitions = read_definitions(ENGINE, parse(source.replace("def pick", "def pick").encode()))
    way = steps_to(definitions.module, 1, 0)
    resolve, _ = resolver_at(definitions, definitions.module, "core/x.py", way)
    condition = ast.parse("server_args.size > 1", mode="eval").body
    assert Judge.of(definitions, []).judge(condition, resolve).verdict == "unknown"


def test_a_file_without_the_class_is_refused() -> None:
    with pytest.raises(SyntaxError, match="no class Args"):
        read_definitions(ENGINE, parse(b"x = 1\n"))
