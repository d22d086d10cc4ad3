"""A disk that cannot be used is told in one line, whatever the command was doing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
