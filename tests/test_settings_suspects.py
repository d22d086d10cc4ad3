from __future__ import annotations

from typing import Any

import pytest

from tests.settings_small import SmallTree, given
from tools.settings.suspects import Suspect, suspects
from tools.settings.types import Cite, Definition, DerivationStep, Effective, Evaluation

SERVER = """
class Runner:
    def capture(self):
        if self.server_args.no_graph:
            return
        self.graphs = CudaGraphRunner(self)
        self.graphs.replay()

class Loop:
    def __init__(self, server_args):
        self.overlap = not server_args.no_overlap
        self.verbose = server_args.verbose
    def run(self):
        if self.overlap:
            return self.overlap_loop()
        return self.plain_loop()
    def talk(self):
        if self.verbose:
            log_everything()
    def pipeline(self):
        while True:
            if self.server_args.depth > 0:
                out = self.relay(1)
            self.launch()
            if self.server_args.depth == 0:
                out = self.relay(1)

def dispatch(server_args, loop):
    if server_args.stages > 1:
        loop.pipeline()

def main(server_args):
    loop = Loop(server_args)
    dispatch(server_args, loop)
    Runner().capture()
    loop.run()
"""
TYPES = {"no_graph": "bool", "no_overlap": "bool", "verbose": "bool", "depth": "int", "stages": "int"}
DEFAULTS: dict[str, Any] = {
    "no_graph": False,
    "no_overlap": False,
    "verbose": False,
    "depth": 0,
    "stages": 1,
}
WHERE = Cite("srt/server_args.py", 1, 1, "1.0", "")


def of(flags: dict[str, Any], evaluation: Evaluation | None = None) -> list[Suspect]:
    definitions = {
        name: Definition(name, "field", "ServerArgs", WHERE, TYPES[name], default)
        for name, default in DEFAULTS.items()
    }
    tree = SmallTree({"srt/server_args.py": "", "srt/server.py": SERVER})
    return list(suspects(tree, definitions, evaluation or given(DEFAULTS, flags)))


def kinds(found: list[Suspect]) -> dict[str, str]:
    return {one.name: one.kind for one in found}


def test_a_flag_that_switches_graphs_off_leads() -> None:
    first, *_ = of({"no_graph": True})
    assert (first.name, first.kind, first.value, first.default) == ("no_graph", "off by flag", True, False)
    reason = first.reasons[0]
    assert reason.text == (
        "with no_graph = True, `self.server_args.no_graph` leaves out CudaGraphRunner(), replay() "
        "by returning early"
    )
    assert reason.cite is not None and (reason.cite.path, reason.cite.line) == ("srt/server.py", 4)


def test_a_default_that_keeps_the_fast_path_is_none() -> None:
    assert kinds(of({})) == {}


def test_a_copy_is_followed_to_the_branch() -> None:
    (found,) = of({"no_overlap": True})
    assert "(through self.overlap) leaves out overlap_loop()" in found.reasons[0].text


def test_a_flag_without_effect_on_speed_only_differs() -> None:
    (found,) = of({"verbose": True})
    assert found.kind == "differs from default" and found.score < 1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [({"stages": 4}, "fast path unused"), ({}, None), ({"stages": 4, "depth": 1}, "differs from default")],
)
def test_a_default_that_puts_work_off_where_a_flag_leads_there(
    flags: dict[str, Any], expected: str | None
) -> None:
    found = of(flags)
    assert kinds(found).get("depth") == expected
    if expected == "fast path unused":
        depth = next(one for one in found if one.name == "depth")
        assert depth.reasons[0].text.endswith("puts off relay() from line 23 to line 25, after launch()")
        assert any(r.text == "it matters since stages is 4 (server_args.stages > 1)" for r in depth.reasons)


@pytest.mark.parametrize(("logged", "words"), [(None, "without a word"), ("off now", "logged: off now")])
def test_an_overwrite_that_fired(logged: str | None, words: str) -> None:
    step = DerivationStep("overwrite", True, True, WHERE, "self.no_overlap = True", logged=logged)
    settings = dict(given(DEFAULTS, {}).settings)
    settings["no_overlap"] = Effective("no_overlap", True, True, steps=(step,))
    (found,) = of({}, Evaluation(settings, True))
    assert found.kind == "off by overwrite"
    assert any(words in reason.text for reason in found.reasons)


def test_an_unknown_value_is_no_suspect() -> None:
    settings = dict(given(DEFAULTS, {"no_graph": True}).settings)
    settings["no_graph"] = Effective("no_graph", False, needs=("the GPU",))
    assert "no_graph" not in kinds(of({}, Evaluation(settings, True)))
