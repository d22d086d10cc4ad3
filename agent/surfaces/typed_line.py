"""Read a line that is typed at the terminal while other work goes on."""

from __future__ import annotations

import asyncio
import os
import sys

from agent.surfaces.console import write_fitted

_MOST = 4096
"""A terminal that edits its line itself gives no longer one."""


async def typed_line(question: str) -> str | None:
    """Ask on stderr and return what is typed, without its end; None when the terminal gives no more.

    It can be cancelled while it waits. The terminal itself edits the line, so nothing is put in its mode.
    """
    write_fitted(question, sys.stderr)
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str | None] = loop.create_future()
    descriptor = sys.stdin.fileno()
    taken = bytearray()

    def take() -> None:
        # One read takes one line, or after Ctrl-D a part of one: to wait for the rest would hold up the loop.
        try:
            data = os.read(descriptor, _MOST)
        except OSError:  # the terminal has gone away
            data = b""
        taken.extend(data)
        if typed.done():
            return
        if not data:
            typed.set_result(None)
        elif taken.endswith(b"\n"):
            typed.set_result(taken.decode("utf-8", "replace").rstrip("\n"))

    loop.add_reader(descriptor, take)
    try:
        return await typed
    finally:
        loop.remove_reader(descriptor)
