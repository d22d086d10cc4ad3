"""Tables and checks are readable from 40 to 200 columns, whole in a pipe, and lose no word."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from agent.answer_table import AnswerTable
from agent.looks import Seen
from agent.state import Conclusion
from agent.surfaces import facts_table
from agent.surfaces.answer_text import answer
from agent.surfaces.doctor import text as doctor_text
from agent.surfaces.doctor_types import broken, ok, warning
from tests.settings_folder import SettingsFolder, folder
from tests.terminal_fixtures import Terminal, environment
from tools.text_table import filled, table

__all__ = ["folder"]

WIDTHS = [40, 80, 200]
LONG = "may not read the journal, and 2 more to put right; do: leadline host check gpu-long.example"
HEAD = ("HOST", "STATE", "GPUS", "")
ROWS = [
    ("gpu1", "ok", "8 x NVIDIA H200", ""),
    ("gpu-long.example", "broken", "", LONG),
    ("主机", "down", "", "nothing listens on 10.0.0.1 port 22"),
]


def fits(text: str, width: int) -> bool:
    """Tell whether no line is longer than a width, but for a word that is."""
    return all(cell_len(line) <= width or " " not in line.strip() for line in text.splitlines())


def words(text: str) -> set[str]:
    return set(text.split())


@pytest.mark.parametrize("width", [*WIDTHS, 24, 55, 120])
def test_a_table_fits_and_loses_no_word(width: int) -> None:
    text = table(HEAD, ROWS, width)
    assert fits(text, width), text
    assert {word for row in ROWS for cell in row for word in cell.split()} <= words(text)
    assert "…" not in text


def test_a_table_that_fits_is_one_line_a_row_and_one_that_does_not_wraps_its_widest_column() -> None:
    assert table(HEAD, ROWS, 200) == table(HEAD, ROWS, widest=200)
    head, first, second, *rest = table(HEAD, ROWS, 80).splitlines()
    place = second.index("may not")
    assert len(head.split()) == 3 and first.startswith("gpu1 ") and len(rest) > 1
    *wrapped, last = rest
    assert not any(line[:place].strip() for line in wrapped), rest
    assert last.startswith("主机 ") and last.endswith("nothing listens on 10.0.0.1 port 22")


def test_where_no_columns_fit_each_row_is_a_list_of_its_fields() -> None:
    lines = table(HEAD, ROWS, 40).splitlines()
    assert lines[:3] == ["gpu1", "  STATE: ok", "  GPUS: 8 x NVIDIA H200"]
    assert lines[3:5] == ["gpu-long.example", "  STATE: broken"]
    assert lines[5].startswith("  may not read") and all(line.startswith("    ") for line in lines[6:8])
    assert lines[-3:] == ["主机", "  STATE: down", "  nothing listens on 10.0.0.1 port 22"]


def test_words_are_never_broken() -> None:
    assert filled("see /a/path/that/is/long now", 8) == ["see", "/a/path/that/is/long", "now"]
    assert filled("", 8) == [""] and filled("主机 主机", 6) == ["主机", "主机"]


CHECKS = [
    ok("settings", "read from /home/ana/.config/leadline/config.toml"),
    warning("parallel tool calls", "1 where two were asked for: an investigation takes more turns"),
    broken("host gpu1", "nothing listens on 10.0.0.1 port 22", "check the port, and that sshd runs there"),
]


@pytest.mark.parametrize("width", WIDTHS)
def test_doctor_fits(width: int) -> None:
    text = doctor_text(CHECKS, width)
    assert fits(text, width), text
    assert words(doctor_text(CHECKS)) == words(text)
    lines = text.splitlines()
    assert lines[0].startswith("ok       settings") and lines[-1] == "1 broken, 1 to be watched"
    assert (lines[0] == "ok       settings") is (width == 40)


@pytest.mark.parametrize("width", WIDTHS)
def test_facts_and_answers_fit(width: int) -> None:
    changed = ["sglang.service flag cuda-graph-max-bs: 64 -> 128, since somebody set it in a drop-in"]
    looks = [Seen("gpu1", flat={"kernel": "a"}, changed=changed), Seen("gpu2", problem=f"it is down; {LONG}")]
    text = facts_table.told(looks, width)
    lost = words(facts_table.told(looks)) - words(text) - {"-", *facts_table.HEAD}
    assert fits(text, width) and not lost, (text, lost)
    rows = AnswerTable(head=["host", "engine", "why"], rows=[["gpu1", "sglang 0.5.11", LONG]])
    found = Conclusion(outcome="answered", summary="one", claims=[], table=rows)
    shown = answer(found, [], width=width).split("\n\n")[1]
    assert fits(shown, width) and words(LONG) <= words(shown), shown
    assert len(answer(found, []).split("\n\n")[1].splitlines()) == 2, "a pipe gets a line a row"


FLEET = """
[hosts.gpu1]
ssh = "ops@gpu1.pool-a.example.net"
unit = "sglang-decode.service"
groups = ["pool-a", "pool-b"]
role = "decode"
production = true
notes = "The flag was set because the capture failed on this build of the kernel."
"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("words_", [["hosts", "list"], ["hosts", "show", "gpu1"], ["doctor"]])
def test_at_a_real_terminal_of_each_width(folder: SettingsFolder, width: int, words_: list[str]) -> None:
    folder.person.write_text(FLEET if words_[0] == "hosts" else "")
    own = environment(str(folder.root / "state"))
    own |= {"HOME": str(folder.root), "XDG_CONFIG_HOME": str(folder.person.parents[1]), "COLUMNS": "17"}
    leadline = str(Path(sys.executable).with_name("leadline"))
    terminal = Terminal([leadline, *words_], own, columns=width)
    try:
        assert terminal.ends() == 0, terminal.text
        assert fits(terminal.text, width), terminal.text
        assert words_[0] != "hosts" or "sglang-decode.service" in terminal.text
        assert words_[0] != "doctor" or "the built-in playbooks" in " ".join(terminal.text.split())
    finally:
        terminal.close()
