"""Lines at a terminal break between words, and what is copied stays whole."""

from __future__ import annotations

import io

import pytest

from agent.surfaces.console import open_console
from agent.surfaces.wrapping import wrapped


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
