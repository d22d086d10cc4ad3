"""Drive the state machine from a recording, on no host, and compare how it goes with what was recorded."""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.config import Settings
from agent.events import (
    ChangeMoved,
    ConclusionChecked,
    Ended,
    Event,
    EvidenceAdded,
    HypothesisMoved,
    Started,
    SystemNote,
    ToolFinished,
    TurnTaken,
)
from agent.given_log import repeat
from agent.models import TOOL_PREFIX
from agent.models.replay import (
    Recording,
    RecordingOver,
    ReplayDiverged,
    ReplayModel,
    first_difference,
    view_of,
)
from agent.ports import Ports
from agent.session import Session
from agent.transcript import as_it_is
from tools.artifacts import ArtifactStore
from tools.contract import Args, ArtifactRef, Result, Tool, ToolContext, ToolError

_COMPARED: Mapping[str, tuple[type[Event], ...]] = {
    "ledger move": (EvidenceAdded, HypothesisMoved, ChangeMoved),
    "verifier result": (ConclusionChecked,),
    "outcome": (Ended,),
}
_NO_LIMIT_S = 1e9


@dataclass(slots=True)
class Report:
    """Say whether a replay went as its recording did."""

    turns: int
    counts: dict[str, int] = field(default_factory=dict)
    """Ledger moves, verifier results and outcomes that were compared."""
    outcome: str | None = None
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is not compared, or has changed without changing the course."""
    changed: list[str] = field(default_factory=list)
    """Of these: the prompts and tool schemas that are not those of the recording."""

    @property
    def same(self) -> bool:
        """Tell whether nothing differs."""
        return not self.differences


class ClosedHost:
    """Stand for a host of the recording; nothing can be run on it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key_fingerprint: str | None = None

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        """Refuse: a replay opens no host."""
        raise ReplayDiverged(f"{self.name} was to run {' '.join(argv)[:120]!r}, but a replay opens no host")

    async def forward(self, port: int) -> int:
        """Refuse: a replay opens no host."""
        raise ReplayDiverged(f"port {port} of {self.name} was wanted, but a replay opens no host")

    async def close(self) -> None:
        """Do nothing."""


async def replay(
    recording: Recording, settings: Settings, tools: Mapping[str, Tool[Any]] | None = None
) -> Report:
    """Take every recorded turn again over recorded results; return what came out differently."""
    report = Report(turns=len(recording.turns))
    if recording.cut:
        report.notes.append(f"{recording.cut}: what follows is not repeated")

    def told(tool_call_id: str) -> Sequence[Event]:
        events = recording.trial(tool_call_id)
        for event in events:
            if isinstance(event, ToolFinished):
                store.take(event.artifacts)
        return events

    store = RecordedOutputs(recording.store)
    steered = recording.steered

    with tempfile.TemporaryDirectory(prefix="leadline-replay-") as folder:
        session = Session.start(
            _settings(recording, settings, Path(folder)),
            ReplayModel(recording, same_tools=False),
            {name: ClosedHost(name) for name in recording.started.hosts},
            recording.started.symptom,
            recording.started.mode,
            tools=recorded_tools(
                recording, store, tools if tools is not None else _registry(recording.started)
            ),
            redact=as_it_is,
            ports=dataclasses.replace(Ports.real(), told=told, said=lambda turn: steered.pop(turn, ())),
            recorded_outputs=store,
            notes=_first_notes(recording.events),
        )
        store.take(repeat(session.work, recording.events))
        try:
            over = await _run(session, recording, report)
        finally:
            await session.close()
        _compare(recording.events, session.events, report, prefix=over)
        report.changed = _changed(recording, session)
        report.notes += report.changed
    return report


class RecordedOutputs(ArtifactStore):
    """Read what a recording keeps, each output once for as long as a replay lasts."""

    def __init__(self, recorded: ArtifactStore) -> None:
        super().__init__(recorded.root)
        self._recorded = recorded
        self._read: dict[str, bytes] = {}

    def get(self, sha256: str) -> bytes:
        """Return the bytes of a digest; raise `KeyError` when absent, `ValueError` when changed on disk."""
        if sha256 not in self._read:
            self._read[sha256] = self._recorded.get(sha256)
        return self._read[sha256]

    def put(self, data: bytes) -> str:
        """Refuse: a replay makes no output."""
        raise ReplayDiverged("an output was to be stored, but a replay makes none")

    def take(self, refs: Sequence[ArtifactRef]) -> None:
        """Make sure that the outputs of a recorded result are there."""
        for ref in refs:
            try:
                self.get(ref.sha256)
            except (KeyError, ValueError) as error:
                raise ReplayDiverged(
                    f"artifact {ref.handle} ({ref.label}) is missing or was changed",
                    do="replay a transcript beside its artifacts/ folder",
                ) from error


def recorded_tools(
    recording: Recording, store: RecordedOutputs, tools: Mapping[str, Tool[Any]]
) -> Mapping[str, Tool[Any]]:
    """Return the tools with what they do replaced by what they once returned."""
    finished = recording.finished

    async def repeat(ctx: ToolContext, args: Args) -> dict[str, Any]:
        done = finished.get(ctx.call_id)
        if done is None:
            raise RecordingOver(f"the recording has no result of {ctx.call_id}")
        store.take(done.artifacts)
        ctx.kept.extend(done.artifacts)
        view = view_of(done.view)
        if done.status == "tool_error":
            raise ToolError(str(view.get("error", done.view)))
        return view

    return {name: dataclasses.replace(tool, run=repeat) for name, tool in tools.items()}


async def _run(session: Session, recording: Recording, report: Report) -> bool:
    """Let the session work through the recording; True when that ends before the investigation does."""
    try:
        for text in [None, *recording.said]:
            async for _ in session.ask(text):
                pass
    except RecordingOver as error:
        report.notes.append(f"{error}: compared as far as it goes")
        return True
    except ReplayDiverged as error:
        report.differences.append(str(error))
    return False


def _compare(recorded: Sequence[Event], now: Sequence[Event], report: Report, *, prefix: bool) -> None:
    for what, kinds in _COMPARED.items():
        before, after = ([e for e in events if isinstance(e, kinds)] for events in (recorded, now))
        report.counts[what] = len(before)
        if prefix and what != "outcome":
            before = before[: len(after)]
        for place in range(max(len(before), len(after))):
            one, other = (rows[place] if place < len(rows) else None for rows in (before, after))
            if difference := _difference(one, other):
                report.differences.append(f"{what} {place + 1}: {difference}")
                break
    ends = [event.outcome for event in recorded if isinstance(event, Ended)]
    report.outcome = ends[-1] if ends else None


def _difference(one: Event | None, other: Event | None) -> str:
    """Return how two events differ in more than their place and time; empty when they do not."""
    if (
        one is not None
        and other is not None
        and one.model_copy(update={"seq": other.seq, "at": other.at}) == other
    ):
        return ""
    before, after = (e.model_dump(mode="json", exclude={"seq", "at"}) if e else {} for e in (one, other))
    return first_difference(before, after)


def _changed(recording: Recording, session: Session) -> list[str]:
    """Name the prompts and tool schemas that are not those of the recording."""
    now = session.events[0].model_dump()["prompts"]
    return [
        f"{'tool ' + name.removeprefix(TOOL_PREFIX) if name.startswith(TOOL_PREFIX) else name}"
        " has changed since the recording"
        for name, digest in recording.started.prompts.items()
        if now.get(name) != digest
    ]


def _settings(recording: Recording, settings: Settings, folder: Path) -> Settings:
    """Return settings with the recorded limits, except the clock's, and room for every recorded view."""
    budget = recording.started.budget
    longest = max((len(done.view) for done in recording.finished.values()), default=0)
    room = settings.tools.model_copy(
        update={"view_chars": max(settings.tools.view_chars, 2 * longest + 1_000)}
    )
    return settings.model_copy(
        update={
            "state_dir": folder,
            "max_turns": int(budget.get("turns", settings.max_turns)),
            "max_tokens": int(budget.get("tokens", settings.max_tokens)),
            "max_cost_usd": budget.get("cost_usd", settings.max_cost_usd),
            "max_wall_s": _NO_LIMIT_S,
            "tools": room,
        }
    )


def _first_notes(events: Sequence[Event]) -> list[str]:
    """Return what the program told the model before anything was looked at."""
    before = itertools.takewhile(lambda event: not isinstance(event, TurnTaken), events)
    return [event.text for event in before if isinstance(event, SystemNote)]


def _registry(started: Started) -> Mapping[str, Tool[Any]]:
    from agent.runbooks import tool
    from tools.registry import load_all

    offered = load_all(question=started.question)
    return {**offered, "runbook": tool({})} if f"{TOOL_PREFIX}runbook" in started.prompts else offered
