"""Whether an assignment happens: by the settings in force, and by what the interpreter met."""

from __future__ import annotations

import pytest

from tests.settings_overwrite_parts import METHOD, only, tree_of
from tests.settings_small import SmallTree, given, settled
from tools.settings.judging import Judging, judged
from tools.settings.overwrites import overwrites
from tools.settings.types import Condition, Evaluation


@pytest.mark.parametrize(
    ("flags", "result", "line"),
    [
        ({}, "cannot fire", 9),
        ({"mode": True}, "unknown", None),
        ({"mode": True, "dummy": True}, "cannot fire", 5),
    ],
)
def test_settings_that_nothing_overwrites_decide(
    flags: dict[str, object], result: str, line: int | None
) -> None:
    found = only(tree_of(METHOD))
    defaults = {"x": False, "mode": False, "dummy": False, "y": 2, "parts": []}
    outcome = Judging(found.tree, given(defaults, flags)).outcome(found)
    assert (outcome.result, outcome.cite and outcome.cite.line) == (result, line)
    assert result != "unknown" or "<the loop at line 11 has an item>" in outcome.needs


def met(text: str, verdict: str, line: int, column: int) -> Evaluation:
    tree = tree_of(METHOD)
    where = only(tree).cite
    condition = Condition(text, verdict, "because", where)  # type: ignore[arg-type]
    return Evaluation({}, True, verdicts={("srt/server_args.py", line, column): condition})


@pytest.mark.parametrize(
    ("text", "verdict", "line", "column", "place", "expected"),
    [
        ("not self.mode", "true", 9, 11, 1, "unknown"),
        ("self.mode", "false", 9, 15, 1, "false"),
        ("part == 1", "true", 12, 15, 3, "false"),
        ("part  ==\n 1", "false", 12, 15, 3, "true"),
        ("part", "true", 12, 15, 3, "unknown"),
    ],
)
def test_what_the_interpreter_met(
    text: str, verdict: str, line: int, column: int, place: int, expected: str
) -> None:
    conditions = judged(only(tree_of(METHOD)), met(text, verdict, line, column))
    assert conditions[place].verdict == expected


def test_a_statement_that_was_passed_by_cannot_fire() -> None:
    found = only(tree_of(METHOD))
    reached = frozenset({("srt/server_args.py", line) for line in (5, 7, 8, 9, 10)})
    outcome = Judging(found.tree, Evaluation({}, True, reached=reached)).outcome(found)
    assert (outcome.result, outcome.cite and outcome.cite.line) == ("cannot fire", 15)
    stopped = Evaluation({}, True, reached=reached, partial="too many steps")
    assert Judging(found.tree, stopped).outcome(found).result == "unknown"


def test_programs_beside_the_server_do_not_fire() -> None:
    text = "def run(server_args):\n    server_args.x = True\nif __name__ == '__main__':\n    run(make())\n"
    tree = SmallTree({"srt/server_args.py": "", "bench_x.py": text, "compile_x.py": text})
    bench, tool = overwrites(tree, "x")
    assert not bench.serving and tool.serving
    judging = Judging(tree, settled(x=False))
    assert judging.outcome(bench).result == "cannot fire"
    assert judging.outcome(tool).because.startswith("__name__ == '__main__' is false")
