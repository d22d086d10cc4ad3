"""What a script reads of `leadline ask`: one object with the same fields however it ended, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ExitCode
from agent.surfaces.result import nothing_began, result_of
from tests.scripted_parts import STORY, begin, run
from tests.terminal_fixtures import environment

LEADLINE = str(Path(sys.executable).with_name("leadline"))
LOG = b"torch.OutOfMemoryError: CUDA out of memory. Wanted 2.00 GiB\n"
FIELDS = [
    "schema_version",
    "type",
    "subtype",
    "is_error",
    "result",
    "session_id",
    "num_turns",
    "duration_ms",
    "usage",
    "total_cost_usd",
    "exit_code",
    "conclusion",
    "files",
]
DOWN = ["--model", "absent", "--base-url", "http://127.0.0.1:9/v1"]


def leadline(root: Path, *words: str, log: bytes = LOG) -> subprocess.CompletedProcess[bytes]:
    own = environment(str(root), LEADLINE_MODEL_RETRIES="0")
    return subprocess.run(
        [LEADLINE, *words], input=log, env=own, capture_output=True, check=False, timeout=60
    )


def result(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert list(row) == FIELDS and row["schema_version"] == 1 and row["type"] == "result"
    assert row["exit_code"] == done.returncode
    return row


async def test_what_a_session_used_is_summed(tmp_path: Path) -> None:
    session = begin(tmp_path, STORY, thread="one")
    await run(session)
    row = result_of(session, ExitCode.DONE, ["case.md"])
    assert row["usage"] == {"input_tokens": 50, "output_tokens": 0, "estimated": False}
    assert row["num_turns"] == 5 and row["subtype"] == "diagnosed" and row["is_error"] is False
    assert row["conclusion"]["summary"] == row["result"] == "Graphs are off." and row["duration_ms"] > 0
    assert list(row) == list(nothing_began(ExitCode.USAGE, "")) == FIELDS


def test_one_object_and_nothing_else(tmp_path: Path) -> None:
    done = leadline(tmp_path, "-p", "-", "why did it die", "--json")
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1
    row = result(done)
    assert row["subtype"] == "needs_person" and row["session_id"] and len(row["files"]) == 4


def test_a_stream_of_events_ends_with_the_same_object(tmp_path: Path) -> None:
    words = ["ask", "-", "why did it die", "--output-format", "stream-json", "--exit-code"]
    done = leadline(tmp_path, *words)
    assert done.returncode == 3
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["type"] == "started" and rows[-2]["type"] == "ended"
    row = result(done)
    assert row["subtype"] == "needs_person" and row["is_error"] is False
    assert [one["type"] for one in rows].count("result") == 1


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_an_endpoint_that_is_down_is_an_object_too(tmp_path: Path, form: str) -> None:
    done = leadline(tmp_path, "ask", "-", "why did it die", "--output-format", form, *DOWN)
    assert done.returncode == 7
    row = result(done)
    assert row["subtype"] == "error" and row["is_error"] is True and "absent" in row["result"]
    assert row["session_id"] in row["result"] and row["conclusion"] is None


def test_what_could_not_begin_is_an_object_too(tmp_path: Path) -> None:
    done = leadline(tmp_path, "ask", "-", "why", "--json", "--mode", "apply")
    assert done.returncode == 2
    row = result(done)
    assert row["subtype"] == "error" and row["session_id"] is None and "needs a host" in row["result"]


def test_an_error_is_told_once_with_the_way_back(tmp_path: Path) -> None:
    done = leadline(tmp_path, "ask", "-", "why did it die", *DOWN)
    told = done.stderr.decode()
    assert done.returncode == 7 and done.stdout == b""
    assert told.count("model absent at") == 1 and told.count("nothing gathered is lost") == 1, told
    (folder,) = (tmp_path / "threads").iterdir()
    assert f"go on with: leadline ask - --resume {folder.name}" in told
