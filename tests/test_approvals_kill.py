"""`kill -9` on both sides of every write to the store: nobody is asked twice, nothing runs twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    argv = [sys.executable, str(HERE / "killed_approval.py"), str(tmp_path_factory.mktemp("killed"))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.threat(15)
def test_nothing_runs_twice(
    rows: list[dict[str, Any]], record_property: Callable[[str, object], None]
) -> None:
    killed = [row for row in rows if row["codes"] != [0]]
    assert len(killed) >= 14, [row["name"] for row in rows]
    for row in rows:
        assert row["codes"] in ([0], [-9, 0]) and row["ended"] == 1, row
        assert row["applied"] <= 1 and row["plans"] <= 1, row
        assert (row["runs"], row["restarts"]) in (("graphs", 1), ("old", 0)), row
    record_property("cases", len(killed))


def test_nobody_is_asked_twice_for_one_plan(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["asked"] <= row["planned"] and row["given"] <= row["asked"], row
        if not row["name"].startswith("message"):
            assert row["asked"] == row["planned"] == 1, row


def test_what_was_decided_is_not_asked_again(rows: list[dict[str, Any]]) -> None:
    by_name = {row["name"]: row for row in rows}
    # A terminal writes: asked, decided, used. What was decided is kept from the second write on.
    assert by_name["terminal 2 before"]["answers"] == 2, "killed before the answer was kept"
    assert by_name["terminal 2 after"]["answers"] == 1
    assert by_name["terminal 3 after"]["answers"] == 1
    assert all(row["answers"] == 0 for row in rows if row["name"].startswith("elsewhere"))


def test_no_approval_is_left_that_could_be_used(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert not {"waiting", "approved"} & set(row["states"]), row


def test_words_void_what_waits_on_whatever_side_they_were_lost(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["name"].startswith("message"):
            assert row["states"][0] in ("voided", "used"), row
