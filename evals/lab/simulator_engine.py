"""Schedule requests into micro-batches and make their tokens in real time, as the cost model says.

Steps end at absolute times, so that being woken late never adds up. One simplification: a new request joins
the first micro-batch that has room, while a real pipeline gives it to the one whose turn it is. Standard
library only.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from evals.lab.cost_model import duty, stage_ms, token_ms
from evals.lab.engine_facts import Scenario
from evals.lab.simulator_launch import Launch
from evals.lab.simulator_log import EngineLog, decode_line, prefill_line
from evals.lab.simulator_text import TokenStream

Finish = Literal["stop", "length", "abort"]

GATHER_S = 0.004
"""Requests that come within one scheduler step are admitted together."""
BEHIND_S = 0.5
"""A step this late was held up by the machine, not by the model: the clock is set anew."""


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
    made: int = 0
    cached: int = 0

    @property
    def held(self) -> int:
        """Return the tokens it holds in the key-value pool."""
        return self.prompt_tokens + self.made


@dataclass(eq=False, slots=True)
class MicroBatch:
    """Hold the requests that decode together, and those whose prefill is under way."""

    running: list[Request] = field(default_factory=list)
    entering: list[Request] = field(default_factory=list)
    next_at: float = 0.0
    prefill_at: float = 0.0

    @property
    def size(self) -> int:
        """Return how many requests it has taken."""
        return len(self.running) + len(self.entering)


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


class Engine:
    """Run requests; all its work happens in timer callbacks of one event loop."""

    def __init__(self, scenario: Scenario, launch: Launch, log: EngineLog) -> None:
        self.launch = launch
        self.stats = Stats()
        self.waiting: deque[Request] = deque()
        self.on_load: Callable[[], None] = lambda: None
        self._scenario = scenario
        self._log = log
        self._batches = [MicroBatch() for _ in range(launch.slots)]
        self._timer: asyncio.TimerHandle | None = None
        self._admit_at = 0.0
        self._prefill_free = 0.0
        self._seen: dict[str, None] = {}
        self._since_log = 0
        self._logged_at = self.now()
        self._started = self.now()

    @staticmethod
    def now() -> float:
        """Return the clock all deadlines are on, in seconds."""
        return asyncio.get_running_loop().time()

    @property
    def running(self) -> int:
        """Return how many requests run or are in prefill."""
        return sum(batch.size for batch in self._batches)

    @property
    def used_tokens(self) -> int:
        """Return the tokens held in the key-value pool."""
        held = [r.held for b in self._batches for r in (*b.running, *b.entering)]
        return sum(held)

    @property
    def usage(self) -> float:
        """Return the share of the key-value pool in use."""
        return self.used_tokens / self.launch.pool_tokens

    @property
    def duty(self) -> float:
        """Return the share of time in which a GPU's kernels run, as things stand."""
        sizes = self._sizes()
        if sizes:
            return duty(self._scenario.cost, self.launch.plan, sizes)
        entering = any(batch.entering for batch in self._batches)
        return 1.0 / self.launch.plan.stages if entering else 0.0

    def submit(self, request: Request) -> bool:
        """Queue a request; return False when the queue is full."""
        limit = self.launch.fields.get("max_queued_requests")
        if limit is not None and len(self.waiting) >= limit:
            return False
        self.waiting.append(request)
        if not self._admit_at:
            self._admit_at = self.now() + GATHER_S
        self._arm()
        return True

    def stop(self) -> None:
        """Take back the timer; nothing runs any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        times = [t for b in self._batches for t in (b.next_at, b.prefill_at) if t]
        if self._admit_at:
            times.append(self._admit_at)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(min(times), self._wake) if times else None

    def _wake(self) -> None:
        now = self.now()
        for batch in self._batches:
            if batch.prefill_at and batch.prefill_at <= now:
                self._end_prefill(batch)
            if batch.next_at and batch.next_at <= now:
                self._step(batch, now)
        if self._admit_at and self._admit_at <= now:
            self._admit_at = 0.0
            self._admit(now)
        self._arm()
        self.on_load()

    def _sizes(self) -> list[int]:
        return [len(batch.running) for batch in self._batches if batch.running]

    def _noise(self, at: float) -> float:
        """Return this second's factor on step times: slow drift, seeded, cut at 1.5 deviations."""
        noise = self._scenario.noise
        if not noise.relative:
            return 1.0
        window = int(at - self._started)
        drawn = random.Random(f"{noise.seed}:{window}").gauss(0.0, 1.0)
        return 1.0 + noise.relative * max(-1.5, min(1.5, drawn))

    def _step_s(self, at: float) -> float:
        return token_ms(self._scenario.cost, self.launch.plan, self._sizes()) / 1000 * self._noise(at)

    def _step(self, batch: MicroBatch, now: float) -> None:
        at, size = batch.next_at, len(batch.running)
        self.stats.decode_steps += 1
        self.stats.last_step_graph = self.launch.plan.graphs(size)
        self.stats.graph_steps += self.stats.last_step_graph
        for request in list(batch.running):
            self._emit(batch, request)
        self._since_log += size
        if self.stats.decode_steps % max(1, int(self.launch.fields["decode_log_interval"])) == 0:
            self._report(size, now)
        if not batch.running:
            batch.next_at = 0.0
        else:
            start = at if now - at < BEHIND_S else now
            batch.next_at = start + self._step_s(start)
        if self.waiting and not self._admit_at:
            self._admit_at = now

    def _emit(self, batch: MicroBatch, request: Request) -> None:
        request.made += 1
        self.stats.generated += 1
        end = self._finish(request)
        if end != "abort":
            request.on_token(request.stream.next())
        if end is not None:
            batch.running.remove(request)
            self.stats.finished += 1
            request.on_end(end)

    @staticmethod
    def _finish(request: Request) -> Finish | None:
        if request.gone():
            return "abort"
        if request.made >= request.max_tokens:
            return "length"
        if not request.ignore_eos and request.made >= request.stream.natural_length:
            return "stop"
        return None

    def _report(self, size: int, now: float) -> None:
        self.stats.last_throughput = self._since_log / max(1e-6, now - self._logged_at)
        self._since_log, self._logged_at = 0, now
        text = decode_line(
            running=size,
            tokens=self.used_tokens,
            usage=self.usage,
            graph=self.stats.last_step_graph,
            rate=self.stats.last_throughput,
            queued=len(self.waiting),
        )
        self._log.line(text, self.launch.rank)

    def _admit(self, now: float) -> None:
        """Start the prefill of waiting requests, micro-batch by micro-batch, while there is room."""
        for batch in self._batches:
            room = min(self.launch.micro_batch - batch.size, self.launch.max_running - self.running)
            if batch.entering or room <= 0:
                continue
            taken = self._take(room)
            if taken:
                self._begin_prefill(batch, taken, now)
            if not self.waiting:
                return

    def _take(self, room: int) -> list[Request]:
        taken: list[Request] = []
        free = self.launch.pool_tokens - self.used_tokens
        budget = int(self.launch.fields["max_prefill_tokens"])
        while self.waiting and len(taken) < room:
            request = self.waiting[0]
            if request.gone():
                self.waiting.popleft()
                request.on_end("abort")
                continue
            free -= request.prompt_tokens + min(request.max_tokens, 4096)
            budget -= request.prompt_tokens
            if (free < 0 and self.running) or (budget < 0 and taken):
                break
            taken.append(self.waiting.popleft())
        return taken

    def _begin_prefill(self, batch: MicroBatch, taken: list[Request], now: float) -> None:
        for request in taken:
            request.cached = self._cached(request)
        fresh = sum(r.prompt_tokens - r.cached for r in taken)
        cost, plan = self._scenario.cost, self.launch.plan
        work = fresh / cost.prefill_tokens_per_s
        stage = stage_ms(cost, plan, len(taken)) / 1000
        start = max(now, self._prefill_free)
        self._prefill_free = start + work + stage
        batch.entering = taken
        batch.prefill_at = start + (work + plan.stages * stage) * self._noise(start)
        self.stats.prefills += 1
        self.stats.prompted += sum(r.prompt_tokens for r in taken)
        text = prefill_line(
            seqs=len(taken),
            tokens=fresh,
            cached=sum(r.cached for r in taken),
            usage=self.usage,
            running=self.running - len(taken),
            queued=len(self.waiting),
            graph=False,
            rate=fresh / max(1e-6, batch.prefill_at - now),
        )
        self._log.line(text, self.launch.rank)

    def _cached(self, request: Request) -> int:
        """Return how many prompt tokens the prefix cache holds: all but the last of a prompt seen before."""
        hit = request.prompt_tokens - 1 if request.prompt in self._seen else 0
        if not self.launch.fields["disable_radix_cache"]:
            self._seen[request.prompt] = None
            if len(self._seen) > 4096:
                del self._seen[next(iter(self._seen))]
        self.stats.hit_tokens += hit
        self.stats.asked_tokens += request.prompt_tokens
        return hit

    def _end_prefill(self, batch: MicroBatch) -> None:
        at = batch.prefill_at
        batch.running += batch.entering
        entered, batch.entering, batch.prefill_at = batch.entering, [], 0.0
        for request in entered:
            self._emit(batch, request)
        self._since_log += len(entered)
        if batch.running and not batch.next_at:
            batch.next_at = at + self._step_s(at)
        if self.waiting and not self._admit_at:
            self._admit_at = self.now()
