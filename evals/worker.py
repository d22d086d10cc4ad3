"""One worker process of an eval run: jobs come in on stdin, some a line; results go out on stdout.

It ends when its input does, which is also how it notices that the run was killed; its labs end with it.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import cache
from typing import IO

from pydantic import TypeAdapter

from agent.config import Settings, pin_libraries
from agent.errors import LeadlineError, UsageError
from evals import case, patterns
from evals.context import RunContext
from evals.cpu import CpuClock, Meter
from evals.jobs import Job
from evals.patterns import EndlessPattern
from evals.results import Result, Way
from tools import registry

LONGEST_LINE = 1 << 24
"""Bytes of one line between a run and its workers."""

jobs_adapter: TypeAdapter[list[Job]] = TypeAdapter(list[Job])
"""One line of a worker's input."""


_LAB = (
    "agent.driver",
    "agent.models.openai",
    "agent.models.playbook",
    "agent.replay",
    "anyio._backends._asyncio",
    "compileall",
    "evals.case_check",
    "evals.going_on",
    "evals.lab.history",
    "evals.lab.hosts",
    "evals.lab.layout",
    "evals.lab.package",
    "evals.recorded",
    "evals.several_hosts",
    "httpcore2",
    "httpx2",
    "jinja2",
    "langchain_core.tracers.context",
    "langchain_core.tracers.run_collector",
    "prometheus_client.parser",
    "tools.policy_question",
    "tools.service",
    "tools.settings.plan_check",
    "tools.ssh",
    "tree_sitter_bash",
    "tools.settings.answer",
    "tools.settings.evaluate",
)
_USED: dict[Way, tuple[str, ...]] = {
    "score": ("evals.case_check", "evals.recorded"),
    "replay": ("evals.recorded", "agent.driver"),
    "solve": _LAB,
    "continue": _LAB,
}
"""What jobs of each way import on the way."""


class Worker:
    """Do jobs; whatever goes wrong in one becomes the reason for which it does not count."""

    def __init__(self, context: RunContext, say: Callable[[Result], None]) -> None:
        self._context = context
        self._settings: Settings = context.settings()
        self._clock = CpuClock()
        self._say = say

    async def do(self, job: Job) -> None:
        """Do one job and tell its result."""
        try:
            warm_up(job.way, judged=self._settings.judge_model is not None)
        except ImportError as error:  # or the run would wait for ever for a job that nobody tells of
            traceback.print_exc()
            self._say(job.result(model=self._settings.model, error=f"cannot be run: {error}"))
            return
        began = time.monotonic()
        self._clock.start(job.key)
        meter = Meter()
        try:
            result = await self._tried(job, meter)
        except asyncio.CancelledError:
            self._clock.stop(job.key)
            raise
        spent = {
            "wall_s": round(time.monotonic() - began, 3),
            "cpu_s": round(self._clock.stop(job.key) + meter.seconds, 4),
        }
        self._say(await self._judged(result.model_copy(update=spent)))

    async def _tried(self, job: Job, meter: Meter) -> Result:
        try:
            return await self._done(job, meter)
        except EndlessPattern as error:
            path = case.path_of(job.case, self._context.asked.cases)
            where = f"{path}:{case.line_with(path, error.pattern)}"
            return job.result(model=self._settings.model, error=f"{where}: {error}")
        except LeadlineError as error:
            return job.result(model=self._settings.model, error=str(error))
        except Exception as error:  # noqa: BLE001 - the other jobs go on; what it was is in the run's log
            traceback.print_exc()
            return job.result(model=self._settings.model, error=f"{type(error).__name__}: {error}")

    async def _judged(self, result: Result) -> Result:
        """Add the opinion of a judge, if there is one; whatever goes wrong with it, the sample counts."""
        if self._settings.judge_model is None:
            return result
        from evals.judging import judged

        try:
            return await judged(result, self._context, self._settings)
        except Exception as error:  # noqa: BLE001 - it decides nothing; what it was is in the run's log
            traceback.print_exc()
            return result.model_copy(update={"judge_says": f"no answer: {type(error).__name__}: {error}"})

    async def _done(self, job: Job, meter: Meter) -> Result:
        from evals import recorded, solve

        if job.case and job.way != "replay":  # which holds nothing against the case
            self._refuse_unknown_settings(job.case)
        match job.way:
            case "score":
                return await recorded.rate(job, self._context)
            case "replay":
                return await recorded.repeat(job, self._context, self._settings)
            case "solve":
                return await solve.solve(job, self._context, self._settings, meter)
            case "continue":
                from evals import going_on

                return await going_on.go_on(job, self._context, self._settings, meter)

    def _refuse_unknown_settings(self, name: str) -> None:
        """Raise `UsageError` for a case that names what does not exist, so that no run can be right."""
        from evals.case_check import unknown_setting

        asked = self._context.asked
        wrong = unknown_setting(name, asked.cases, asked.transcripts, self._settings.cache_dir)
        if wrong is not None:
            raise UsageError(wrong)


async def serve(lines: asyncio.StreamReader, say: Callable[[Result], None]) -> None:
    """Do the jobs of every line until the input ends; what is still at work then is given up."""
    worker = Worker(RunContext.model_validate_json(await lines.readline()), say)
    at_work: set[asyncio.Task[None]] = set()
    try:
        while line := await lines.readline():
            jobs = jobs_adapter.validate_json(line)
            task = asyncio.create_task(_in_turn(worker, jobs))
            at_work.add(task)
            task.add_done_callback(at_work.discard)
    finally:
        for task in at_work:
            task.cancel()
        await asyncio.gather(*at_work, return_exceptions=True)
        if "evals.several_hosts" in sys.modules:
            from evals import several_hosts

            await several_hosts.close()


async def _in_turn(worker: Worker, jobs: list[Job]) -> None:
    for job in jobs:
        await worker.do(job)


@cache
def warm_up(way: Way, *, judged: bool = False) -> None:
    """Import what jobs of a way use, so that no job is charged for it."""
    pin_libraries()
    for name in (*_USED[way], *(("evals.judging", "openai") if judged else ())):
        importlib.import_module(name)
    if way != "score":
        registry.load_all()
    gc.freeze()  # what was imported stays: no collection need walk it again


async def main() -> None:
    """Serve stdin and stdout; whatever else is printed goes to the run's log."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    patterns.watch()
    lines = asyncio.StreamReader(limit=LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await serve(lines, lambda result: _tell(out, result))


def line_of(result: Result, longest: int = LONGEST_LINE) -> bytes:
    """Return the line that tells of a result; one that cannot be passed on does not count, and says so."""
    line = result.model_dump_json().encode() + b"\n"
    if len(line) < longest:
        return line
    told = f"its result has {len(line):,} bytes, more than the {longest:,} that are passed on"
    short = {name: getattr(result, name) for name in ("way", "case", "sample", "model", "transcript")}
    return Result.model_validate({**short, "error": told}).model_dump_json().encode() + b"\n"


def _tell(out: IO[bytes], result: Result) -> None:
    view = memoryview(line_of(result))
    while view:
        view = view[out.write(view) :]


if __name__ == "__main__":
    asyncio.run(main())
