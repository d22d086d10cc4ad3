"""Print a chat: events as they happen, and what is said; above the input line, or as plain text."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import IO, cast

from agent.config import pager, shows_notices
from agent.events import Event, Live, Progress, TextDelta, TurnTaken
from agent.surfaces.approving import print_plan
from agent.surfaces.console import open_console, terminal_size
from agent.surfaces.progress import Bars
from agent.surfaces.status import Status
from agent.surfaces.terminal import Terminal
from agent.surfaces.wrapping import cells, wrapped
from tools.display import printable

_TAIL_LINES = 3


class WholeLines(io.TextIOBase):
    """Pass whole lines on; hold the unfinished one, which cannot stand above an input line."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """Tell by ``changed`` that the unfinished line is another."""
        self.tail = ""
        self._changed = changed
        self._held: list[str] | None = None

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Keep what is written in the block for after it: something else has the screen."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = "".join(self._held), None
            if held:
                sys.stdout.write(held)
                sys.stdout.flush()

    def write(self, text: str) -> int:
        """Take text in; the standard output of the moment gets its whole lines."""
        whole, cut, self.tail = (self.tail + text).rpartition("\n")
        if cut and self._held is not None:
            self._held.append(whole + cut)
        elif cut:
            sys.stdout.write(whole + cut)
            sys.stdout.flush()
        self._changed()
        return len(text)

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a stream that encodes has one to tell
        """Return how the terminal is written to."""
        return sys.stdout.encoding

    def isatty(self) -> bool:
        """Tell whether colours may be used."""
        return sys.stdout.isatty()

    def shown_tail(self) -> str:
        """Return the end of the unfinished line, as much as leaves room for typing."""
        return self.tail[-_TAIL_LINES * terminal_size().columns :]


class Screen:
    """Show events, answers and plans; without a terminal answers go to stdout and the rest to stderr."""

    def __init__(self, lines: WholeLines | None, status: Status, *, bell: bool = True) -> None:
        self.typed = lines is not None
        self.status = status
        self._lines = lines
        self._bell = bell
        self._bars = Bars()
        self.lend: Callable[[], AbstractContextManager[None]] = nullcontext
        """Gives the terminal to another program."""
        self.complete: Callable[[str], Iterable[tuple[str, str]]] = lambda typed: ()
        """Completes what is typed at the input line."""
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
        rows = [self._lines.shown_tail(), *self._bars.lines(terminal_size().columns)]
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

    def note(self, text: str, style: str = "dim", *, whole: bool = True) -> None:
        """Print what is about the chat itself; ``whole`` keeps a command in it as it is copied."""
        if self.typed:
            self.say(text, style, whole=whole)
        else:
            sys.stderr.write(f"{text}\n")

    def plan(self, text: str) -> None:
        """Print a plan that waits for a decision, its diff in colour."""
        self._terminal.end_line()
        print_plan(self._said, text)

    def needs_person(self, why: str) -> None:
        """Say in the status line, and by a bell, that a person is waited for."""
        self.status.begin("needs you")
        self.ring(why)

    def ring(self, why: str) -> None:
        """Ring the terminal's bell, and let it show a notice where it has such."""
        out = sys.__stdout__
        if not (self.typed and self._bell) or out is None:
            return
        notice = f"\x1b]9;{printable(why)}\x07" if shows_notices() else ""
        with contextlib.suppress(OSError):  # past the input line: this moves no cursor
            out.write(f"{notice}\x07")
            out.flush()

    async def page(self, text: str, *, whole: bool = False, newest_last: bool = False) -> None:
        """Print a text; one that is longer than the screen is paged, and what comes meanwhile waits.

        Of one that ends with what is ``newest_last``, the pager shows the end first.
        """
        if self._lines is None or not _is_long(text):
            self.say(text, whole=whole)
            return
        from agent.surfaces.pager import page

        with self._lines.waiting():
            await page(text, pager(), self.lend, at_end=newest_last)


def _is_long(text: str) -> bool:
    """Tell whether a text takes more than the screen has; lines that the terminal breaks count as several."""
    columns, room = terminal_size().columns, terminal_size().lines - 2
    if len(text) > columns * room * 2:
        return True
    return sum(max(1, -(-cells(line) // columns)) for line in text.split("\n")) > room
