"""Hold what a simulated engine runs: requests, their micro-batches, counts. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from evals.lab.simulator_text import TokenStream

Finish = Literal["stop", "length", "abort"]


@dataclass(eq=False, slots=True)
class Request:
    """Hold one request from its arrival to its last token."""

    prompt: str
    prompt_tokens: int
    max_tokens: int
    stream: TokenStream
    on_token: Callable[[str], None]
    on_end: Callable[[Finish], None]
    gone: Callable[[], bool] = lambda: False
    """Has the client hung up?"""
    ignore_eos: bool = False
    body: Mapping[str, Any] = field(default_factory=dict)
    """What the request said beside, for engines that go by it."""
    made: int = 0
    cached: int = 0
    due: float = 0.0
    """Tokens, and parts of one, that steps have brought and the client has not got yet."""

    @property
    def held(self) -> int:
        """Return the tokens it holds in the key-value pool."""
        return self.prompt_tokens + self.made

    def emit(self) -> Finish | None:
        """Give the client one token more, unless it has hung up; return why it ends, if it does."""
        self.made += 1
        if self.gone():
            return "abort"
        self.on_token(self.stream.next())
        if self.made >= self.max_tokens:
            return "length"
        if not self.ignore_eos and self.made >= self.stream.natural_length:
            return "stop"
        return None


@dataclass(slots=True)
class Rank:
    """Count the steps of one scheduler since its last decode line."""

    name: str
    """What its log lines carry behind the time."""
    logged_at: float
    steps: int = 0
    made: int = 0


@dataclass(eq=False, slots=True)
class MicroBatch:
    """Hold the requests that decode together, and those whose prefill is under way."""

    rank: Rank
    running: list[Request] = field(default_factory=list)
    entering: list[Request] = field(default_factory=list)
    next_at: float = 0.0
    prefill_at: float = 0.0

    @property
    def size(self) -> int:
        """Return how many requests it has taken."""
        return len(self.running) + len(self.entering)

    @property
    def held(self) -> int:
        """Return the tokens its requests hold in the key-value pool."""
        return sum(request.held for request in (*self.running, *self.entering))


@dataclass(slots=True)
class Stats:
    """Hold what metrics and ``/server_info`` show."""

    decode_steps: int = 0
    graph_steps: int = 0
    prefills: int = 0
    generated: int = 0
    prompted: int = 0
    finished: int = 0
    last_throughput: float = 0.0
    last_step_graph: bool = False
    hit_tokens: int = 0
    asked_tokens: int = 0
