"""A log that is given beside a running engine: what it says and what the host looks like, both told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.models.method import Step
from agent.models.playbook import PlaybookModel, investigate
from agent.models.telling import beside
from agent.models.views import Facts
from agent.state import Message

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
LOG = {"host": "stdin", "artifact": "t2.1", "complete": True, "text": f"loading\n{OOM}\n"}
QUIET = {**LOG, "text": "loading\nready\n"}
ENGINE = {"pid": 14, "engine": "sglang", "unit": "s.service", "flags": {}, "port": 30000, "version": "0.5.11"}
GPU = {"index": 0, "name": "H200", "utilization": 0}
HOST = {
    "host": "gpu1",
    "engines": [ENGINE],
    "services": [{"unit": "s.service", "started_at": "Mon 08:00", "restarts": 3}],
    "hardware": {"gpus": [GPU, {**GPU, "index": 1, "utilization": 90}]},
    "artifacts": {"show:s.service": "t1.4", "gpus": "t1.5"},
}
FOUND = {"outcome": "inconclusive", "summary": "No cause.", "claims": [], "next_step": "Ask on."}


def concluded(symptom: str, *views: Any) -> dict[str, Any]:
    """Follow the method with probes that give nothing, and return what it concludes."""
    steps = investigate(symptom, [Facts.of(view, symptom) for view in views])
    step: Step = next(steps)
    while step.calls[-1][0] != "conclude":
        step = steps.send([{"error": "nothing"} for _ in step.calls])
    return step.calls[-1][1]


def test_the_log_is_read_where_an_engine_runs() -> None:
    said = concluded("why did it die", HOST, LOG)
    assert said["outcome"] == "needs_person"
    first, now, rest = said["summary"].split("\n")[:3]
    assert first.startswith(f"The log (t2.1, all of it) says: a GPU had no memory left ({OOM}).")
    assert now.startswith("On gpu1 now: sglang (s.service, pid 14) runs, since Mon 08:00, started again by")
    assert "systemd 3 times, 1 of 2 GPUs are idle" in now
    assert rest.startswith("Of what runs now: ")
    quotes = [claim["cite"]["quote"] for claim in said["claims"] if claim.get("cite")]
    assert quotes[:2] == [OOM, "ExecMainStartTimestamp=Mon 08:00"]
    assert said["next_step"].startswith("Read what stands above those lines")


def test_without_a_log_nothing_is_said_of_one() -> None:
    said = concluded("why did it die", HOST)
    assert said["outcome"] == "inconclusive" and "log" not in said["summary"]


@pytest.mark.parametrize("outcome", ["diagnosed", "fixed"])
def test_a_cause_that_is_found_comes_first(outcome: str) -> None:
    said = beside(LOG, Facts.of(HOST), {**FOUND, "outcome": outcome, "summary": "Graphs are off."})
    assert said["outcome"] == outcome and said["next_step"] == "Ask on."
    assert said["summary"].startswith("Graphs are off.\nThe log (t2.1, all of it) says: a GPU had")
    assert said["claims"][0]["cite"]["quote"] == OOM


def test_a_log_that_tells_nothing_is_said_to() -> None:
    said = concluded("why did it die", HOST, QUIET)
    assert said["outcome"] == "inconclusive"
    assert "No line of the log (t2.1, all of it) is telling. On gpu1 now: sglang" in said["summary"]


async def test_a_question_says_that_the_log_is_not_what_it_is_answered_from() -> None:
    calls = [
        {"id": "a", "function": {"name": "facts", "arguments": '{"host": "gpu1"}'}},
        {"id": "b", "function": {"name": "read_file", "arguments": '{"path": "/dev/stdin"}'}},
    ]
    messages: list[Message] = [
        {"role": "user", "content": "what runs where?"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": json.dumps(HOST)},
        {"role": "tool", "tool_call_id": "b", "content": json.dumps(LOG)},
    ]
    (call,) = (await PlaybookModel().next_turn(messages, [])).tool_calls
    said = json.loads(call.arguments)
    assert said["summary"].endswith(
        'The log (t2.1) was not read for it; told of a symptom ("why did it die") it is.'
    )
    assert [row[0] for row in said["table"]["rows"]] == ["gpu1"], "the log is no host"
