"""Start the simulated engine, logged rank by rank as the real one does. Standard library only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from evals.lab.engine_facts import Scenario, holds
from evals.lab.simulator_launch import Launch, ranks
from evals.lab.simulator_log import EngineLog
from evals.lab.simulator_state import GpuState

CONTEXT_GIB = 0.6
"""Memory that the driver and the CUDA context take on each GPU."""


class StartFailed(Exception):
    """Report that the engine ends while it starts: its last lines and its exit code."""

    def __init__(self, lines: Sequence[str], code: int) -> None:
        super().__init__(lines[0] if lines else "engine failed at start")
        self.lines = lines
        self.code = code


class Startup:
    """Load weights, make the key-value pool, capture graphs; all within the scenario's start-up time."""

    def __init__(self, scenario: Scenario, launch: Launch, log: EngineLog, state: GpuState) -> None:
        self._scenario = scenario
        self._launch = launch
        self._log = log
        self._state = state
        self._names = ranks(launch.fields)
        self._begun = time.monotonic()
        self._free = scenario.hardware.memory_mib / 1024 - CONTEXT_GIB

    async def run(self) -> None:
        """Do it; raise `StartFailed` where the real engine would end."""
        gpus = len(self._names)
        if gpus > self._scenario.hardware.count:
            raise StartFailed(["RuntimeError: CUDA error: invalid device ordinal"], 1)
        self._state.enter("loading", memory_gib=CONTEXT_GIB, gpus=gpus)
        await self._load_weights()
        self._make_pool()
        if self._launch.graphs:
            self._state.enter("capturing", memory_gib=self._held(), gpus=gpus)
            await self._capture()
        launch, fields = self._launch, self._launch.fields
        self._each(
            f"max_total_num_tokens={launch.pool_tokens}, "
            f"chunked_prefill_size={fields['chunked_prefill_size']}, "
            f"max_prefill_tokens={fields['max_prefill_tokens']}, max_running_requests={launch.max_running}, "
            f"context_len={launch.context_length}, available_gpu_mem={self._free:.2f} GB"
        )
        await self._until(0.95)
        self._state.enter("serving", memory_gib=self._held(), gpus=gpus)

    async def _load_weights(self) -> None:
        weights = self._launch.weights_gib
        self._each("Init torch distributed begin.")
        self._each(
            f"Init torch distributed ends. elapsed={self._elapsed():.2f} s, mem usage=0.35 GB",
            f"Load weight begin. avail mem={self._free:.2f} GB",
        )
        await self._until(0.55 if self._launch.graphs else 0.85)
        self._free -= weights
        kind = (self._scenario.model.config.get("architectures") or ["Model"])[0]
        self._each(
            f"Load weight end. elapsed={self._elapsed():.2f} s, type={kind}, "
            f"avail mem={self._free:.2f} GB, mem usage={weights:.2f} GB."
        )

    def _make_pool(self) -> None:
        pool = self._launch.kv_gib
        self._free = max(0.5, self._free - pool)
        self._each(
            f"KV Cache is allocated. #tokens: {self._launch.pool_tokens}, KV size: {pool:.2f} GB",
            f"Memory pool end. avail mem={self._free:.2f} GB",
        )

    async def _capture(self) -> None:
        begun, graph = time.monotonic(), self._launch.graph_gib
        self._each(
            f"Capture cuda graph begin. This can take up to several minutes. avail mem={self._free:.2f} GB"
        )
        sizes = list(self._launch.fields["cuda_graph_bs"])
        self._log.line(f"Capture cuda graph bs {sizes}", self._launch.rank)
        await self._until(0.9)
        hazard = self._scenario.hazards.capture_fails
        if hazard is not None and holds(hazard.when, self._launch.fields):
            raise StartFailed(hazard.log, hazard.exit)
        self._free = max(0.1, self._free - graph)
        self._each(
            f"Capture cuda graph end. Time elapsed: {time.monotonic() - begun:.2f} s. "
            f"mem usage={graph:.2f} GB. avail mem={self._free:.2f} GB."
        )

    def _each(self, *lines: str) -> None:
        """Write these lines for every rank."""
        for rank in self._names:
            for text in lines:
                self._log.line(text, rank)

    def _held(self) -> float:
        return self._scenario.hardware.memory_mib / 1024 - self._free

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    async def _until(self, share: float) -> None:
        """Wait until this share of the start-up time has passed."""
        await asyncio.sleep(max(0.0, self._scenario.startup_s * share - self._elapsed()))
