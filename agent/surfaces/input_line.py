"""Read what a person says: at an input line that stays usable while work goes on, or from a pipe."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import DummyHistory, FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead

from tools.redact import redact


class Interrupted(Exception):
    """Report Ctrl-C; ``text`` is what was typed by then."""

    text = ""


class Closed(Exception):
    """Report Ctrl-D, the end of a pipe, or a terminal that went away."""


class Lines(Protocol):
    """Give lines; raise `Interrupted` or `Closed`."""

    live: bool
    """Can a person type while work goes on?"""

    async def read(self, prompt: str, *, decision: bool = False) -> str:
        """Return the next line; a decision starts with an empty line and is not remembered."""
        ...

    def keep(self, text: str) -> None:
        """Keep what was typed for the next line."""
        ...

    def close(self) -> None:
        """End the read that waits, and every later one, with `Closed`; may be done twice."""
        ...


class _History(FileHistory):
    """Remember lines in a file of the person alone, without the secrets in them."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        super().__init__(str(path))

    def store_string(self, string: str) -> None:
        """Write one line."""
        super().store_string(redact(string.encode()).decode(errors="replace"))


class TypedLines:
    """Read lines at a terminal; ``tail`` tells what is being said and not yet a whole line."""

    live = True

    def __init__(self, history: Path, words: Iterable[str], tail: Callable[[], str]) -> None:
        self._tail = tail
        self._draft = ""
        self._closed = False
        self._raw = ExitStack()
        self._in_raw = False
        self._messages: PromptSession[str] = PromptSession(
            history=_History(history),
            completer=WordCompleter(list(words), sentence=True),
            complete_while_typing=False,
            enable_open_in_editor=True,
            erase_when_done=True,
            interrupt_exception=Interrupted,
            eof_exception=Closed,
        )
        self._decisions: PromptSession[str] = PromptSession(
            history=DummyHistory(),
            erase_when_done=True,
            interrupt_exception=Interrupted,
            eof_exception=Closed,
        )

    async def read(self, prompt: str, *, decision: bool = False) -> str:
        """Return the next line; a cancelled read keeps what was typed for the next one."""
        if self._closed:
            raise Closed
        self._take_keys()
        if decision:
            await self._settle()
        session = self._decisions if decision else self._messages
        draft, self._draft = ("", self._draft) if decision else (self._draft, "")

        def message() -> StyleAndTextTuples:
            tail = self._tail()
            return [("", f"{tail}\n" if tail else ""), ("bold", prompt)]

        try:
            return await session.prompt_async(message, default=draft)
        except Interrupted as error:
            error.text = session.default_buffer.text
            raise
        except EOFError as error:
            raise Closed from error
        except asyncio.CancelledError:
            if not decision:
                self._draft = session.default_buffer.text
            raise

    def _take_keys(self) -> None:
        """Let no key be echoed, lost or made a signal of between two lines, until `close`."""
        if self._in_raw:
            return
        self._in_raw = True
        source = self._messages.input
        self._raw.enter_context(source.raw_mode())
        # The library goes back to lines for the moments in which it prints; Ctrl-D is to outlast them.
        attributes = termios.tcgetattr(source.fileno())
        attributes[6][termios.VEOF] = b"\0"
        termios.tcsetattr(source.fileno(), termios.TCSANOW, attributes)

    async def _settle(self) -> None:
        """Let no key that was meant for a message decide: drop what was typed before the question."""
        if self._draft:
            await asyncio.sleep(1.0)
        clear_typeahead(self._decisions.input)
        termios.tcflush(self._decisions.input.fileno(), termios.TCIFLUSH)

    def keep(self, text: str) -> None:
        """Keep what was typed for the next line."""
        self._draft = text

    def redraw(self) -> None:
        """Show the tail as it is now."""
        self._messages.app.invalidate()

    def close(self) -> None:
        """End the read that waits, and every later one; Ctrl-C is a signal again."""
        self._closed = True
        reading = [one.app for one in (self._messages, self._decisions) if one.app.is_running]
        for app in reading:
            if not app.is_done:
                app.exit(exception=Closed())
        if not reading:  # one that reads would put the terminal back to raw at its end
            self._raw.close()


class PipedLines:
    """Read lines from standard input that is no terminal; a file, a pipe or nothing at all."""

    live = False

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        # A thread, since files cannot be waited for; one that reads the descriptor, since one inside
        # sys.stdin would keep the interpreter from ending.
        threading.Thread(target=self._pump, args=(sys.stdin.fileno(),), daemon=True).start()

    def _pump(self, descriptor: int) -> None:
        rest = b""
        try:
            while chunk := os.read(descriptor, 1 << 16):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    self._put(line.decode(errors="replace"))
            if rest:
                self._put(rest.decode(errors="replace"))
        finally:
            self._put(None)

    def _put(self, line: str | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    async def read(self, prompt: str, *, decision: bool = False) -> str:
        """Return the next line."""
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)
            raise Closed
        return line

    def keep(self, text: str) -> None:
        """Keep nothing: a pipe is not interrupted while it types."""

    def close(self) -> None:
        """End the read that waits, and every later one."""
        self._lines.put_nowait(None)
