"""Show the input line of a chat before all that stands behind it is loaded and connected."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import AsyncExitStack, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, TextIO, cast

from agent.config import Settings
from agent.surfaces.input_line import Lines, PipedLines, TypedLines
from agent.surfaces.open_options import OpenOptions

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

    from agent.surfaces.screen import Screen

HISTORY = "chat-history"


class Entrance:
    """Hold where lines come from; what completes them and stands around them is put in place later."""

    def __init__(self, host: str) -> None:
        self.lines: Lines
        self.typed: TypedLines | None = None
        self.screen: Screen | None = None
        self._host = host

    @classmethod
    def open(cls, options: OpenOptions, settings: Settings, stack: AsyncExitStack) -> Entrance:
        """Open an input line with text above it, or plain streams; a new chat asks at once what is wrong."""
        found = cls(options.host)
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            found.lines = PipedLines()
            return found
        from prompt_toolkit.utils import is_dumb_terminal

        from agent.surfaces.above import Above

        found.lines = found.typed = TypedLines(
            settings.state_dir / HISTORY, found.complete, found.tail, found.status, vi=settings.chat.vi
        )
        if not is_dumb_terminal():  # there nothing is drawn anew, so text stands where it is written
            above = Above()
            stack.enter_context(above)
            found.typed.printed = above.printed
            stack.enter_context(redirect_stdout(cast("TextIO", above)))
            stack.enter_context(redirect_stderr(cast("TextIO", above)))
        stack.callback(found.typed.close)
        if options.resume is None:
            found.typed.begin(f"[{options.host} · {options.mode}] what is wrong> ")
            stack.push_async_callback(found.typed.give_up)
        return found

    def complete(self, typed: str) -> Iterable[tuple[str, str]]:
        """Return what completes a line; nothing before there is anything to complete."""
        return self.screen.complete(typed) if self.screen is not None else ()

    def tail(self) -> str:
        """Return what stands between the text and the input line."""
        return self.screen.tail() if self.screen is not None else ""

    def status(self, width: int) -> StyleAndTextTuples:
        """Return the status line."""
        if self.screen is not None:
            return self.screen.status.line(width)
        return [("class:status.working", f"opening {self._host} ..."[:width])]

    def write_nowhere(self) -> None:
        """Let what is still written go nowhere: the terminal is gone, and each write there would fail."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(nowhere, descriptor)
        os.close(nowhere)

    async def left_before(self, work: asyncio.Task[object]) -> bool:
        """Wait for what is being opened; True, with that given up, when the person leaves before it is."""
        first = self.typed.first if self.typed is not None else None
        if first is not None:
            await asyncio.wait({work, first}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and first.exception() is not None:
                work.cancel()
                await asyncio.wait({work})
                return True
        await asyncio.wait({work})
        return False
