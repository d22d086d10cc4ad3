"""Trajectories for other tools: valid in their own format, and nothing of the run is missing."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from agent.errors import TranscriptError
from agent.events import (
    ChangeMoved,
    ConclusionChecked,
    EvidenceAdded,
    HypothesisMoved,
    Started,
    ToolFinished,
    TurnTaken,
    UserMessage,
)
from agent.state import ToolCall, Usage
from evals import recordings
from evals.atif import to_atif
from evals.transcript_commands import app

SCHEMA = json.loads((Path(__file__).parent / "data" / "atif_schema.json").read_text())
NAMES = recordings.names()


def check(trajectory: Any) -> None:
    """Apply the format's schema, and the rules that a schema cannot say."""
    Draft202012Validator(SCHEMA).validate(trajectory)
    steps = trajectory["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        assert datetime.fromisoformat(step["timestamp"]).tzinfo is not None
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        answered = [one["source_call_id"] for one in step.get("observation", {}).get("results", ())]
        assert set(answered) <= calls and len(set(answered)) == len(answered)
    json.dumps(trajectory, allow_nan=False)


@pytest.mark.parametrize("name", NAMES)
def test_each_recording_is_a_valid_trajectory(name: str) -> None:
    events = recordings.load(name).events
    trajectory = to_atif(events)
    check(trajectory)
    turns = [event for event in events if isinstance(event, TurnTaken)]
    agent = [step for step in trajectory["steps"] if step["source"] == "agent"]
    assert len(agent) == len(turns)
    finished = sum(isinstance(event, ToolFinished) for event in events)
    assert sum(len(step.get("observation", {}).get("results", ())) for step in agent) == finished
    started = events[0]
    assert isinstance(started, Started)
    assert trajectory["steps"][0]["message"] == started.symptom
    assert trajectory["extra"]["outcome"] == recordings.about(name).outcome
    moves = (EvidenceAdded, HypothesisMoved, ChangeMoved, ConclusionChecked)
    told = [one for step in trajectory["steps"] for one in step["extra"].get("ledger", ())]
    assert len(told) == sum(isinstance(event, moves) for event in events)


def events(*calls: ToolCall) -> list[Any]:
    started = Started(
        thread="one", product="0", recorded="openai:demo", symptom="slow", hosts=["h"], mode="read-only"
    )
    usage = Usage(input_tokens=70, output_tokens=30, cost_usd=0.5)
    turn = TurnTaken(
        turn=1, model="demo", text="look", reasoning="why", tool_calls=list(calls), usage=usage, seq=1
    )
    return [started, turn, UserMessage(seq=2, turn=1, text="go on")]


def test_a_language_models_turn_has_metrics_and_reasoning() -> None:
    trajectory = to_atif(events(ToolCall(id="a", name="grep", arguments='{"pattern": "x"}')))
    check(trajectory)
    step = trajectory["steps"][1]
    assert step["metrics"] == {
        "prompt_tokens": 70,
        "completion_tokens": 30,
        "cost_usd": 0.5,
        "extra": {"estimated": False},
    }
    assert (step["llm_call_count"], step["reasoning_content"], step["model_name"]) == (1, "why", "demo")
    assert step["tool_calls"][0]["arguments"] == {"pattern": "x"}
    totals = trajectory["final_metrics"]
    assert (totals["total_prompt_tokens"], totals["total_completion_tokens"], totals["total_cost_usd"]) == (
        70,
        30,
        0.5,
    )
    assert [step["source"] for step in trajectory["steps"]] == ["user", "agent", "user"]


def test_arguments_that_are_no_object_are_kept_as_written() -> None:
    trajectory = to_atif(events(ToolCall(id="a", name="grep", arguments='{"pattern": ')))
    check(trajectory)
    step = trajectory["steps"][1]
    assert step["tool_calls"][0]["arguments"] == {}
    assert step["extra"]["arguments_as_written"] == {"a": '{"pattern": '}


def test_steps_without_a_language_model_have_no_metrics() -> None:
    steps = to_atif(recordings.load("founding-halfway").events)["steps"]
    taken = [step for step in steps if step["source"] == "agent"]
    assert {step["model_name"] for step in taken} == {"orientation", "demonstration"}
    assert all(step["llm_call_count"] == 0 and "metrics" not in step for step in taken)


@pytest.mark.parametrize(
    "broken",
    [
        lambda one: one.pop("agent"),
        lambda one: one.update(schema_version="1.7"),
        lambda one: one["steps"][0].update(metrics={"prompt_tokens": 1}),
        lambda one: one["steps"][1].update(source="model"),
        lambda one: one["steps"][1]["tool_calls"][0].update(arguments="{}"),
        lambda one: one["steps"][1].update(metrics={"tokens": 1}),
        lambda one: one["steps"][1].update(llm_call_count=0),
        lambda one: one.update(cost=1),
    ],
)
def test_the_schema_itself_refuses_what_the_format_does(broken: Any) -> None:
    trajectory = to_atif(events(ToolCall(id="a", name="grep", arguments="{}")))
    broken(trajectory)
    assert not Draft202012Validator(SCHEMA).is_valid(trajectory)


def test_an_empty_transcript_is_refused() -> None:
    with pytest.raises(TranscriptError, match="nothing to export"):
        to_atif([])


def test_the_command_writes_a_recording_and_a_thread_of_ones_own(tmp_path: Path) -> None:
    out, thread = tmp_path / "one.json", tmp_path / "thread"
    done = CliRunner().invoke(app, ["export", "founding-halfway", "--format", "atif", "--out", str(out)])
    assert done.exit_code == 0, done.output
    check(json.loads(out.read_text()))
    recordings.unpack_to("founding-halfway", thread)
    done = CliRunner().invoke(app, ["export", str(thread)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads(out.read_text())
