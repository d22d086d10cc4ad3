"""A disk that cannot be used is told in one line, whatever the command was doing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import ThreadGone
from tests.scripted_parts import STORY, begin, run
from tests.terminal_fixtures import environment, typing
from tests.test_chat import SYMPTOM, program

COMMAND = str(Path(sys.executable).with_name("leadline"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["tool", "local", "run", '{"command": "uname -a"}'],
        ["lab", "up", "kimi-k26-pp8"],
        ["ask", "local", "slow"],
    ],
    ids=lambda words: words[0],
)
def test_an_unusable_folder_is_one_line(arguments: list[str]) -> None:
    places = {"LEADLINE_STATE_DIR": "/dev/null/state", "XDG_CACHE_HOME": "/dev/null/cache"}
    done = subprocess.run(
        [COMMAND, *arguments],
        env={**os.environ, **places},  # noqa: TID251
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("leadline: cannot ") and "/dev/null/" in last and "set LEADLINE_STATE_DIR" in last


async def test_a_thread_that_is_removed_while_it_is_open_writes_nothing_more(tmp_path: Path) -> None:
    session = begin(tmp_path, STORY, thread="one")
    shutil.rmtree(session.folder)
    with pytest.raises(ThreadGone, match="was removed while its thread was at work"):
        await run(session)


async def test_one_that_was_put_in_its_place_is_not_mistaken_for_it(tmp_path: Path) -> None:
    session = begin(tmp_path, STORY, thread="one")
    path = session.folder / "transcript.jsonl"
    shutil.copy(path, tmp_path / "other")
    (tmp_path / "other").rename(path)
    with pytest.raises(ThreadGone):
        await run(session)


@pytest.mark.parametrize("story", ["slow", "quick"])
def test_a_chat_whose_thread_is_removed_ends_with_one_line(tmp_path: Path, story: str) -> None:
    with typing(program(tmp_path, story), environment(str(tmp_path))) as terminal:
        terminal.expect("what is wrong>")
        terminal.type(SYMPTOM)
        terminal.expect("I look for long." if story == "slow" else "ask on>")
        shutil.rmtree(tmp_path / "threads" / "one")
        if story == "quick":
            terminal.type("what else?")
        terminal.expect("agent.errors.ThreadGone: ")
        assert terminal.ends() == 1 and terminal.text.count("was removed while") == 1
        assert "go on with" not in terminal.text
