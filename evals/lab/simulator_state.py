"""Publish what the simulated GPUs do, for the stand-in of nvidia-smi. Standard library only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import time
from collections import deque
from pathlib import Path
from typing import Any, Literal

from evals.lab.cost_model import watts
from evals.lab.engine_facts import Scenario

Phase = Literal["loading", "capturing", "serving", "stopped"]

WINDOW_S = 1.0
PERIOD_S = 0.2


class GpuState:
    """Average the GPUs' duty over the last second and write it to the state file on change."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._path = Path(scenario.state_file) if scenario.state_file else None
        self._phase: Phase = "loading"
        self._memory_gib = 0.0
        self._used = 0
        self._changes: deque[tuple[float, float]] = deque([(time.monotonic(), 0.0)])
        self._written: dict[str, Any] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, phase: Phase, *, memory_gib: float, gpus: int) -> None:
        """Say what the engine does now and how much memory it holds on each of its GPUs."""
        self._phase, self._memory_gib, self._used = phase, memory_gib, gpus
        self.write()

    def load(self, share: float) -> None:
        """Say that from now on kernels run for this share of the time; written soon."""
        if share != self._changes[-1][1]:
            self._changes.append((time.monotonic(), share))
        if self._timer is None and self._path is not None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._tick)

    def stop(self) -> None:
        """Write that the engine is gone; its GPUs are idle and empty."""
        if self._timer is not None:
            self._timer.cancel()
        self._changes = deque([(time.monotonic(), 0.0)])
        self.enter("stopped", memory_gib=0.0, gpus=0)

    def _tick(self) -> None:
        self._timer = None
        self.write()
        settled = len(self._changes) == 1
        if not settled or self._changes[-1][1] > 0:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._tick)

    def mean_duty(self) -> float:
        """Return the duty averaged over the last second."""
        now = time.monotonic()
        while len(self._changes) > 1 and self._changes[1][0] <= now - WINDOW_S:
            self._changes.popleft()
        ends = [at for at, _ in list(self._changes)[1:]] + [now]
        begun = now - WINDOW_S
        area = sum(
            share * max(0.0, end - max(at, begun))
            for (at, share), end in zip(self._changes, ends, strict=True)
        )
        return min(1.0, area / WINDOW_S)

    def write(self) -> None:
        """Write the state file when something changed; replaced whole, so a reader never sees half of it."""
        if self._path is None:
            return
        share = self.mean_duty()
        view = {"simulated": True, "pid": os.getpid(), "phase": self._phase, "gpus": self._gpus(share)}
        if view == self._written:
            return
        self._written = view
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            draft.write_text(json.dumps({**view, "at": time.time()}), encoding="utf-8")
            draft.replace(self._path)

    def _gpus(self, share: float) -> list[dict[str, Any]]:
        hardware, noise = self._scenario.hardware, self._scenario.noise
        shown = []
        for index in range(hardware.count):
            mine = share if index < self._used else 0.0
            drawn = random.Random(f"{noise.seed}:{index}:{mine:.4f}").gauss(0.0, noise.relative / 3)
            factor = 1.0 + drawn if mine else 1.0
            power = watts(self._scenario.cost, hardware.idle_w, mine) * factor
            held = self._memory_gib * 1024 if index < self._used else 3.0
            shown.append(
                {
                    "index": index,
                    "power_w": round(min(power, hardware.power_limit_w), 2),
                    "utilization": round(100 * mine),
                    "memory_used_mib": round(min(held, hardware.memory_mib)),
                    "sm_clock_mhz": hardware.max_sm_clock_mhz if mine else hardware.idle_sm_clock_mhz,
                    "pstate": "P1" if mine else "P8",
                }
            )
        return shown
