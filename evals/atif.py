"""Export events as a trajectory in the Agent Trajectory Interchange Format (ATIF), version 1.7.

One step is what was said once: by a person, by the program, or by the agent, whose step holds its calls and
what they returned. What the format has no field for (evidence, hypotheses, checks) stands in ``extra``; raw
outputs stay behind their sha256.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from agent.errors import TranscriptError
from agent.events import (
    BY_HAND,
    ORIENTATION,
    ActionFinished,
    ApprovalAsked,
    ApprovalGiven,
    ApprovalVoided,
    ChangeMoved,
    ConclusionChecked,
    Ended,
    Event,
    EvidenceAdded,
    Failed,
    HypothesisMoved,
    Judged,
    Measured,
    Started,
    SystemNote,
    ToolFinished,
    TurnTaken,
    UserMessage,
)
from agent.investigation import schemas_of
from agent.models import TOOL_PREFIX, schema_digest
from agent.state import ToolCall

VERSION: Final = "ATIF-v1.7"

_NOT_LANGUAGE_MODELS: Final = (ORIENTATION, BY_HAND, "playbook", "demonstration")
"""What takes turns without asking a language model: such steps have no metrics."""

_NOTES: Final = (
    "Step 1 is the symptom. A step by `orientation` holds the calls that the program makes itself before the "
    "first turn. Tool results are the bounded views that the model saw; raw outputs are named in `extra` by "
    "their sha256."
)

Step = dict[str, Any]


def to_atif(events: Sequence[Event]) -> dict[str, Any]:
    """Return a transcript as one trajectory; JSON types only."""
    if not events or not isinstance(events[0], Started):
        raise TranscriptError("there is nothing to export: the transcript is empty")
    started = events[0]
    finished = {event.tool_call_id: event for event in events if isinstance(event, ToolFinished)}
    steps: list[Step] = [_step(started, "user", started.symptom)]
    for event in events[1:]:
        if isinstance(event, TurnTaken):
            steps.append(_agent_step(event, finished))
        elif (told := _ledger(event)) is not None:
            _latest(steps, event.turn)["extra"].setdefault("ledger", []).append(told)
        elif (row := _talk(event) or _trial(event)) is not None:
            steps.append(row)
    for number, step in enumerate(steps, 1):
        step["step_id"] = number
    return {
        "schema_version": VERSION,
        "session_id": started.thread,
        "trajectory_id": started.thread,
        "agent": _agent(started),
        "steps": steps,
        "notes": _NOTES,
        "final_metrics": _metrics(events, len(steps)),
        "extra": _outcome(events),
    }


def _agent(started: Started) -> dict[str, Any]:
    agent: dict[str, Any] = {
        "name": "leadline",
        "version": started.product,
        "model_name": started.recorded,
        "extra": {
            "mode": started.mode,
            "hosts": started.hosts,
            "scenario": started.scenario,
            "budget": started.budget,
            "prompts": started.prompts,
        },
    }
    if tools := _tools(started):
        agent["tool_definitions"] = tools
    return agent


def _tools(started: Started) -> list[dict[str, Any]]:
    """Return the schemas that the recorded run was given, as far as they are still the same."""
    from tools.registry import load_all

    digests = started.prompts
    return [
        one
        for one in schemas_of(load_all())
        if digests.get(TOOL_PREFIX + one["function"]["name"]) == schema_digest(one)
    ]


def _step(event: Event, source: str, message: str, **extra: Any) -> Step:
    return {
        "step_id": 0,
        "timestamp": event.at.isoformat(),
        "source": source,
        "message": message,
        "extra": {"turn": event.turn} | extra,
    }


def _agent_step(taken: TurnTaken, finished: dict[str, ToolFinished]) -> Step:
    step = _step(taken, "agent", taken.text, duration_s=taken.duration_s)
    step["model_name"] = taken.model
    if taken.model in _NOT_LANGUAGE_MODELS:
        step["llm_call_count"] = 0
    else:
        step["llm_call_count"] = 1
        step["metrics"] = {
            "prompt_tokens": taken.usage.input_tokens,
            "completion_tokens": taken.usage.output_tokens,
            "cost_usd": taken.usage.cost_usd,
            "extra": {"estimated": taken.usage.estimated},
        }
        if taken.reasoning:
            step["reasoning_content"] = taken.reasoning
    if taken.tool_calls:
        results = [finished[call.id] for call in taken.tool_calls if call.id in finished]
        step["tool_calls"] = [_call(call, step["extra"]) for call in taken.tool_calls]
        step["observation"] = {
            "results": [{"source_call_id": done.tool_call_id, "content": done.view} for done in results]
        }
        step["extra"]["results"] = {done.tool_call_id: _result(done) for done in results}
    return step


def _call(call: ToolCall, extra: dict[str, Any]) -> dict[str, Any]:
    """Return a call; arguments that are no object are kept as text beside it."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        extra.setdefault("arguments_as_written", {})[call.id] = call.arguments
        arguments = {}
    return {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments}


def _result(done: ToolFinished) -> dict[str, Any]:
    return {
        "call": done.call,
        "host": done.host,
        "status": done.status,
        "duration_s": done.duration_s,
        "artifacts": {ref.handle: {"sha256": ref.sha256, "label": ref.label} for ref in done.artifacts},
    }


def _latest(steps: Sequence[Step], turn: int) -> Step:
    """Return the step of the agent in whose turn something happened."""
    by_agent = [step for step in steps if step["source"] == "agent"]
    return next((step for step in reversed(by_agent) if step["extra"]["turn"] == turn), steps[-1])


def _ledger(event: Event) -> dict[str, Any] | None:
    """Return what moved in the ledger, briefly; None for any other event."""
    match event:
        case EvidenceAdded(evidence=one):
            return {"evidence": one.id, "kind": one.kind, "cite": one.citation.render()}
        case HypothesisMoved(hypothesis=one):
            return {"hypothesis": one.id, "statement": one.statement, "status": one.status, "rank": one.rank}
        case ChangeMoved(change=one):
            return {"change": one.id, "setting": one.setting, "to": one.to_value, "status": one.status}
        case ConclusionChecked():
            states = [check.status for check in event.checks]
            return {"conclusion": event.conclusion.outcome, "accepted": event.accepted, "claims": states}
        case _:
            return None


def _talk(event: Event) -> Step | None:
    """Return the step of what a person or the program said between turns."""
    match event:
        case UserMessage():
            return _step(event, "user", event.text)
        case SystemNote():
            return _step(event, "system", event.text)
        case Failed():
            return _step(event, "system", event.error)
        case Ended():
            return _step(event, "system", f"{event.outcome}: {event.summary}")
        case _:
            return None


def _trial(event: Event) -> Step | None:
    """Return the step of what was decided, done and measured of a change."""
    match event:
        case ApprovalGiven():
            reason = f": {event.reason}" if event.reason else ""
            return _step(event, "user", f"{event.change} {event.decision} by {event.by}{reason}")
        case ApprovalAsked():
            return _step(event, "system", f"An approval of {event.change} is asked for.", digest=event.digest)
        case ApprovalVoided():
            return _step(event, "system", f"The plan of {event.change} no longer holds: {event.why}")
        case ActionFinished():
            detail = f": {event.detail}" if event.detail else ""
            return _step(event, "system", f"{event.change} {event.step}: {event.outcome}{detail}")
        case Measured():
            return _step(
                event,
                "system",
                f"{event.change} measured: {event.phase}",
                measurement=event.measurement.model_dump(mode="json"),
            )
        case Judged():
            verdict = event.comparison
            text = (
                f"{event.change}: {verdict.verdict}, {'kept' if verdict.kept else 'not kept'}: {verdict.why}"
            )
            return _step(event, "system", text, predicted=event.predicted, measured=event.measured)
        case _:
            return None


def _metrics(events: Sequence[Event], steps: int) -> dict[str, Any]:
    turns = [event for event in events if isinstance(event, TurnTaken)]

    def total(of: Callable[[TurnTaken], float]) -> float:
        return sum(map(of, turns))

    return {
        "total_prompt_tokens": int(total(lambda turn: turn.usage.input_tokens)),
        "total_completion_tokens": int(total(lambda turn: turn.usage.output_tokens)),
        "total_cost_usd": total(lambda turn: turn.usage.cost_usd),
        "total_steps": steps,
        "extra": {"wall_s": round((events[-1].at - events[0].at).total_seconds(), 3)},
    }


def _outcome(events: Iterable[Event]) -> dict[str, Any]:
    ends = [event for event in events if isinstance(event, Ended)]
    return {"outcome": ends[-1].outcome if ends else None, "summary": ends[-1].summary if ends else ""}
