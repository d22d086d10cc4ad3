"""What the documents say of the rule that keeps a change is what the rule does."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent import verdicts
from agent.state import Change
from agent.verdicts import mechanism

ROOT = Path(__file__).parent.parent
PAGE = " ".join((ROOT / "docs" / "changes.md").read_text().split())
README = " ".join((ROOT / "README.md").read_text().split())


def change(setting: str, says: str) -> Change:
    return Change(
        id="C1",
        host="gpu1",
        unit="s.service",
        setting=setting,
        from_value=None,
        to_value="1",
        reason="x",
        hypotheses=["H1"],
        predicted_effect="faster",
        mechanism=says,
        rollback="x",
        status="approved",
    )


@pytest.mark.parametrize(("name", "pattern"), verdicts._METRICS)
def test_the_page_names_every_figure_that_a_mechanism_is_observed_by(name: str, pattern: str) -> None:
    assert pattern and f"`{name}`" in PAGE


def test_a_mechanism_moves_by_more_than_the_page_says_or_gain_is_unproven() -> None:
    graphs = change("--disable-cuda-graph", "steps run by graph")
    for after, moved in ((1.04, False), (1.06, True)):
        assert mechanism(graphs, {"memory_usage.graph": 1.0}, {"memory_usage.graph": after})[1] is moved
    for words in (
        "by more than 5 % is enough",
        '"cause unproven"',
        f"hide {verdicts.HARM:.0%}".replace("%", " %"),
    ):
        assert words in PAGE


def test_a_mechanism_without_a_figure_is_told_as_that_in_both() -> None:
    depth = change("--pp-async-batch-depth", "a micro-batch waits ready")
    seen = {"gpu_power_w": 100.0, "memory_usage.graph": 1.0}
    assert mechanism(depth, seen, seen) == ([], None, "mechanism not observable")
    for text in (PAGE, README):
        assert '"mechanism not observable"' in text
    assert "the metric that its mechanism names" not in README + PAGE
