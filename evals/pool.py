"""Worker processes of an eval run: jobs go to whoever has room, and a dead worker costs only its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from evals.context import RunContext
from evals.jobs import RECORDED, Job
from evals.results import Result
from evals.worker import LONGEST_LINE, jobs_adapter

CHUNK = 16
"""Recordings that a worker is given at a time: to rate one takes no longer than to ask for it."""

_END_S = 60.0
"""How long a worker may take to end its labs after its input ended."""


class Pool:
    """Run jobs in so many worker processes, each with several labs at a time."""

    def __init__(self, context: RunContext, keep: Sequence[int], done: Callable[[Result], None]) -> None:
        self._context = context
        self._keep = tuple(keep)
        """Descriptors that a worker holds as well: the run's lock."""
        self._done = done

    async def run(self, jobs: Sequence[Job]) -> None:
        """Do all jobs: first what needs the processor alone, so that nothing disturbs what labs measure."""
        cores = os.cpu_count() or 1
        recorded = [job for job in jobs if job.way in RECORDED]
        worked = [job for job in jobs if job.way not in RECORDED]
        workers = [_Worker(self._context, self._keep, self._done) for _ in range(min(cores, len(jobs)))]
        try:
            await self._phase(workers, recorded, CHUNK, len(workers))
            await self._phase(workers, worked, 1, self._context.asked.jobs)
        finally:
            await asyncio.gather(*(worker.close() for worker in workers))

    async def _phase(self, workers: Sequence[_Worker], jobs: Sequence[Job], chunk: int, lanes: int) -> None:
        """Do jobs of one kind, in as many lanes as may be at work at a time."""
        left = deque(jobs)
        chunk = max(1, min(chunk, len(jobs) // max(len(workers), 1)))

        async def lane(worker: _Worker) -> None:
            while batch := list(islice(_drained(left), chunk)):
                await worker.do(batch)

        try:
            async with asyncio.TaskGroup() as group:
                for place in range(min(lanes, len(jobs))):
                    group.create_task(lane(workers[place % len(workers)]))
        except ExceptionGroup as group_error:
            raise group_error.exceptions[0] from None  # a full disk stops all lanes: one line says so


def _drained(left: deque[Job]) -> Iterator[Job]:
    while left:
        yield left.popleft()


class _Worker:
    """Hold one worker process, started when it is first needed and again after it died."""

    def __init__(self, context: RunContext, keep: Sequence[int], done: Callable[[Result], None]) -> None:
        self._context = context
        self._keep = keep
        self._done = done
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._open: dict[str, tuple[Job, asyncio.Future[None]]] = {}
        self._starting = asyncio.Lock()

    async def do(self, jobs: Sequence[Job]) -> None:
        """Hand jobs over and wait for their results."""
        process = await self._started()
        loop = asyncio.get_running_loop()
        futures = []
        for job in jobs:
            futures.append(loop.create_future())
            self._open[job.key] = (job, futures[-1])
        assert process.stdin is not None  # it was started with a pipe
        with suppress(ConnectionError):  # its death is noticed where its results are read
            process.stdin.write(jobs_adapter.dump_json(list(jobs)) + b"\n")
            await process.stdin.drain()
        await asyncio.gather(*futures)

    async def _started(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is None or self._reading is None or self._reading.done():
                self._process = await self._start()
                self._reading = asyncio.create_task(self._read(self._process))
            return self._process

    async def _start(self) -> asyncio.subprocess.Process:
        with (self._context.folder / "worker.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "evals.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LONGEST_LINE,
                start_new_session=True,  # Ctrl-C is for the run, which ends its workers itself
                pass_fds=self._keep,
            )
        assert process.stdin is not None  # it was started with a pipe
        process.stdin.write(self._context.model_dump_json().encode() + b"\n")
        return process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Pass results on until the worker ends; when they cannot be kept, those who wait are told."""
        try:
            await self._pass_on(process)
        except Exception as error:  # noqa: BLE001 - raised where the results are waited for
            for _, future in self._open.values():
                if not future.done():
                    future.set_exception(error)

    async def _pass_on(self, process: asyncio.subprocess.Process) -> None:
        """Pass results on until the worker ends; what it had in hand then does not count."""
        assert process.stdout is not None  # it was started with a pipe
        while line := await process.stdout.readline():
            self._settle(Result.model_validate_json(line))
        code = await process.wait()
        log = self._context.folder / "worker.log"
        for job, _ in list(self._open.values()):
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            self._settle(job.result(error=f"its worker process ended {how}; see {log}, then resume the run"))

    def _settle(self, result: Result) -> None:
        self._done(result)
        _, future = self._open.pop(result.key)
        if not future.done():
            future.set_result(None)

    async def close(self) -> None:
        """Let the worker end what it has at work, its labs included, and wait until it is gone."""
        if self._process is None or self._reading is None:
            return
        self._open.clear()
        self._reading.cancel()
        assert self._process.stdin is not None  # it was started with a pipe
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _END_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
