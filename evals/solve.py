"""Work on a case with a model on a lab host of its scenario, every plan approved, and rate it."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent.approvals import Approval
from agent.config import Settings
from agent.errors import HostUnreachable, UsageError
from agent.models import Model
from agent.models.select import model_of
from agent.session import Session
from agent.transcript import read_events
from evals import case
from evals.case import Case
from evals.context import RunContext
from evals.coverage import not_recorded
from evals.cpu import Meter, lab_seconds
from evals.jobs import Job
from evals.lab import hosts
from evals.lab.hosts import Lab
from evals.results import Result
from evals.score import score
from tools.artifacts import ArtifactStore
from tools.contract import Host

if TYPE_CHECKING:
    from tools.host import HostTarget

IDLE_S = 120.0
"""A lab whose run died ends by itself after so long without a connection."""


async def solve(job: Job, context: RunContext, settings: Settings, meter: Meter) -> Result:
    """Investigate a case from scratch."""
    wanted = case.load(job.case, context.asked.cases)
    model = model_of(settings)
    forget(settings.state_dir / "threads" / job.thread)
    if wanted.hosts:
        from evals import several_hosts

        if context.asked.baseline:
            raise UsageError(f"{wanted.name}: the plain shell agent works on one host")
        return await several_hosts.ask(job, wanted, settings, meter, model)
    async with lab_host(wanted.scenario, settings, meter) as host:
        if context.asked.baseline:
            return await _by_baseline(job, wanted, host, settings, model)
        session = Session.start(
            settings,
            model,
            {host.name: host},
            wanted.symptom,
            wanted.mode,
            scenario=wanted.scenario,
            thread=job.thread,
        )
        await work(session)
    return rated(job, wanted, session, model.name)


async def _by_baseline(job: Job, wanted: Case, host: Host, settings: Settings, model: Model) -> Result:
    """Let a plain shell agent work on the case, and keep its thread where that of an investigation lies."""
    from evals.baselines import run_baseline

    made = await run_baseline(settings, model, host, wanted.symptom, wanted.mode, wanted.scenario)
    folder = made.rename(made.with_name(job.thread))
    events = read_events(folder / "transcript.jsonl")
    rating = score(wanted, events, ArtifactStore(folder / "artifacts"))
    return job.result(model=f"baseline:{model.name.removeprefix('openai:')}").model_copy(
        update={"score": rating, "not_recorded": not_recorded(events)}
    )


def rated(job: Job, wanted: Case, session: Session, model: str) -> Result:
    """Return the result of a session that has ended."""
    store = ArtifactStore(session.folder / "artifacts")
    return job.result(model=model).model_copy(
        update={
            "score": score(wanted, session.events, store),
            "not_recorded": not_recorded(session.events),
        }
    )


async def work(session: Session, *, by: str = "eval") -> None:
    """Let a session go on to its end, approving every plan: a lab harms nobody."""
    try:
        async for _ in session.ask():
            pass
        while (asked := session.waiting) is not None:
            yes = Approval(change=asked.change, digest=asked.digest, decision="approved", by=by)
            async for _ in session.answer(yes):
                pass
    finally:
        await session.close()


@asynccontextmanager
async def lab_host(
    scenario: str, settings: Settings, meter: Meter, name: str | None = None
) -> AsyncIterator[Host]:
    """Bring a lab up for the time of the block and connect to it, by its own name or a recorded one."""
    lab = await bring_up(scenario, settings)
    imports = lab_seconds(lab.init)
    try:
        target = lab.target()
        host = await connected(dataclasses.replace(target, name=name or target.name), settings)
        try:
            yield host
        finally:
            await host.close()
    finally:
        meter.seconds += max(0.0, lab_seconds(lab.init) - imports)
        await asyncio.to_thread(hosts.down, lab.id, settings)


async def connected(target: HostTarget, settings: Settings) -> Host:
    """Connect to a lab; raise `HostUnreachable` with what to do."""
    from tools.host import ConnectError, connect

    try:
        return await connect(target, settings)
    except ConnectError as error:
        raise HostUnreachable(error.told, do=error.do) from error


async def bring_up(scenario: str, settings: Settings) -> Lab:
    """Start a lab; one that comes up although nobody waits for it any more is ended."""
    starting = asyncio.ensure_future(asyncio.to_thread(hosts.up, scenario, settings, idle_s=IDLE_S))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        lab = await starting
        hosts.down(lab.id, settings)
        raise


def forget(thread: Path) -> None:
    """Remove what an earlier try of a job left behind."""
    shutil.rmtree(thread, ignore_errors=True)
