"""Investigations for the tests of new cases: real ones of lab hosts, hand-made ones of hosts that lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent.config import Settings
from agent.events import (
    ConclusionChecked,
    Ended,
    Event,
    EvidenceAdded,
    HypothesisMoved,
    Started,
    ToolFinished,
    ToolStarted,
    TurnTaken,
)
from agent.models.select import model_of
from agent.session import Session
from agent.state import (
    Citation,
    Conclusion,
    Evidence,
    EvidenceLink,
    Hypothesis,
    Mode,
    Prediction,
    TextCheck,
    ToolCall,
)
from agent.transcript import Transcript
from evals.lab.hosts import Lab
from evals.solve import work
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef
from tools.host import connect

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


async def investigate(
    lab: Lab, settings: Settings, name: str, symptom: str, mode: Mode = "propose", scenario: str | None = None
) -> Session:
    """Let the built-in model work on a lab's host under any name; every plan is approved."""
    settings = settings.model_copy(update={"tools": settings.tools.model_copy(update={"allow_load": True})})
    host = await connect(dataclasses.replace(lab.target(), name=name), settings)
    session = Session.start(settings, model_of(settings), {name: host}, symptom, mode, scenario=scenario)
    try:
        await work(session, by="carla")
    finally:
        await host.close()
    return session


@dataclasses.dataclass
class Output:
    """One output of a call, as a host gave it."""

    label: str
    data: bytes
    tool: str = "facts"
    path: str | None = None
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    complete: bool = True


def thread_of(
    folder: Path, outputs: Sequence[Output], quote: str, *, host: str = "gpu7", until: str = "end"
) -> Path:
    """Write an investigation that read these outputs and cites ``quote`` from the first that holds it.

    ``until`` leaves its end away: ``conclusion`` is the last step, or ``outputs``.
    """
    folder.mkdir(parents=True)
    store = ArtifactStore(folder / "artifacts")
    transcript = Transcript(folder / "transcript.jsonl", lambda data: data)
    transcript.append(
        Started(
            thread=folder.name,
            product="0.1.0",
            recorded="playbook",
            symptom="decode is slow",
            hosts=[host],
            mode="propose",
        )
    )
    refs = []
    for number, output in enumerate(outputs, 1):
        refs.append(_add(transcript, store, output, number, host))
    held = next(
        (n for n, out in enumerate(outputs) if quote in out.data.decode("utf-8", "replace")), len(outputs) - 1
    )
    text = outputs[held].data.decode("utf-8", "replace")
    line = text[: text.index(quote)].count("\n") + 1 if quote in text else 1
    if until != "outputs":
        transcript.append_all(_conclusion(refs[held], quote, line))
    if until == "end":
        transcript.append(Ended(turn=9, outcome="diagnosed", summary="It is the flag."))
    transcript.close()
    return folder


def _add(transcript: Transcript, store: ArtifactStore, output: Output, number: int, host: str) -> ArtifactRef:
    ref = ArtifactRef(
        handle=f"t{number}.1",
        sha256=store.put(output.data),
        size=len(output.data),
        label=output.label,
        host=host,
        path=output.path,
        complete=output.complete,
        taken_at=AT + timedelta(seconds=number),
    )
    given = {"call": f"t{number}", "tool_call_id": f"c{number}", "tool": output.tool, "host": host}
    asked = ToolCall(id=f"c{number}", name=output.tool, arguments="{}")
    transcript.append_all(
        [
            TurnTaken(turn=number, model="playbook", tool_calls=[asked]),
            ToolStarted(turn=number, **given, arguments=dict(output.arguments)),
            ToolFinished(turn=number, **given, status="ok", view="{}", artifacts=[ref]),
        ]
    )
    return ref


def _conclusion(ref: ArtifactRef, quote: str, line: int) -> list[Event]:
    prediction = Prediction(
        id="P1", favours="for", says="the flag is there", check=TextCheck(pattern="disable-cuda-graph")
    )
    link = EvidenceLink(evidence="E1", prediction="P1", matched=True)
    cause = Hypothesis(
        id="H1",
        statement="CUDA graphs are off.",
        rank=1,
        predictions=[prediction],
        links=[link],
        status="confirmed",
    )
    citation = Citation(
        artifact=ref.handle,
        sha256=ref.sha256,
        host=ref.host,
        path=ref.path,
        label=ref.label,
        lines=(line, line),
        quote=quote,
        taken_at=AT,
    )
    conclusion = Conclusion(outcome="diagnosed", summary="It is the flag.", causes=["H1"], claims=[])
    return [
        EvidenceAdded(turn=8, evidence=Evidence(id="E1", kind="configuration", citation=citation)),
        HypothesisMoved(turn=8, hypothesis=cause),
        ConclusionChecked(turn=9, conclusion=conclusion, checks=[], accepted=True),
    ]


def written(out: Path) -> dict[str, str]:
    """Return every text that was written, by its path."""
    return {str(path.relative_to(out)): path.read_text() for path in sorted(out.rglob("*.yaml"))} | {
        str(path.relative_to(out)): path.read_text() for path in sorted(out.rglob("*.jsonl"))
    }
