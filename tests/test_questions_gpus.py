"""The table of GPUs: what one draws stands beside what one may draw, and what is not told is no zero."""

from __future__ import annotations

from typing import Any

import pytest

from agent.models.questions_answer import Look
from tests.test_questions import concluded, view

CARD = {"name": "H200", "memory_mib": 143771, "power_limit_w": 600.0, "utilization": 0, "temperature_c": 30}


def look(host: str, *cards: dict[str, Any]) -> Look:
    rows = [{"index": number, **card} for number, card in enumerate(cards)]
    return Look(host, view(host) | {"hardware": {"gpus": rows}})


SAME = look("gpu1", *[{**CARD, "power_w": 65.0}] * 8)
APART = look("gpu2", {**CARD, "power_w": 312.4, "temperature_c": 71}, {**CARD, "power_w": 65.2})
SILENT = look("gpu3", {"name": "L40", "utilization": 0, "power_w": None, "power_limit_w": None})


@pytest.mark.parametrize(
    ("seen", "cells"),
    [
        (SAME, ["65", "600", "140", "30"]),
        (APART, ["65 to 312", "600", "140", "71"]),
        (SILENT, ["-", "-", "-", "-"]),
    ],
)
def test_each_card_stands_beside_its_own_limit(seen: Look, cells: list[str]) -> None:
    table = concluded("how many GPUs are idle?", [seen], []).table
    assert table is not None
    assert list(table.head[4:]) == ["W EACH", "LIMIT W EACH", "GIB EACH", "HOTTEST C"]
    assert list(table.rows[0][4:]) == cells


def test_who_asks_for_the_power_is_told_the_sum_too() -> None:
    said = concluded("how much power do the GPUs draw?", [SAME, SILENT], []).summary
    assert "W EACH: 65 on gpu1; - on gpu3. In all: 520 W on gpu1." in said
    assert "In all" not in concluded("how many GPUs are idle?", [SAME], []).summary
