"""Make the tokens of a described service in real time, at the pace its rules give. Standard library only.

One batch, continuous: waiting requests are prefilled together, then join the running ones; steps end at
absolute times, so that being woken late never adds up. Prefill does not slow the requests that decode.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evals.lab import described_rules
from evals.lab.described_rules import Machine
from evals.lab.simulator_batches import Request
from evals.lab.simulator_engine import BEHIND_S, GATHER_S

_RECHECK_S = 0.5
"""How often requests that may not start yet are looked at again."""


@dataclass(slots=True)
class Counts:
    """Hold what a service has done since its start."""

    steps: int = 0
    generated: int = 0
    prompted: int = 0
    finished: int = 0


@dataclass(slots=True)
class Reporter:
    """Print the periodic lines of the rules; each has a period of its own."""

    say: Callable[[str], None]
    counts: Counts
    _seen: dict[str, tuple[float, Counts]] = field(default_factory=dict)

    def look(self, logs: list[Mapping[str, Any]], machine: Machine, now: float) -> None:
        """Print the lines whose period is over."""
        for log in logs:
            text = str(log["text"])
            since, before = self._seen.setdefault(text, (now, self._copy()))
            steps, passed = self.counts.steps - before.steps, now - since
            over = steps >= log["every_steps"] if log["every_steps"] else passed >= log["every_s"]
            if not over or passed <= 0:
                continue
            machine.live["tokens_s"] = (self.counts.generated - before.generated) / passed
            machine.live["prompt_tokens_s"] = (self.counts.prompted - before.prompted) / passed
            self._seen[text] = (now, self._copy())
            for line in machine.fill(text).splitlines():
                self.say(line)

    def restart(self) -> None:
        """Begin all periods anew: work was resumed after a pause."""
        self._seen.clear()

    def _copy(self) -> Counts:
        own = self.counts
        return Counts(own.steps, own.generated, own.prompted, own.finished)


class Engine:
    """Run requests; all its work happens in timer callbacks of one event loop."""

    def __init__(self, service: Mapping[str, Any], machine: Machine, say: Callable[[str], None]) -> None:
        self.machine = machine
        self.counts = Counts()
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.entering: list[Request] = []
        self.on_load: Callable[[], None] = lambda: None
        self._rules = list(service["rules"].values())
        self.effect: dict[str, Any] = {}
        self._noise = float(service["noise"])
        self._seed = service["text_seed"]
        self._reporter = Reporter(say, self.counts)
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = self._prefill_at = self._admit_at = 0.0
        self._seen: dict[str, None] = {}
        self._started = self.now()
        self.refresh()

    @staticmethod
    def now() -> float:
        """Return the clock all deadlines are on, in seconds."""
        return asyncio.get_running_loop().time()

    @property
    def busy(self) -> bool:
        """Tell whether it works: a request runs, is in prefill, or is worked on in vain."""
        return bool(self.running or self.entering or self.stalled)

    @property
    def stalled(self) -> bool:
        """Tell whether the rules keep requests waiting for ever."""
        return bool(self.waiting and self.effect.get("stall"))

    @property
    def used_tokens(self) -> int:
        """Return the tokens that running requests hold."""
        return sum(request.held for request in (*self.running, *self.entering))

    def refresh(self) -> dict[str, Any]:
        """Judge the rules anew and return what holds now."""
        live, first = self.machine.live, list(self.waiting)[:1]
        pool = self._limit("kv_tokens") if live else None
        live |= {
            "running": len(self.running) + len(self.entering),
            "waiting": len(self.waiting),
            "requests": self.counts.finished,
            "uptime_s": self.now() - self._started,
            "pid": os.getpid(),
            "step": self.counts.steps,
            "kv_usage": self.used_tokens / pool if pool else 0.0,
            "prompt_tokens": sum(r.prompt_tokens for r in self.entering or self.running or first),
        }
        asking = next(iter((*self.running, *self.entering, *first)), None)
        self.machine.request = asking.body if asking is not None else {}
        self.effect = described_rules.merged(self._rules, self.machine)
        return self.effect

    def submit(self, request: Request) -> bool:
        """Queue a request."""
        if not self.busy:
            self._reporter.restart()
        self.waiting.append(request)
        self._admit_at = self._admit_at or self.now() + GATHER_S
        self._arm()
        return True

    def stop(self) -> None:
        """Take back the timer; nothing runs any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _limit(self, name: str) -> float | None:
        value = self.machine.number(self.effect.get(name))
        return float(value) if value is not None else None

    def _arm(self) -> None:
        times = [at for at in (self._next_at, self._prefill_at, self._admit_at) if at]
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(min(times), self._tick) if times else None

    def _tick(self) -> None:
        now = self.now()
        self.refresh()
        if self._prefill_at and self._prefill_at <= now:
            self._end_prefill()
        if self._next_at and self._next_at <= now:
            self._step(now)
        if self._admit_at and self._admit_at <= now:
            self._admit_at = 0.0
            self._admit(now)
        self._arm()
        self.on_load()

    def _factor(self) -> float:
        """Return this second's factor on step times: slow drift, seeded, cut at 1.5 deviations."""
        drawn = random.Random(f"{self._seed}:{int(self.now() - self._started)}").gauss(0.0, 1.0)
        return 1.0 + self._noise * max(-1.5, min(1.5, drawn))

    def _step_s(self) -> float:
        ms = described_rules.step_ms(self.effect.get("step_ms"), max(1, len(self.running)), self.machine)
        return max(0.0005, ms / 1000) * self._factor()

    def _step(self, now: float) -> None:
        at = self._next_at
        self.counts.steps += 1
        each = self._limit("tokens_per_step") or 1.0
        for request in list(self.running):
            request.due += each
            while request.due >= 1.0 and request in self.running:
                request.due -= 1.0
                self._emit(request)
        self._reporter.look(self.effect["log"], self.machine, now)
        self._next_at = (at if now - at < BEHIND_S else now) + self._step_s() if self.running else 0.0
        if self.waiting and not self.entering:
            self._admit_at = now

    def _emit(self, request: Request) -> None:
        self.counts.generated += 1
        end = request.emit()
        if end is not None:
            self.running.remove(request)
            self.counts.finished += 1
            request.on_end(end)

    def _admit(self, now: float) -> None:
        """Start the prefill of the waiting requests there is room for."""
        for request in [request for request in self.waiting if request.gone()]:
            self.waiting.remove(request)
            request.on_end("abort")
        if self.entering:
            return
        taken = [] if self.effect.get("stall") else self._take()
        if taken:
            self._begin_prefill(taken, now)
        elif self.waiting:
            self._admit_at = now + _RECHECK_S
        if self.stalled:
            tokens_s = (self.effect.get("prefill") or {}).get("tokens_s", 0.0)
            self.counts.prompted += round(float(self.machine.number(tokens_s)) * _RECHECK_S)
            self._reporter.look(self.effect["log"], self.machine, now)

    def _take(self) -> list[Request]:
        taken: list[Request] = []
        limit, pool = self._limit("concurrency"), self._limit("kv_tokens")
        free = math.inf if pool is None else pool - self.used_tokens
        while self.waiting and (limit is None or len(self.running) + len(taken) < limit):
            request = self.waiting[0]
            free -= request.prompt_tokens + min(request.max_tokens, 4096)
            if free < 0:
                break
            taken.append(self.waiting.popleft())
        return taken

    def _begin_prefill(self, taken: list[Request], now: float) -> None:
        for request in taken:
            request.cached = self._cached(request)
        self.entering = taken
        self.refresh()
        fresh = sum(request.prompt_tokens - request.cached for request in taken)
        self._prefill_at = now + (self.prefill_s(fresh) + self._step_s()) * self._factor()
        self.counts.prompted += sum(request.prompt_tokens for request in taken)

    def prefill_s(self, fresh: int) -> float:
        """Return the seconds in which so many tokens of prompts are read, noise left out."""
        spec = {"tokens_s": 8000.0, "chunk": 8192, "chunk_ms": 0.0, **(self.effect.get("prefill") or {})}
        tokens_s, chunk, chunk_ms = (
            float(self.machine.number(spec[name])) for name in ("tokens_s", "chunk", "chunk_ms")
        )
        return fresh / max(tokens_s, 1e-3) + math.ceil(fresh / max(chunk, 1.0)) * chunk_ms / 1000

    def _cached(self, request: Request) -> int:
        """Return how many prompt tokens the prefix cache holds: all but the last of a prompt seen before."""
        hit = request.prompt_tokens - 1 if request.prompt in self._seen else 0
        if self.effect.get("prefix_cache"):
            self._seen[request.prompt] = None
            if len(self._seen) > 4096:
                del self._seen[next(iter(self._seen))]
        return hit

    def _end_prefill(self) -> None:
        at, entered = self._prefill_at, self.entering
        self.entering, self._prefill_at = [], 0.0
        self.running += entered
        for request in entered:
            self._emit(request)
        if self.running and not self._next_at:
            self._next_at = at + self._step_s()
        if self.waiting:
            self._admit_at = self.now()
