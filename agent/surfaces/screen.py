"""Print a chat: events as they happen, and what is said; above the input line, or as plain text."""

from __future__ import annotations

import asyncio
import io
import pydoc
import shutil
import signal
import sys
from collections.abc import Callable
from typing import IO, cast

from prompt_toolkit.application.current import get_app_session

from agent.events import Live, TextDelta, TurnTaken
from agent.surfaces.console import open_console
from agent.surfaces.terminal import Terminal
from agent.surfaces.wrapping import wrapped
from tools.display import printable

_DIFF = {"+": "green", "-": "red", "@": "cyan"}
_TAIL_LINES = 3


class WholeLines(io.TextIOBase):
    """Pass whole lines on; hold the unfinished one, which cannot stand above an input line."""

    def __init__(self) -> None:
        self.tail = ""
        self.changed: Callable[[], None] = lambda: None

    def write(self, text: str) -> int:
        """Take text in; the standard output of the moment gets its whole lines."""
        whole, cut, self.tail = (self.tail + text).rpartition("\n")
        if cut:
            sys.stdout.write(whole + cut)
            sys.stdout.flush()
        self.changed()
        return len(text)

    def isatty(self) -> bool:
        """Tell whether colours may be used."""
        return sys.stdout.isatty()

    def shown_tail(self) -> str:
        """Return the end of the unfinished line, as much as leaves room for typing."""
        return self.tail[-_TAIL_LINES * shutil.get_terminal_size().columns :]


class Screen:
    """Show events, answers and plans; without a terminal answers go to stdout and the rest to stderr."""

    def __init__(self, lines: WholeLines | None) -> None:
        self.typed = lines is not None
        if lines is None:
            self._said = open_console(sys.stdout)
            self._terminal = Terminal.on_stderr()
        else:
            self._said = open_console(cast("IO[str]", lines))
            self._terminal = Terminal(self._said)
        self._streamed = False

    def event(self, event: Live, *, answering: bool) -> None:
        """Show one event; while it is ``answering`` a question, the words of the model are the answer."""
        if isinstance(event, TextDelta):
            self._streamed = self.typed
            if answering and not self.typed:
                return
        self._terminal.show(event)
        if isinstance(event, TurnTaken):
            if answering and event.text and not self._streamed:
                self.say(printable(event.text))
            self._streamed = False

    def say(self, text: str, style: str = "", *, whole: bool = False) -> None:
        """Print an answer; at a terminal, long lines are broken between words unless they stay ``whole``."""
        if self._said.is_terminal and not whole:
            text = wrapped(text, self._said.width)
        self._said.print(text, style=style or None, markup=False)

    def note(self, text: str, style: str = "dim") -> None:
        """Print what is about the chat itself."""
        if self.typed:
            self.say(text, style, whole=True)  # its command is copied
        else:
            sys.stderr.write(f"{text}\n")

    def plan(self, text: str) -> None:
        """Print a plan that waits for a decision, its diff in colour."""
        for line in text.splitlines():
            changed = line.startswith("    ") and line[4:5] in _DIFF
            self.say(line, _DIFF[line[4]] if changed else "")

    async def page(self, text: str, *, whole: bool = False) -> None:
        """Print a text; one that is longer than the screen goes through the pager."""
        if not self.typed or text.count("\n") < shutil.get_terminal_size().lines - 2:
            self.say(text, whole=whole)
            return
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
        try:
            with get_app_session().input.cooked_mode():
                await asyncio.to_thread(pydoc.pager, text + "\n")
        finally:
            signal.signal(signal.SIGINT, before)
