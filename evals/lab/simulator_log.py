"""Write the simulated engine's log in the format of the engine's own logger. Standard library only."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class EngineLog:
    """Write lines to one stream: ``[2026-11-29 13:30:00 PP0] text``."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def line(self, text: str, rank: str = "") -> None:
        """Write one line; ``rank`` is what the engine puts behind the time, such as ``" PP0"``."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._stream.write(f"[{stamp}{rank}] {text}\n")
        self._stream.flush()

    def raw(self, text: str) -> None:
        """Write text as it is: what comes from the interpreter or the parser, not from the logger."""
        self._stream.write(text if text.endswith("\n") else f"{text}\n")
        self._stream.flush()

    def access(self, client: str, request: str, status: int, reason: str) -> None:
        """Write the web server's line about one request."""
        self.line(f'INFO:     {client} - "{request}" {status} {reason}')


def prefill_line(
    *,
    seqs: int,
    tokens: int,
    cached: int,
    usage: float,
    running: int,
    queued: int,
    graph: bool,
    rate: float,
    prefill_only: bool = False,
    hybrid: bool = False,
) -> str:
    """Return the scheduler's line about one prefill batch."""
    apart = "#prealloc-req: 0, #inflight-req: 0, " if prefill_only else ""
    pool = f"full token usage: {usage:.2f}, mamba usage: 0.00" if hybrid else f"token usage: {usage:.2f}"
    return (
        f"Prefill batch, #new-seq: {seqs}, #new-token: {tokens}, #cached-token: {cached}, "
        f"{pool}, #running-req: {running}, #queue-req: {queued}, #pending-token: 0, {apart}"
        f"cuda graph: {graph}, input throughput (token/s): {rate:.2f}"
    )


def decode_line(
    *,
    running: int,
    tokens: int,
    usage: float,
    graph: bool,
    rate: float,
    queued: int,
    accepted: tuple[float, float] | None = None,
    hybrid: bool = False,
) -> str:
    """Return the scheduler's line about the decode batch that ends a log interval.

    ``accepted`` is the length and the rate of accepted drafts; ``hybrid`` models also hold a state.
    """
    pool = f"#token: {tokens}, token usage: {usage:.2f}"
    if hybrid:
        pool = (
            f"#full token: {tokens}, full token usage: {usage:.2f}, mamba num: {running}, mamba usage: 0.00"
        )
    drafts = f"accept len: {accepted[0]:.2f}, accept rate: {accepted[1]:.2f}, " if accepted else ""
    return (
        f"Decode batch, #running-req: {running}, {pool}, {drafts}"
        f"cuda graph: {graph}, gen throughput (token/s): {rate:.2f}, #queue-req: {queued}"
    )
