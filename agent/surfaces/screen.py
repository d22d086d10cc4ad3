"""Print a chat: events as they happen, and what is said; above the input line, or as plain text."""

from __future__ import annotations

import asyncio
import io
import pydoc
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import IO, cast

from agent.events import Event, Live, Progress, TextDelta, TurnTaken
from agent.surfaces.console import open_console
from agent.surfaces.progress import Bars
from agent.surfaces.status import Status
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

    def __init__(self, lines: WholeLines | None, status: Status) -> None:
        self.typed = lines is not None
        self.status = status
        self._lines = lines
        self._bars = Bars()
        self.lend: Callable[[], AbstractContextManager[None]] = nullcontext
        """Gives the terminal to another program."""
        if lines is None:
            self._said = open_console(sys.stdout)
            self._terminal = Terminal.on_stderr(shows=True)
        else:
            self._said = open_console(cast("IO[str]", lines))
            self._terminal = Terminal(self._said, shows=True)
        self._streamed = False

    def take_up(self, events: Sequence[Event]) -> None:
        """Let the status line say how a session stands that was begun before."""
        for event in events:
            self.status.feed(event)
        self.rest()

    def rest(self) -> None:
        """Show no call as running any more."""
        self._bars.clear()
        self.status.begin("ready")

    def tail(self) -> str:
        """Return what stands between the text and the input line: an unfinished line, and bars."""
        if self._lines is None:
            return ""
        rows = [self._lines.shown_tail(), *self._bars.lines(shutil.get_terminal_size().columns)]
        return "\n".join(row for row in rows if row)

    def event(self, event: Live, *, answering: bool) -> None:
        """Show one event; while it is ``answering`` a question, the words of the model are the answer."""
        self.status.feed(event)
        self._bars.feed(event)
        if isinstance(event, Progress) and self.typed:
            return  # it is a bar
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
        self._terminal.end_line()
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
            with self.lend():
                await asyncio.to_thread(pydoc.pager, text + "\n")
        finally:
            signal.signal(signal.SIGINT, before)
