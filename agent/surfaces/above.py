"""Print above the input line, and tell when all that was written is on the screen."""

from __future__ import annotations

import asyncio
import time

from prompt_toolkit.patch_stdout import StdoutProxy

_BETWEEN_S = 0.005
"""Lines that come within this time are drawn together; each drawing takes the input line away and back."""
_WAIT_S = 2.0
"""A terminal that takes nothing for so long does not keep the next question back."""


class Above(StdoutProxy):
    """Write from a thread of its own, as the library does, and count what went in and what came out."""

    def __init__(self) -> None:
        self._taken = self._given = 0
        super().__init__(_BETWEEN_S, raw=True)

    def write(self, data: str) -> int:
        """Take text in."""
        with self._lock:
            self._taken += len(data)
            return super().write(data)

    def _write_and_flush(self, loop: asyncio.AbstractEventLoop | None, text: str) -> None:
        super()._write_and_flush(loop, text)
        self._given += len(text)

    async def printed(self) -> None:
        """Wait until what was written stands on the screen: what is asked next is asked below it."""
        self.flush()
        until = time.monotonic() + _WAIT_S
        # The thread tells nobody when it has written.
        while self._given < self._taken and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)  # what was handed to the loop is drawn before the caller goes on
