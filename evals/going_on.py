"""Go on from a turn of a recording: its turns before are given, its changes made, then a model works."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.config import Settings
from agent.errors import LeadlineError, TranscriptError, UsageError
from agent.events import (
    ChangeMoved,
    Ended,
    Event,
    Judged,
    Measured,
    PlanMade,
    Started,
    ToolFinished,
    TurnTaken,
)
from agent.models.replay import Recording
from agent.models.select import model_of
from agent.session import Session
from evals import case, recordings
from evals.case import Case
from evals.context import RunContext
from evals.cpu import Meter
from evals.jobs import Job
from evals.lab import scenario
from evals.lab.scenario import Ready
from evals.results import Result
from evals.solve import forget, lab_host, rated, work
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, Host
from tools.service_types import ChangePlan

READY_S = 120.0
"""How long a service may take to answer after the recorded changes were made."""

_WRITE = 'mkdir -p "$(dirname "$1")" && cat >"$1"'


async def go_on(job: Job, context: RunContext, settings: Settings, meter: Meter) -> Result:
    """Give a model the recorded turns before the case's turn, and let it work from there."""
    wanted = case.load(job.case, context.asked.cases)
    assert wanted.go_on is not None  # only such cases become jobs of this way
    recording = recordings.load(wanted.go_on.transcript, context.asked.transcripts)
    before = events_before(recording, wanted.go_on.turn, wanted.go_on.transcript)
    model = model_of(settings)
    folder = settings.state_dir / "threads" / job.thread
    forget(folder)
    name = recording.started.scenario
    if name is None:
        raise UsageError(
            f"recording {wanted.go_on.transcript} names no scenario", do="record it on a lab host"
        )
    async with lab_host(name, settings, meter, recording.started.hosts[0]) as host:
        await apply(host, plans_in_force(before), scenario.load(name).ready)
        write_thread(folder, before, recording.store, wanted, model.name)
        session = Session.resume(settings, job.thread, model, {host.name: host})
        await work(session)
    return rated(job, wanted, session, model.name)


def events_before(recording: Recording, turn: int, name: str) -> list[Event]:
    """Return what was recorded before a turn; raise `UsageError` when it cannot be gone on from there."""
    cut = next(
        (place for place, event in enumerate(recording.events) if _begins(event, turn)),
        len(recording.events),
    )
    before = list(recording.events[:cut])
    if turn - 1 > max((event.turn for event in before if isinstance(event, TurnTaken)), default=0):
        raise UsageError(
            f"recording {name} has no turn {turn - 1}", do="set `continue.turn` to an earlier one"
        )
    if any(isinstance(event, Ended) for event in before):
        raise UsageError(
            f"recording {name} ends before turn {turn}", do="set `continue.turn` to an earlier one"
        )
    return before


def _begins(event: Event, turn: int) -> bool:
    return isinstance(event, TurnTaken) and event.turn >= turn


def plans_in_force(events: Sequence[Event]) -> list[ChangePlan]:
    """Return the plans of the changes that were kept, in the order in which they were made."""
    status = {event.change.id: event.change.status for event in events if isinstance(event, ChangeMoved)}
    plans = {event.change: event.plan for event in events if isinstance(event, PlanMade)}
    return [
        ChangePlan.model_validate(plan)
        for change, plan in plans.items()
        if status.get(change) in ("applied", "verified")
    ]


async def apply(host: Host, plans: Sequence[ChangePlan], ready: Ready | None) -> None:
    """Make recorded changes by the lab's own means: their drop-ins, a reload, one restart of each unit."""
    for plan in plans:
        await _run(host, ["sh", "-c", _WRITE, "sh", plan.dropin_path], plan.dropin_text)
    if not plans:
        return
    await _run(host, ["systemctl", "daemon-reload"])
    for unit in dict.fromkeys(plan.unit for plan in plans):
        await _run(host, ["systemctl", "restart", unit])
    if ready is not None:
        await _answers(host, ready)


async def _run(host: Host, argv: list[str], sent: str = "") -> None:
    done = await host.exec(argv, stdin=sent.encode(), timeout_s=READY_S)
    if not done.ok:
        said = done.stderr.data.decode("utf-8", "replace").strip()[-300:]
        raise LeadlineError(
            f"a recorded change could not be made on {host.name}: {' '.join(argv[:3])}: {said}"
        )


async def _answers(host: Host, ready: Ready) -> None:
    import httpx2

    address = f"http://127.0.0.1:{await host.forward(ready.port)}{ready.path}"
    deadline = time.monotonic() + READY_S
    async with httpx2.AsyncClient(timeout=5.0, trust_env=False) as client:
        while time.monotonic() < deadline:
            try:
                if (await client.get(address)).is_success:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.2)
    raise LeadlineError(
        f"{ready.unit} on {host.name} did not answer within {READY_S:.0f} s after the changes"
    )


def write_thread(
    folder: Path, events: Sequence[Event], store: ArtifactStore, wanted: Case, model: str
) -> None:
    """Lay down a thread as if its recorded turns had been taken in it."""
    folder.mkdir(parents=True, mode=0o700)
    own = ArtifactStore(folder / "artifacts")
    for ref in _artifacts(events):
        try:
            own.put(store.get(ref.sha256))
        except (KeyError, ValueError) as error:
            raise TranscriptError(
                f"artifact {ref.handle} ({ref.label}) is missing or was changed", do="record it again"
            ) from error
    lines = [_line(event, folder.name, wanted, model) for event in events]
    (folder / "transcript.jsonl").write_text("".join(lines), encoding="utf-8")


def _line(event: Event, thread: str, wanted: Case, model: str) -> str:
    if isinstance(event, Started):
        head = {"thread": thread, "mode": wanted.mode, "recorded": model}
        head |= {"symptom": wanted.symptom} if wanted.symptom else {}
        event = event.model_copy(update=head)
    return event.model_dump_json() + "\n"


def _artifacts(events: Sequence[Event]) -> Iterator[ArtifactRef]:
    for event in events:
        if isinstance(event, ToolFinished):
            yield from event.artifacts
        elif isinstance(event, Measured | Judged):
            yield event.artifact
