"""Run jobs and keep their results: planned once, gone on with after a kill, stopped cleanly by Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.config import Settings
from agent.errors import ExitCode
from evals import runs
from evals.context import RunContext, settings_of
from evals.jobs import Asked, Job, plan
from evals.judging import judge_of
from evals.pool import Pool
from evals.results import Result
from evals.runs import Results, RunFile

Seen = Callable[[Result], None]


@dataclass(frozen=True, slots=True)
class Done:
    """Hold a run as far as it came."""

    file: RunFile
    folder: Path
    results: list[Result]
    stopped: ExitCode = ExitCode.DONE
    """Other than done: it was interrupted, and can be gone on with."""

    @property
    def counted(self) -> list[Result]:
        """Return the results that count."""
        return [result for result in self.results if not result.error]

    @property
    def missing(self) -> int:
        """Return how many jobs have no result."""
        return len(self.file.jobs) - len(self.results)


class Run:
    """Hold a run from its plan, or from its folder, to its end."""

    def __init__(self, settings: Settings, file: RunFile) -> None:
        self.file = file
        self.folder = runs.folder_of(settings, file.id)
        self.due = self._due()

    @classmethod
    def new(cls, asked: Asked) -> Run:
        """Plan a run and write the plan down; nothing is done yet."""
        settings = settings_of(asked)
        judge_of(settings)  # one that cannot be asked is told before anything is done
        return cls(settings, runs.create(settings, asked, plan(asked)))

    @classmethod
    def resumed(cls, settings: Settings, run: str) -> Run:
        """Take a run up again: what is missing, and what did not count, is due."""
        return cls(settings, runs.load(settings, run))

    def work(self, seen: Seen = lambda result: None) -> Done:
        """Do what is due; return also after SIGINT or SIGTERM, with everything that was done."""
        lock = runs.lock(self.folder)
        try:
            self.due = self._due()  # another process may have done some until it let go of the run
            context = RunContext(folder=self.folder, asked=self.file.asked)
            end_labs(context.settings())
            stopped = asyncio.run(self._work(context, lock, seen))
        finally:
            os.close(lock)
        return read(self.file, self.folder, stopped)

    def _due(self) -> list[Job]:
        """Return the jobs that have no result which counts."""
        counted = {key for key, result in runs.read(self.folder).items() if not result.error}
        return [job for job in self.file.jobs if job.key not in counted]

    async def _work(self, context: RunContext, lock: int, seen: Seen) -> ExitCode:
        results = Results(self.folder)

        def keep(result: Result) -> None:
            results.add(result)
            seen(result)

        work = asyncio.ensure_future(Pool(context, [lock], keep).run(self.due))
        stopped = _stop_by_signals(work)
        try:
            await work
        except asyncio.CancelledError:
            if not stopped:
                raise
        finally:
            results.close()
            await asyncio.to_thread(end_labs, context.settings())
        return stopped[0] if stopped else ExitCode.DONE


def read(file: RunFile, folder: Path, stopped: ExitCode = ExitCode.DONE) -> Done:
    """Return the results that a run has so far, in the order of its plan."""
    found = runs.read(folder)
    return Done(file, folder, [found[job.key] for job in file.jobs if job.key in found], stopped)


def _stop_by_signals(work: asyncio.Future[None]) -> Sequence[ExitCode]:
    """Let SIGINT and SIGTERM give up what is at work; return where it is noted which one came."""
    stopped: list[ExitCode] = []
    loop = asyncio.get_running_loop()

    def stop(code: ExitCode) -> None:
        if not stopped:  # a second one must not keep the labs from being ended
            stopped.append(code)
            work.cancel()

    loop.add_signal_handler(signal.SIGINT, stop, ExitCode.INTERRUPTED)
    loop.add_signal_handler(signal.SIGTERM, stop, ExitCode.TERMINATED)
    return stopped


def end_labs(settings: Settings) -> None:
    """End every lab of a run: none is left when it works cleanly, some are after a kill."""
    from evals.lab import hosts

    for lab in hosts.list_labs(settings):
        hosts.down(lab.id, settings)
