"""Show a long text on a screen of its own, so that the scrollback stays: PAGER, or one built in."""

from __future__ import annotations

import asyncio
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager

from prompt_toolkit.application import Application
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.widgets import SearchToolbar, TextArea

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
    return [*argv, "+G"] if at_end and is_less else argv


def _built_in(text: str, *, at_end: bool) -> Application[None]:
    search = SearchToolbar()
    area = TextArea(text, read_only=True, wrap_lines=True, scrollbar=True, search_field=search)
    area.buffer.set_document(Document(text, text.rfind("\n") + 1 if at_end else 0), bypass_readonly=True)
    keys = KeyBindings()

    def told() -> StyleAndTextTuples:
        document = area.document
        place = f"line {document.cursor_position_row + 1} of {document.line_count}"
        return [("reverse", f" {place} · q leaves, space pages, / searches ")]

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
    return Application(Layout(body, focused_element=area), key_bindings=keys, full_screen=True)


def _rows(area: TextArea) -> int:
    info = area.window.render_info
    return max(1, info.window_height - 1) if info is not None else 10
