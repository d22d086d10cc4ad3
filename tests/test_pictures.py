from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agent.casefile import build
from agent.casefile_html import to_html
from agent.events import ConclusionChecked, Event
from agent.surfaces.answer_text import answer
from agent.transcript import read_events
from tests.picture import beyond_the_edge, need_chromium, png, screenshot, terminal_svg
from tests.test_casefile import EVIL
from tests.test_casefile_html import full, page
from tools.artifacts import ArtifactStore

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
SYMPTOM = "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W"
HOST = "lab:kimi-k26-pp8"
APPLY = ("--mode", "apply", "--approve")

pytestmark = pytest.mark.picture


@need_chromium
@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("word", ["plain", f"{EVIL} {'x' * 3000}"])
def test_nothing_stands_beyond_the_edge(tmp_path: Path, width: int, word: str) -> None:
    assert beyond_the_edge(page(full(tmp_path, word, word)), width, tmp_path) == []


@need_chromium
def test_what_stands_beyond_the_edge_is_seen(tmp_path: Path) -> None:
    html = page(full(tmp_path, "plain")).replace("</main>", "<div style='width: 2000px'>wide</div></main>")
    assert beyond_the_edge(html, 1400, tmp_path) == ["DIV : wide"]


@need_chromium
def test_a_page_makes_a_picture(tmp_path: Path) -> None:
    (tmp_path / "case.html").write_text(page(full(tmp_path, "plain")), encoding="utf-8")
    screenshot(tmp_path / "case.html", tmp_path / "case.png", (1280, 900), scale=1.5)
    width, height, colours = png(tmp_path / "case.png")
    assert (width, height) == (1920, 1350) and colours > 32


def test_a_run_makes_a_picture(tmp_path: Path) -> None:
    story = full(tmp_path, "</text><script> \x1b[2J & plain")
    svg = run_svg(story.events, most=30)
    shown = "".join(ElementTree.fromstring(svg).itertext()).replace("\xa0", " ")
    assert f'$ leadline ask {HOST} "{SYMPTOM}"' in shown and "verifier: 5 of 6 claims verified" in shown
    assert "lines left out of this picture" in shown
    assert "\x1b" not in svg and "<script" not in svg
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", svg)


def test_the_committed_pictures_are_whole() -> None:
    width, height, colours = png(PICTURES / "case-file.png")
    assert width > 1000 and height > 800 and colours > 32
    shown = "".join(ElementTree.parse(PICTURES / "run.svg").getroot().itertext()).replace("\xa0", " ")
    assert "$ leadline ask" in shown and "claims verified" in shown


@need_chromium
@pytest.mark.slow
def test_pictures_are_renewed_on_purpose(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not request.config.getoption("--renew-pictures"):
        pytest.skip("the committed pictures stay as they are; --renew-pictures makes them anew from a run")
    leadline = Path(sys.executable).parent / "leadline"
    subprocess.run([leadline, "ask", HOST, SYMPTOM, *APPLY, "-q", "--out", tmp_path], check=True, timeout=600)
    events = read_events(tmp_path / "transcript.jsonl")
    store = ArtifactStore(tmp_path / "artifacts")
    case = tmp_path / "case.html"
    case.write_text(to_html(build(events, store), events, store), encoding="utf-8")
    PICTURES.mkdir(parents=True, exist_ok=True)
    screenshot(case, PICTURES / "case-file.png", (1280, 860), scale=1.5)
    (PICTURES / "run.svg").write_text(run_svg(events), encoding="utf-8")


def run_svg(events: list[Event], most: int = 64) -> str:
    last = next(event for event in reversed(events) if isinstance(event, ConclusionChecked))
    said = re.sub(r"\n*Case file: .*", "\n\nCase file: case.html", answer(last.conclusion, ["case.html"]))
    return terminal_svg(f'leadline ask {HOST} "{SYMPTOM}" {" ".join(APPLY)}', events, said, most=most)
