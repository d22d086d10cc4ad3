"""Faults that a test lets the fake Slack have, and the record of each call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.fake_slack_world import Json

FaultKind = Literal["error", "status", "ratelimited", "garbage", "cut", "cut_after", "hang"]
"""``cut``: the link ends before the call is done; ``cut_after``: it was done, and the answer is lost."""


@dataclass(frozen=True)
class Fault:
    """What becomes of one call."""

    kind: FaultKind
    error: str = ""
    status: int = 500
    seconds: float = 0.0


@dataclass
class Call:
    """One call of the Web API: what was asked, and what came of it."""

    method: str
    args: Json
    token: str
    at: float = field(default_factory=time.monotonic)
    status: int = 0
    answer: Mapping[str, Any] = field(default_factory=dict)
    fault: FaultKind | None = None

    @property
    def ok(self) -> bool:
        """Tell whether the caller was told that it is done."""
        return bool(self.answer.get("ok"))


class Faults:
    """Faults in waiting: each is used once, in the order in which they were set."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, Fault]] = []

    def add(self, method: str, fault: Fault, times: int = 1) -> None:
        """Let the next calls of a method (``*``: of any) have a fault."""
        self._waiting += [(method, fault)] * times

    def errors(self, method: str, error: str, times: int = 1) -> None:
        """Let calls be answered with ``ok: false`` and this error."""
        self.add(method, Fault("error", error=error), times)

    def breaks(self, method: str, status: int = 500, times: int = 1) -> None:
        """Let calls be answered with an HTTP status and no JSON."""
        self.add(method, Fault("status", status=status), times)

    def limits(self, method: str, seconds: int = 1, times: int = 1) -> None:
        """Let calls be answered with 429 and ``Retry-After``."""
        self.add(method, Fault("ratelimited", status=429, seconds=seconds), times)

    def take(self, method: str) -> Fault | None:
        """Return the fault of a call, and forget it."""
        for index, (name, fault) in enumerate(self._waiting):
            if name in ("*", method):
                del self._waiting[index]
                return fault
        return None

    def clear(self) -> None:
        """Let there be no more faults."""
        self._waiting.clear()

    @property
    def left(self) -> int:
        """Return how many are still in waiting."""
        return len(self._waiting)
