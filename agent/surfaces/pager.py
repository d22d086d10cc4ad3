"""Show a long text on a screen of its own, so that the scrollback stays: PAGER, or one built in."""

from __future__ import annotations

import asyncio
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice

from prompt_toolkit.application import Application
from prompt_toolkit.document import Document
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.widgets import SearchToolbar, TextArea

from agent.surfaces.wrapping import wrapped

LEAVES = "q leaves, space pages, / searches"
LOST = "q leaves first: what is typed here goes nowhere"

_BAR = 1
"""Columns of the bar that shows the place."""

Lend = Callable[[], AbstractContextManager[None]]


async def page(text: str, command: str, lend: Lend, *, at_end: bool = False) -> None:
    """Show a text until the person leaves it; ``lend`` gives the terminal to the pager that they named.

    Shown ``at_end`` first by the one that is built in and by less, which can be told.
    """
    if not command:
        await _built_in(text, at_end=at_end).run_async()
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        with lend():
            await asyncio.to_thread(
                subprocess.run, _argv(command, at_end=at_end), input=f"{text}\n".encode(), check=False
            )
            return
    except (OSError, ValueError):
        pass  # there is no such program: the one built in shows it
    finally:
        signal.signal(signal.SIGINT, before)
    await _built_in(text, at_end=at_end).run_async()


def _argv(command: str, *, at_end: bool) -> list[str]:
    argv = shlex.split(command)
    is_less = bool(argv) and argv[0].rpartition("/")[2] == "less"
    if not is_less:
        return argv
    return [*argv, f"-Ps{LEAVES}?e (END).", *(["+G"] if at_end else [])]


def _built_in(text: str, *, at_end: bool) -> Application[None]:
    search = SearchToolbar()
    area = TextArea(text, read_only=True, wrap_lines=True, scrollbar=True, search_field=search)
    area.buffer.set_document(Document(text, text.rfind("\n") + 1 if at_end else 0), bypass_readonly=True)
    fitted = 0

    def fit(app: Application[None]) -> None:
        """Break the text anew, between words, when the screen has another width."""
        nonlocal fitted
        columns = app.output.get_size().columns
        if columns != fitted:
            fitted = columns
            area.buffer.set_document(_fitted(text, columns - _BAR, area.document), bypass_readonly=True)

    keys = KeyBindings()
    stray = False

    def told() -> StyleAndTextTuples:
        document = area.document
        place = f"line {document.cursor_position_row + 1} of {document.line_count}"
        return [("reverse", f" {place} · {LOST if stray else LEAVES} ")]

    @keys.add(Keys.Any, filter=has_focus(area))
    @keys.add("enter", filter=has_focus(area))
    def _(event: KeyPressEvent) -> None:
        nonlocal stray
        stray = True

    @keys.add("q")
    @keys.add("c-c")
    @keys.add("escape", eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit()

    @keys.add(" ")
    @keys.add("pagedown")
    def _(event: KeyPressEvent) -> None:
        area.buffer.cursor_down(_rows(area))

    @keys.add("b")
    @keys.add("pageup")
    def _(event: KeyPressEvent) -> None:
        area.buffer.cursor_up(_rows(area))

    @keys.add("g")
    def _(event: KeyPressEvent) -> None:
        area.buffer.cursor_position = 0

    @keys.add("G")
    def _(event: KeyPressEvent) -> None:
        area.buffer.cursor_position = len(area.text)

    body = HSplit([area, search, Window(FormattedTextControl(told), height=1)])
    layout = Layout(body, focused_element=area)
    return Application(layout, key_bindings=keys, full_screen=True, before_render=fit)


def _fitted(text: str, columns: int, shown: Document) -> Document:
    """Return the text in lines of so many columns, at the place of what is shown; words alone tell places."""
    before = len("".join(shown.text_before_cursor.split()))
    broken = wrapped(text, columns, quotes=False)
    if before == 0 or shown.on_last_line:
        return Document(broken, broken.rfind("\n") + 1 if before else 0)
    place = next(islice((at for at, one in enumerate(broken) if not one.isspace()), before, None), 0)
    return Document(broken, broken.rfind("\n", 0, place) + 1)


def _rows(area: TextArea) -> int:
    info = area.window.render_info
    return max(1, info.window_height - 1) if info is not None else 10
