"""Read what a person says: at an input line that stays usable while work goes on, or from a pipe."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import DummyHistory, FileHistory
from prompt_toolkit.utils import is_dumb_terminal

from agent.surfaces.bursts import Bursts
from agent.surfaces.keys import STYLE, Commands, Complete, bindings, editing
from agent.surfaces.pastes import Pastes
from agent.surfaces.settling import settle
from agent.surfaces.wrapping import cut
from agent.whole_file import private_folder
from tools.display import printable

REFRESH_S = 0.5
"""How often seconds and bars below the text are drawn anew."""

KEPT = "your unfinished line is kept for after this: "
"""Stands above a question that came while something was typed."""

NARROW = 60
"""A terminal of fewer columns shows in the status line alone where it works."""


class Interrupted(Exception):
    """Report Ctrl-C; ``text`` is what was typed by then."""

    text = ""


class Later(Exception):
    """Report Tab: ``text`` is to be said once the work has come to its end."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Closed(Exception):
    """Report Ctrl-D, the end of a pipe, or a terminal that went away."""


class Lines(Protocol):
    """Give lines; raise `Interrupted`, `Later` or `Closed`."""

    live: bool
    """Can a person type while work goes on?"""
    takes_later: bool
    """Tab sets a message aside until the work has come to its end."""

    async def read(
        self, prompt: str, *, decision: bool = False, follows: bool = False, default: str = ""
    ) -> str:
        """Return the next line; a decision starts with ``default`` and is not remembered.

        No key of before is taken for a decision, unless it ``follows`` from one that was just made.
        """
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
        private_folder(path.parent)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        super().__init__(str(path))
        self._writer = ThreadPoolExecutor(max_workers=1)

    def store_string(self, string: str) -> None:
        """Have one line written, in its turn; the keyboard does not wait for that."""
        self._writer.submit(self._store, string)

    def _store(self, string: str) -> None:
        from tools.redact import redact  # its patterns take longer to make than the input line

        super().store_string(redact(string.encode()).decode(errors="replace"))


async def _at_once() -> None:
    """Wait for nothing: what is written stands where it is."""


class TypedLines:
    """Read lines at a terminal; ``tail`` tells what is being said and not yet a whole line."""

    live = True

    def __init__(
        self,
        history: Path,
        complete: Complete,
        tail: Callable[[], str],
        status: Callable[[int], StyleAndTextTuples],
        *,
        vi: bool = False,
    ) -> None:
        self._tail = tail
        self._status = status
        self._draft = ""
        self._pastes = Pastes()
        self.printed: Callable[[], Awaitable[None]] = _at_once
        """Waits until what was written is on the screen, so that a question stands below what it is about."""
        self._closed = False
        self._raw = ExitStack()
        self._in_raw = False
        self._lent = False
        common: dict[str, Any] = {
            "erase_when_done": True,
            "interrupt_exception": Interrupted,
            "eof_exception": Closed,
            "bottom_toolbar": self._toolbar,
            "refresh_interval": REFRESH_S,
            "style": STYLE,
            "vi_mode": vi,
        }
        self._messages: PromptSession[str] = PromptSession(
            history=_History(history),
            completer=Commands(complete),
            complete_while_typing=False,
            key_bindings=bindings(self._later, self._edit, self._suspend, self._pastes.fold),
            prompt_continuation="  ",
            **common,
        )
        self._decisions: PromptSession[str] = PromptSession(
            history=DummyHistory(),
            key_bindings=editing(self._edit, self._suspend, self._pastes.fold),
            **common,
        )
        self.takes_later = False
        """Tab sets a message aside until the work has come to its end."""
        self._entered: str | None = None
        self._drawn = asyncio.Event()
        self.first: asyncio.Task[str] | None = None
        """The line that is read before anybody waits for one."""
        Bursts(self._messages.input)
        for session in (self._messages, self._decisions):
            self._note_what_is_entered(session)

    def _note_what_is_entered(self, session: PromptSession[str]) -> None:
        """Keep a line that was entered in the very moment in which its reading is cancelled."""
        accept = session.default_buffer.accept_handler
        assert accept is not None  # the session has set it

        def entered(buffer: Buffer) -> bool:
            self._entered = buffer.document.text
            return accept(buffer)

        session.default_buffer.accept_handler = entered

    def _later(self) -> None:
        app = self._messages.app
        text = self._messages.default_buffer.text.strip()
        if text and self.takes_later and not app.is_done:
            self._messages.default_buffer.reset()
            app.exit(exception=Later(self._pastes.unfold(text)))

    def _toolbar(self) -> StyleAndTextTuples:
        return self._status(get_app().output.get_size().columns)

    async def read(
        self, prompt: str, *, decision: bool = False, follows: bool = False, default: str = ""
    ) -> str:
        """Return the next line; a cancelled read keeps what was typed for the next one."""
        if self.first is not None and not decision:
            first, self.first = self.first, None
            return await first
        return await self._read(prompt, decision=decision, follows=follows, default=default)

    async def _read(
        self, prompt: str, *, decision: bool = False, follows: bool = False, default: str = ""
    ) -> str:
        if self._closed:
            raise Closed
        self._take_keys()
        await self.printed()
        if decision and not follows:
            await settle(self._messages.input, self._draft, self._pastes.fold, self.keep)
        session = self._decisions if decision else self._messages
        self._entered = None
        draft, self._draft = (default, self._draft) if decision else (self._draft, "")

        kept = (
            f"{KEPT}{printable(cut(' '.join(self._draft.split()), NARROW))}\n"
            if decision and self._draft
            else ""
        )

        def message() -> StyleAndTextTuples:
            tail = self._tail()
            narrow = get_app().output.get_size().columns < NARROW
            asks = prompt.rpartition("] ")[2] if narrow else prompt
            return [("", f"{tail}\n" if tail else ""), ("class:status", kept), ("bold", asks)]

        try:
            # At an error in the loop the library would ask for Enter: for ever, where the terminal is gone.
            line = await session.prompt_async(message, default=draft, set_exception_handler=False)
            return self._pastes.unfold(line)
        except Interrupted as error:
            error.text = session.default_buffer.text
            raise
        except (EOFError, OSError, termios.error) as error:
            self._closed = True  # it was ended, or the terminal is gone and takes nothing any more
            raise Closed from error
        except asyncio.CancelledError:
            if self._entered is not None:
                return self._pastes.unfold(self._entered)
            if not decision:
                self._draft = session.default_buffer.text
            raise

    def begin(self, prompt: str) -> None:
        """Read the first line from now on; the next `read` returns it."""
        if is_dumb_terminal():
            self._drawn.set()  # there it is written once, by another part of the library
        self._messages.app.after_render += lambda _: self._drawn.set()
        self.first = asyncio.create_task(self._read(prompt))

    async def drawn(self) -> None:
        """Wait until the first line is on the screen, so that nothing else is done before it."""
        drawn = asyncio.create_task(self._drawn.wait())
        await asyncio.wait(
            {drawn, *([self.first] if self.first else [])}, return_when=asyncio.FIRST_COMPLETED
        )
        drawn.cancel()

    async def give_up(self) -> None:
        """End the reading of a first line that nobody waits for any more."""
        first, self.first = self.first, None
        if first is not None:
            first.cancel()
            await asyncio.wait({first})

    def _take_keys(self) -> None:
        """Let no key be echoed, lost or made a signal of between two lines, until `close`."""
        if self._in_raw:
            return
        self._in_raw = True
        source = self._messages.input
        self._raw.enter_context(source.raw_mode())
        # The library goes back to lines for the moments in which it prints, and what is typed then would
        # come as other keys: Enter as Ctrl-J, Ctrl-C as a signal. Only another program needs that.
        lines = source.cooked_mode
        source.cooked_mode = lambda: lines() if self._lent else nullcontext()  # type: ignore[method-assign]

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Give the terminal, as other programs expect it, to one of them for the time of the block."""
        self._lent = True
        try:
            with self._messages.input.cooked_mode():
                yield
        finally:
            self._lent = False

    def _edit(self) -> None:
        """Open what is typed in the person's editor."""
        self._lent = True
        get_app().current_buffer.open_in_editor().add_done_callback(self._given_back)

    def _suspend(self) -> None:
        """Stop this process and those it started until the shell goes on with it; no shell, no stop."""
        self._lent = True
        stopped = run_in_terminal(lambda: os.kill(0, signal.SIGTSTP))
        asyncio.ensure_future(stopped).add_done_callback(self._given_back)

    def _given_back(self, done: object) -> None:
        self._lent = False

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
    takes_later = False

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

    async def read(
        self, prompt: str, *, decision: bool = False, follows: bool = False, default: str = ""
    ) -> str:
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
