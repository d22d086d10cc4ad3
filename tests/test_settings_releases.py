"""Definitions against what real releases show of themselves, and the table over all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab import package
from evals.releases import counting, fetch, table
from evals.releases.compare import compare
from evals.releases.pins import SAMPLE
from tools.settings.types import Cite, Definition

AT = Cite("a.py", 1, 1, "1", "")
COMMITTED = Path(__file__).parents[1] / "docs" / "settings-releases.md"


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize(("engine", "version"), sorted(SAMPLE))
def test_every_setting_that_a_release_shows_is_found(engine: str, version: str) -> None:
    cache = Settings().cache_dir
    folder = package.fetch(engine, version, cache, pin=SAMPLE[engine, version])
    row = counting.count(engine, version, folder, counting.interpreter(cache))
    assert row.counted is not None and row.counted.fields > 70 and row.counted.options > 80
    assert not row.counted.missing, row.says
    assert not row.counted.wrong, row.says
    assert not row.counted.beyond, row.says


def _definition(name: str, **more: Any) -> Definition:
    return Definition(name, "field", "ServerArgs", AT, **more)


def _shown(**more: Any) -> dict[str, Any]:
    option = {"names": ["--a", "-a"], "dest": "a", "default": [1], "required": False, "choices": [["x", "y"]]}
    empty = {"fields": {"a": [1]}, "options": [option], "sections": {}, "environment": []}
    return {**empty, **more}


def test_what_is_missing_wrong_open_or_beyond_is_told_apart() -> None:
    good = _definition("a", default=1, flags=("--a", "-a"), choices=("y", "x"))
    counted = compare(_shown(), {"a": good})
    assert (counted.shown, counted.missing, counted.wrong, counted.unknown, counted.beyond) == (
        3,
        (),
        (),
        (),
        (),
    )
    assert compare(_shown(), {}).missing == ("a", "--a", "-a")
    wrong = compare(_shown(), {"a": _definition("a", default=2, flags=("--a", "-a"), choices=("x",))})
    assert wrong.wrong == ("a: 2, not 1", "a: choices ['y'] differ")
    open_ = _definition("a", default_known=False, flags=("--a", "-a", "--more"))
    assert compare(_shown(), {"a": open_}).unknown == ("a: 1",)
    assert compare(_shown(), {"a": open_}).beyond == ("--more",)
    more = _shown(sections={"cache": ["size"]}, environment=["SGLANG_A"])
    assert compare(more, {"a": good}).missing == ("cache.size", "SGLANG_A")


def test_releases_are_ordered_by_their_numbers() -> None:
    versions = ["0.5.10", "0.5.9", "0.5.9.post2", "0.5.10.post1", "0.4.0"]
    assert sorted(versions, key=fetch.order) == ["0.4.0", "0.5.9", "0.5.9.post2", "0.5.10", "0.5.10.post1"]


def test_the_table_says_what_could_not_be_counted() -> None:
    counted = compare(_shown(), {"a": _definition("a", default=2, flags=("--a",))})
    text = table.render(
        [table.Row("sglang", "0.4.0", counted, 9, 77), table.Row("sglang", "0.4.1", failed="gone")]
    )
    assert "## sglang: 2 releases" in text and "1 releases could not be counted" in text
    assert "| 0.4.0 | 1 | 2 | 0 | 0 | 1 | 1 | 0 | 0 | 77 |" in text and "| 0.4.1 | gone |" in text
    assert not table.Row("sglang", "0.4.1", failed="gone").good
    more = table.render([table.Row("vllm", "0.6.0", counted)], text)
    assert more.startswith(text) and "## vllm: 1 releases" in more
    assert table.render([table.Row("vllm", "0.6.0", counted)], more) == more


def test_the_committed_table_covers_the_releases_and_shows_nothing_missing_or_wrong() -> None:
    text = COMMITTED.read_text()
    rows = re.findall(r"^\| (\d\S+) \|(.*)\|$", text, re.MULTILINE)
    sglang = text.partition("## sglang")[2].partition("\n## ")[0]
    for version in ("0.4.0", "0.4.10.post2", "0.5.11", "0.5.23"):
        assert f"\n| {version} |" in sglang
    assert len(rows) > 110
    for version, cells in rows:
        numbers = [int(cell) for cell in cells.split("|")]
        assert numbers[4:6] == [0, 0] and numbers[7] == 0, f"{version}: {cells}"
