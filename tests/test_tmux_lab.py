"""A chat over a lab host in a real tmux, with the built-in model; its screens are pictures in docs."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agent.events import ApprovalGiven
from agent.surfaces.wrapping import cells
from tests.lab_fixtures import need_sandbox
from tests.picture import ansi_svg
from tests.terminal_fixtures import environment
from tests.test_chat import LEADLINE, events
from tests.tmux_fixtures import need_tmux, pane

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
COLUMNS, ROWS = 108, 46
SYMPTOM = "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W"

pytestmark = [need_tmux, pytest.mark.picture]


@pytest.mark.lab
@pytest.mark.slow
def test_a_change_of_a_lab_host_on_the_screen(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    need_sandbox()
    quick = environment(
        str(tmp_path), LEADLINE_EXPERIMENT_REPEATS="1", LEADLINE_EXPERIMENT_TOKENS="16", EDITOR="true"
    )
    quick.pop("PROMPT_TOOLKIT_NO_CPR")
    argv = [LEADLINE, "chat", "lab:kimi-k26-pp8", "--mode", "apply"]
    with pane(tmp_path, argv, quick, (COLUMNS, ROWS)) as it:
        it.wait("what is wrong>", 60)
        it.type(SYMPTOM)
        it.wait("Apply it?", 300)
        it.wait("needs you")
        it.wait("Plan:")  # what stands above the line is printed a moment after it
        asked = it.screen(colours=True)
        it.type("y")
        it.wait("C1 confirmed", 240)
        it.wait("C2: --pp-async-batch-depth", 120)
        it.wait("Apply it?", 60)
        tried = it.screen(colours=True, history=True)
        it.type("d another day")
        it.wait("C2 denied by", 60)
        it.wait("ask on>", 120)
        whole = it.screen(history=True)
        it.keys("C-d")
        it.wait("the simulated host is given back", 120)
    assert all(cells(row) <= COLUMNS for row in whole)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", row) for row in asked]
    for row in ("---disable-cuda-graph", "Predicted:", "Undo:", "Touches:", "Plan:", "Apply it?"):
        assert any(row in line for line in plain), row
    given = [event.decision for event in events(tmp_path) if isinstance(event, ApprovalGiven)]
    assert given == ["approved", "denied"]
    found = next(place for place, row in enumerate(tried) if "C1 concurrency" in row)
    if request.config.getoption("--renew-pictures"):
        (PICTURES / "chat.svg").write_text(ansi_svg(asked, COLUMNS), encoding="utf-8")
        (PICTURES / "chat-tried.svg").write_text(
            ansi_svg(tried[found - 8 : found + 13], COLUMNS), encoding="utf-8"
        )


@pytest.mark.parametrize(("picture", "shows"), [("chat.svg", "Apply it?"), ("chat-tried.svg", "at 1 after")])
def test_the_committed_pictures_are_whole(picture: str, shows: str) -> None:
    text = "".join(ElementTree.parse(PICTURES / picture).getroot().itertext()).replace("\xa0", " ")
    assert shows in text and "\x1b" not in text
