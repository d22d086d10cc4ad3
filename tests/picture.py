"""Make pictures of what a person sees: a page by headless Chromium, a run on the terminal as SVG."""

from __future__ import annotations

import io
import json
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from agent.events import Live, TextDelta, TurnTaken
from agent.surfaces.terminal import Terminal

CHROMIUM = shutil.which("chromium")
need_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
_THEME = TerminalTheme(
    (19, 26, 32), (222, 228, 231),
    [(50, 60, 68), (240, 113, 103), (111, 206, 149), (230, 184, 100), (99, 160, 220), (197, 134, 220),
     (99, 195, 200), (200, 207, 211)],
    [(120, 133, 142), (255, 143, 134), (140, 225, 175), (245, 205, 130), (130, 185, 240), (215, 160, 235),
     (130, 215, 220), (240, 244, 246)],
)  # fmt: skip
_MEASURE = """
<script>
const width = __WIDTH__;
const inside = (one) => one.closest(".scroll") && !one.matches(".scroll");
const beyond = [...document.body.querySelectorAll("*")]
  .filter((one) => one.getBoundingClientRect().right > width + 1 && !inside(one))
  .map((one) => one.tagName + " " + (one.getAttribute("class") || "") + ": " + one.textContent.slice(0, 60));
document.title = JSON.stringify({beyond: beyond.slice(0, 10)});
</script>
"""


def chromium(page: Path, *flags: str) -> str:
    """Run Chromium on one page with an empty profile; return what it prints."""
    assert CHROMIUM is not None
    with TemporaryDirectory() as profile:
        done = subprocess.run(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", *flags, page.resolve().as_uri()],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    return done.stdout


def screenshot(page: Path, picture: Path, size: tuple[int, int], *, scale: float = 1.0) -> None:
    """Write what a window of ``size`` shows of a page as a PNG file."""
    picture.unlink(missing_ok=True)
    chromium(
        page,
        f"--window-size={size[0]},{size[1]}",
        f"--force-device-scale-factor={scale:g}",
        f"--screenshot={picture}",
    )
    assert picture.is_file(), "chromium wrote no picture"


def beyond_the_edge(html: str, width: int, folder: Path) -> list[str]:
    """Return what stands further right than a window of ``width``, with everything unfolded.

    Only here may the page run a script; a headless window is at least 500 wide, so the body is made narrow.
    """
    free = re.sub(r"<meta http-equiv=[^>]*>", "", html).replace("<details", "<details open")
    free = free.replace("</head>", f"<style>body {{ width: {width}px; }}</style></head>")
    page = folder / f"measured-{width}.html"
    page.write_text(free.replace("</body>", _MEASURE.replace("__WIDTH__", str(width)) + "</body>"))
    dom = chromium(page, f"--window-size={max(width, 500)},900", "--dump-dom")
    title = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
    assert title is not None, "chromium printed no page"
    found: list[str] = json.loads(unescape(title[1]))["beyond"]
    return found


def png(picture: Path) -> tuple[int, int, int]:
    """Return width, height, and how many different byte values the pixels of a PNG file have."""
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    at, pixels = 8, b""
    while at < len(data):
        length = int.from_bytes(data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            pixels += data[at + 8 : at + 8 + length]
        at += length + 12
    return width, height, len(set(zlib.decompress(pixels)))


def terminal_svg(
    command: str, events: Sequence[Live], answer: str, *, most: int = 64, width: int = 110
) -> str:
    """Return a run as the terminal showed it, its middle left out where it is longer than ``most`` lines."""
    shown = io.StringIO()
    screen = Console(
        file=shown, force_terminal=True, color_system="standard", width=width, highlight=False, emoji=False
    )
    screen.print(Text(f"$ {command}", style="bold"))
    terminal = Terminal(screen)
    for event in events:
        if isinstance(event, TurnTaken) and event.text:
            terminal.show(TextDelta(text=event.text))
        terminal.show(event)
    screen.print()
    screen.print(Text(answer))
    lines = shown.getvalue().rstrip("\n").split("\n")
    if len(lines) > most:
        head, tail = most * 2 // 5, most * 3 // 5
        told = f"  \x1b[2m… {len(lines) - head - tail} lines left out of this picture …\x1b[0m"
        lines = [*lines[:head], "", told, "", *lines[-tail:]]
    return ansi_svg(lines, width)


def ansi_svg(lines: Sequence[str], width: int) -> str:
    """Return rows of a terminal, with the escapes that colour them, as SVG."""
    paper = Console(record=True, file=io.StringIO(), width=width, force_terminal=True)
    decoder = AnsiDecoder()  # one for all: a terminal says a colour once, however many rows have it
    for line in lines:
        paper.print(decoder.decode_line(line), soft_wrap=True)
    plain = re.sub(r"@font-face\s*\{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return paper.export_svg(title="leadline", theme=_THEME, code_format=plain, unique_id="run")
