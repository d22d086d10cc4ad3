"""Follow one running command: bounded copies of its output, and how it ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tools.contract import Capture

_BLOCK = 65536


class Collector:
    """Keep the first and the last bytes of a stream, at most ``limit`` in all, and count the rest."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._blocks: deque[bytearray] = deque()
        self._held = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take the next piece of the stream."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        # Blocks, so that neither a flood is copied again and again nor single bytes cost an object each.
        if not self._blocks or len(self._blocks[-1]) >= _BLOCK:
            self._blocks.append(bytearray())
        self._blocks[-1] += data
        self._held += len(data)
        while self._blocks and self._held - len(self._blocks[0]) >= self._tail_limit:
            self._held -= len(self._blocks.popleft())

    def capture(self) -> Capture:
        """Return what was kept so far."""
        tail = b"".join(self._blocks)[max(0, self._held - self._tail_limit) :]
        return Capture(head=bytes(self._head), tail=tail, total=self.total)


class Running:
    """Hold the state of one command; transports feed it, the supervisor waits on it."""

    def __init__(self, max_bytes: int) -> None:
        self.stdout = Collector(max_bytes)
        self.stderr = Collector(max_bytes)
        self.exit_code: int | None = None
        self.signal: str | None = None
        self.lost: str | None = None
        """Why the link to the command broke, when it did."""
        self.sent = False
        """False as long as the host cannot have seen the command."""
        self.starting: asyncio.Task[None] | None = None
        """The launch, which may still be under way."""
        self.abandoned = False
        """True when nobody wants the command any more: what is not sent yet must not be."""
        self.stop: Callable[[str], None] = lambda name: None
        """Send a signal by the transport's own means, where it has any."""
        self.release: Callable[[], None] = lambda: None
        """Let go of the transport; the command is not touched."""
        self._max_bytes = max_bytes
        self._closed = asyncio.Event()
        self._moved = asyncio.Event()

    @property
    def closed(self) -> bool:
        """Tell whether nothing more can come from the command."""
        return self._closed.is_set()

    @property
    def over(self) -> bool:
        """Tell whether a stream grew past what the caller asked for."""
        return max(self.stdout.total, self.stderr.total) > self._max_bytes

    @property
    def ended(self) -> bool:
        """Tell whether an exit code or a signal was really seen."""
        return self.exit_code is not None or self.signal is not None

    def feed(self, stream: Collector, data: bytes) -> None:
        """Add output to one of the two streams."""
        stream.feed(data)
        if self.over:
            self._moved.set()

    def end(self, exit_code: int | None, signal: str | None = None) -> None:
        """Record how the command itself ended; output may still follow."""
        self.exit_code, self.signal = exit_code, signal
        self._moved.set()

    def close(self, lost: str | None = None) -> None:
        """Record that nothing more will come, and why when the link broke."""
        self.lost = self.lost or lost
        self._closed.set()
        self._moved.set()

    async def settle(self, quiet_s: float) -> None:
        """Wait until the command is done, is over its bytes, or has ended and its pipes are quiet."""
        await self._moved.wait()
        while not (self.closed or self.over):
            seen = self.stdout.total + self.stderr.total
            await self.wait_closed(quiet_s)
            if seen == self.stdout.total + self.stderr.total:
                return

    async def wait_closed(self, timeout_s: float) -> bool:
        """Wait for the end of all output, at most so long; return whether it came."""
        try:
            await asyncio.wait_for(self._closed.wait(), timeout_s)
        except TimeoutError:
            return False
        return True
