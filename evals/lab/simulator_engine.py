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

from evals.lab.cost_model import duty, stage_ms, token_ms
from evals.lab.engine_facts import Scenario, holds
from evals.lab.simulator_batches import MicroBatch, Rank, Request, Stats
from evals.lab.simulator_launch import Launch
from evals.lab.simulator_log import EngineLog, decode_line, prefill_line

GATHER_S = 0.04
"""Requests that come within one round of the scheduler are admitted together.

Shorter, and requests of one burst that a busy machine spreads over some milliseconds are split at random.
"""
BEHIND_S = 0.5
"""A step this late was held up by the machine, not by the model: the clock is set anew."""


class Engine:
    """Run requests; all its work happens in timer callbacks of one event loop."""

    def __init__(self, scenario: Scenario, launch: Launch, log: EngineLog) -> None:
        self.launch = launch
        self.stats = Stats()
        self.waiting: deque[Request] = deque()
        self.on_load: Callable[[], None] = lambda: None
        self._scenario = scenario
        self._log = log
        ranks = [Rank(name, self.now()) for name in launch.schedulers]
        self._batches = [MicroBatch(ranks[i % len(ranks)]) for i in range(launch.slots)]
        self._timer: asyncio.TimerHandle | None = None
        self._admit_at = 0.0
        self._prefill_free = 0.0
        self._seen: dict[str, None] = {}
        self._started = self.now()
        self._noise_in = (-1, 1.0)
        first_use = scenario.hazards.first_use
        slow = first_use is not None and holds(first_use.when, launch.fields)
        self._first_use = first_use if slow else None
        self._slow_left = first_use.busy_s if first_use is not None and slow else 0.0

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
        return sum(batch.held for batch in self._batches)

    @property
    def usage(self) -> float:
        """Return the share of the key-value pool in use."""
        return self.used_tokens / (self.launch.pool_tokens * self.launch.plan.workers)

    @property
    def duty(self) -> float:
        """Return the share of time in which a GPU's kernels run, as things stand."""
        sizes = self._sizes()
        if sizes:
            return duty(self._scenario.cost, self.launch.plan, sizes, self._held())
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

    def _held(self) -> list[int]:
        return [sum(r.held for r in batch.running) for batch in self._batches if batch.running]

    def _noise(self, at: float) -> float:
        """Return this second's factor on step times: slow drift, seeded, cut at 1.5 deviations."""
        noise = self._scenario.noise
        if not noise.relative:
            return 1.0
        window = int(at - self._started)
        if self._noise_in[0] != window:
            drawn = random.Random(f"{noise.seed}:{window}").gauss(0.0, 1.0)
            self._noise_in = window, 1.0 + noise.relative * max(-1.5, min(1.5, drawn))
        return self._noise_in[1]

    def _step_s(self, at: float) -> float:
        cost, plan = self._scenario.cost, self.launch.plan
        return self._slowed(token_ms(cost, plan, self._sizes(), self._held()) / 1000 * self._noise(at))

    def _slowed(self, work_s: float) -> float:
        """Return how long some work takes when kernels are still compiled on their first use."""
        if self._first_use is None or self._slow_left <= 0:
            return work_s
        taken = work_s * self._first_use.factor
        self._slow_left -= taken
        return taken

    def _step(self, batch: MicroBatch, now: float) -> None:
        at, size = batch.next_at, len(batch.running)
        self.stats.decode_steps += 1
        self.stats.last_step_graph = self.launch.plan.graphs(size)
        self.stats.graph_steps += self.stats.last_step_graph
        made = self.stats.generated
        for request in list(batch.running):
            self._advance(batch, request)
        batch.rank.steps += 1
        batch.rank.made += self.stats.generated - made
        if batch.rank.steps % max(1, int(self.launch.fields["decode_log_interval"])) == 0:
            self._report(batch, size, now)
        if not batch.running:
            batch.next_at = 0.0
        else:
            start = at if now - at < BEHIND_S else now
            batch.next_at = start + self._step_s(start)
        if self.waiting and not self._admit_at:
            self._admit_at = now

    def _advance(self, batch: MicroBatch, request: Request) -> None:
        """Give a request the tokens of one step: one, or as many as were accepted of a draft."""
        request.due += self.launch.accept_length
        while request.due >= 1.0 and request in batch.running:
            request.due -= 1.0
            self._emit(batch, request)

    def _emit(self, batch: MicroBatch, request: Request) -> None:
        self.stats.generated += 1
        end = request.emit()
        if end is not None:
            batch.running.remove(request)
            self.stats.finished += 1
            request.on_end(end)

    def _report(self, batch: MicroBatch, size: int, now: float) -> None:
        rank, workers = batch.rank, self.launch.plan.workers
        self.stats.last_throughput = rank.made / max(1e-6, now - rank.logged_at)
        rank.made, rank.logged_at = 0, now
        text = decode_line(
            running=size,
            tokens=self.used_tokens if workers == 1 else batch.held,
            usage=self.usage,
            graph=self.stats.last_step_graph,
            rate=self.stats.last_throughput,
            queued=-(-len(self.waiting) // workers),
            accepted=self.launch.accepted,
            hybrid=self.launch.hybrid,
        )
        self._log.line(text, rank.name)

    def _admit(self, now: float) -> None:
        """Start the prefill of waiting requests, micro-batch by micro-batch, while there is room."""
        workers = self.launch.plan.workers
        for index, batch in enumerate(self._batches):
            room = min(self.launch.micro_batch - batch.size, self.launch.max_running * workers - self.running)
            if workers > 1:  # requests go round the schedulers
                room = min(room, -(-len(self.waiting) // (workers - index)))
            if batch.entering or room <= 0:
                continue
            taken = self._take(room)
            if taken:
                self._begin_prefill(batch, taken, now)
            if not self.waiting:
                return

    def _take(self, room: int) -> list[Request]:
        taken: list[Request] = []
        free = self.launch.pool_tokens * self.launch.plan.workers - self.used_tokens
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
        if self._first_use is not None and self.stats.prefills == 0:
            for text in self._first_use.log:
                self._log.line(text, batch.rank.name)
        for request in taken:
            request.cached = self._cached(request)
        fresh = sum(r.prompt_tokens - r.cached for r in taken)
        cost, plan = self._scenario.cost, self.launch.plan
        work = self._slowed(fresh / cost.prefill_tokens_per_s)
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
            prefill_only=self.launch.prefill_only,
            hybrid=self.launch.hybrid,
        )
        self._log.line(text, batch.rank.name)

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
        batch.rank.made += len(entered)
        if batch.running and not batch.next_at:
            batch.next_at = at + self._step_s(at)
        if self.waiting and not self._admit_at:
            self._admit_at = self.now()
