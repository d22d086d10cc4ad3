"""Bars, progress and the status line, drawn at any width."""

from __future__ import annotations

import json

import pytest

from agent.events import BudgetUsed, HypothesisMoved, ModelChosen, Progress, ToolFinished, ToolStarted
from agent.state import Hypothesis, HypothesisStatus, JudgementCheck, LevelComparison, Prediction
from agent.surfaces.bars import before_after, sweep
from agent.surfaces.progress import Bars, bar, share_of
from agent.surfaces.status import Status
from agent.surfaces.wrapping import cells


def level(concurrency: int, before: float, after: float) -> LevelComparison:
    more = {"ratio": after / before, "low": None, "high": None, "repeats": 3, "why": ""}
    verdict = "improved" if after > before else "worse"
    known = {"concurrency": concurrency, "before": before, "after": after, "verdict": verdict}
    return LevelComparison.model_validate(known | more)


LEVELS = [level(1, 24.4, 44.3), level(8, 97.7, 60.0)]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("plain", [False, True])
def test_before_and_after_are_bars_to_one_scale(width: int, plain: bool) -> None:
    lines = before_after(LEVELS, width, plain=plain)
    assert [style for _, style in lines] == ["blue", "green", "blue", "red"]
    assert all(cells(text) <= width for text, _ in lines)
    drawn = [sum(one in "█#" for one in text) for text, _ in lines]
    assert drawn[2] > drawn[3] > drawn[1] > drawn[0] > 0
    assert "44.3 tok/s" in lines[1][0] and all(text.isascii() for text, _ in lines) is plain


def test_a_sweep_is_drawn_and_a_pair_of_levels_is_none() -> None:
    runs = [{"concurrency": level, "output_throughput": 10.0 * level} for level in (8, 1, 2, 2)]
    lines = [text for text, _ in sweep(json.dumps({"runs": runs}), 60)]
    assert [line.split()[1] for line in lines] == ["1", "2", "8"] and lines[2].endswith(" 80 tok/s")
    assert sweep(json.dumps({"runs": runs[:2]}), 60) == []
    for odd in ("no JSON", "[]", '{"runs": 1}', '{"runs": [1, {"concurrency": "8"}]}', '{"runs": []}'):
        assert sweep(odd, 60) == []


@pytest.mark.parametrize(
    ("told", "share"),
    [
        ("concurrency 8, run 2: 4 of 16 requests done", 0.25),
        ("waiting for readiness: 30 s of 400 s, active", 0.075),
        ("reading: 1.5 MB of 3.0 MB", 0.5),
        ("20 of 10", 1.0),
        ("0 of 0", None),
        ("SSH answers", None),
    ],
)
def test_what_tools_tell_is_a_share(told: str, share: float | None) -> None:
    assert share_of(told) == share


def test_a_bar_is_as_wide_as_it_is_asked_for() -> None:
    for width in (6, 20):
        for share in (0.0, 0.013, 0.5, 0.999, 1.0):
            assert cells(bar(share, width)) == width == len(bar(share, width, plain=True))


def started(call: str) -> ToolStarted:
    return ToolStarted(call=call, tool_call_id=call, tool="benchmark")


def finished(call: str) -> ToolFinished:
    return ToolFinished(call=call, tool_call_id=call, tool="benchmark", status="ok", view="{}")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_running_calls_have_a_line_each_until_they_end(width: int) -> None:
    bars = Bars()
    for number in range(6):
        bars.feed(started(f"t{number}"))
        bars.feed(Progress(call=f"t{number}", text="concurrency 8: 慢 of 3, 4 of 16 requests done \x1b[2J"))
    lines = bars.lines(width)
    assert len(lines) == 5 and lines[-1] == "  and 2 more"
    assert all(cells(line) <= width and "\x1b" not in line for line in lines)
    assert " 25%" in lines[0]
    for number in range(6):
        bars.feed(finished(f"t{number}"))
    assert bars.lines(width) == []


def hypothesis(name: str, status: HypothesisStatus) -> HypothesisMoved:
    prediction = Prediction(id="P1", favours="for", says="x", check=JudgementCheck(kind="judgement"))
    found = Hypothesis(id=name, statement="x", rank=1, predictions=[prediction], status=status)
    return HypothesisMoved(hypothesis=found)


@pytest.mark.parametrize("width", [1, 10, 20, 40, 60, 80, 200])
def test_the_status_line_fits_and_leaves_out_the_least_wanted_first(width: int) -> None:
    status = Status(["慢-host-of-a-long-name"], "apply", "a-model-with-a-long-name/of-many-parts-indeed")
    kinds: tuple[HypothesisStatus, ...] = ("open", "supported", "confirmed", "refuted")
    for number, kind in enumerate(kinds):
        status.feed(hypothesis(f"H{number}", kind))
    status.feed(BudgetUsed(turns=3, tokens=1_234_567, cost_usd=0.12, wall_s=1.0))
    status.begin("working")
    status.feed(started("t7"))
    text = "".join(piece[1] for piece in status.line(width))
    assert 0 < cells(text) <= width
    if width >= 40:
        assert "t7" in text
    if width == 200:
        for part in (
            "1 open, 1 supported, 1 confirmed, 1 refuted",
            "$0.12",
            "1,234,567 tokens",
            "apply",
            "t7 benchmark",
        ):
            assert part in text


def test_a_model_is_named_whole_and_another_takes_its_place() -> None:
    status = Status(["gpu1"], "apply", "playbook")
    status.feed(ModelChosen(turn=1, model="openai:qwen3:8b"))
    assert "".join(piece[1] for piece in status.line(80)).endswith(" qwen3:8b")
    status.take("openai:large")
    assert "".join(piece[1] for piece in status.line(80)).endswith(" large")


@pytest.mark.parametrize("production", [False, True])
def test_a_host_of_production_is_marked(production: bool) -> None:
    def is_production(name: str) -> bool:
        return production and name == "gpu2"

    status = Status(["gpu1", "gpu2"], "apply", "m", is_production=is_production)
    assert (status.line(80)[0][0] == "class:status.production") is production
