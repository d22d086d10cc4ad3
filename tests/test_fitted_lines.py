"""What commands say in a line fits the terminal it is shown on, broken between words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.settings_folder import SettingsFolder, folder
from tests.terminal_fixtures import Terminal

__all__ = ["folder"]

LEADLINE = str(Path(sys.executable).with_name("leadline"))


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize(
    ("words", "code", "ends"),
    [
        ("sessions list", 0, "leadline ask HOST SYMPTOM"),
        ("cases list", 0, "leadline ask HOST SYMPTOM"),
        ("approvals list", 0, "leadline ask HOST SYMPTOM --mode apply"),
        ("playbooks list", 0, ""),
        ("hosts list", 0, "or run leadline init."),
        ("cases show nothing-of-that-name", 2, ""),
        ("ask gpu1 x --mode aply", 2, "--mode: 'aply' is none of read-only, propose, apply; nearest: apply"),
    ],
)
def test_lines_break_between_words(
    folder: SettingsFolder, words: str, code: int, ends: str, columns: int
) -> None:
    folder.load()
    environment = {"HOME": str(folder.root), "XDG_STATE_HOME": str(folder.root / "state"), "TERM": "xterm"}
    terminal = Terminal([LEADLINE, *words.split()], environment, columns=columns)
    try:
        assert terminal.ends() == code
        rows = terminal.text.splitlines()
    finally:
        terminal.close()
    assert [row for row in rows if len(row) > columns and " " in row.strip()] == []
    assert " ".join(terminal.text.split()).endswith(ends)
