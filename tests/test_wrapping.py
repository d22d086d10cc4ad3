"""Lines at a terminal break between words, and what is copied stays whole."""

from __future__ import annotations

import io

import pytest

from agent.events import SystemNote, TextDelta
from agent.surfaces.console import open_console
from agent.surfaces.terminal import Terminal
from agent.surfaces.wrapping import Flow, cells, wrapped


def test_a_long_line_breaks_between_words_under_its_own_indent() -> None:
    assert wrapped("  H1 one two three", 12) == "  H1 one two\n    three"


@pytest.mark.parametrize("line", ["short", "", "    a quote of more than ten", "/a/path/of/more/than/ten"])
def test_what_fits_is_quoted_or_has_no_blank_stays_as_it_is(line: str) -> None:
    assert wrapped(line, 10) == line


class Screen(io.StringIO):
    """Text that is taken for a terminal."""

    def isatty(self) -> bool:
        """Say that a person looks at it."""
        return True


@pytest.mark.parametrize(("no_color", "styled"), [("1", False), ("", True)])
def test_no_color_leaves_plain_text(no_color: str, styled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    screen = Screen()
    open_console(screen).print("found", style="bold red")
    assert ("\x1b" in screen.getvalue()) is styled


SAID = (
    "The launch line sets disable_piecewise_cuda_graph, so that every decode step of the pipeline is started "
    "from Python; the reader of the flag is scheduler.py.\n\n"
    "- first, `leadline ask HOST` measures what a change of that setting brings at concurrency 1 and 8\n"
    "  2. then it is kept or taken back\n"
    "    a quote that is longer than forty columns stays as it is\n"
    "```\nleadline ask gpu1 'decode is slow: 24 tok/s' --mode apply\n```\n"
    "What comes after the command is a sentence of many words again, and it breaks."
)
WIDTHS = [40, 57, 80, 120, 200]


def flowed(text: str, width: int, size: int) -> list[str]:
    """Feed a text in pieces of a size; return the pieces that were shown."""
    flow = Flow()
    shown = [flow.feed(text[at : at + size], width) for at in range(0, len(text), size)]
    return [*shown, flow.end(width)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("size", [1, 3, 17, 1000])
def test_what_streams_breaks_between_words(width: int, size: int) -> None:
    shown = "".join(flowed(SAID, width, size))
    assert shown.split() == SAID.split(), "no word is broken, lost or doubled"
    rows = shown.split("\n")
    whole = [row for row in rows if row.startswith(("    ", "leadline ask gpu1"))]
    assert len(whole) == 2 and set(whole) <= set(SAID.split("\n")), "a quote and a command stay whole"
    assert [row for row in rows if cells(row) > width and row not in whole] == []
    below = rows[rows.index(next(row for row in rows if row.startswith("- first"))) + 1]
    assert below.startswith("  ")


def test_only_the_word_under_way_is_held_back() -> None:
    flow, shown = Flow(), ""
    for at, letter in enumerate(SAID):
        shown += flow.feed(letter, 40)
        given = SAID[: at + 1]
        held = len("".join(given.split())) - len("".join(shown.split()))
        under_way = given.split()[-1] if not letter.isspace() else ""
        assert 0 <= held <= len(under_way)
    long = "/" + "x" * 100
    assert "".join(flowed(f"see {long} there", 40, 1)) == f"see\n{long}\nthere"
    assert len(Flow().feed(long, 40)) == 101, "a path that fits no line is not waited for"


@pytest.mark.parametrize("size", [1, 5])
def test_writing_without_blanks_breaks_between_its_characters(size: int) -> None:
    text = "\u89e3\u7801\u5f88\u6162\uff0c24 tok/s\u3002" * 12
    rows = "".join(flowed(text, 40, size)).split("\n")
    assert all(30 < cells(row) <= 40 for row in rows[:-1]) and len(rows) > 5
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")
    assert all(cells(row) <= 40 for row in wrapped(text, 40).split("\n"))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_terminal_gets_streams_and_lines_that_break_between_words(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    console = open_console(screen)
    console.width = width
    terminal = Terminal(console)
    for at in range(0, len(SAID), 7):
        terminal.show(TextDelta(text=SAID[at : at + 7]))
    terminal.show(SystemNote(text=f"claim 1: {SAID.partition('.')[0]}", seq=1))
    rows = screen.getvalue().splitlines()
    assert screen.getvalue().split() == [*SAID.split(), "claim", "1:", *SAID.partition(".")[0].split()]
    assert [
        row for row in rows if cells(row) > width and not row.startswith(("    ", "leadline ask g"))
    ] == []
