"""How the built-in model reads source: by settings where it may, by searches for the rest and without it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent.models.method import Case, Lead
from agent.models.playbook import PlaybookModel
from agent.models.reading import read_source
from agent.models.views import Facts, View, find_quote
from agent.state import AssistantTurn, Message
from prompts.playbooks import load_all

BOOKS = {book.name: book for book in load_all()}
GRAPHS = "cuda-graphs-off"
READER = {"text": "if self.server_args.disable_cuda_graph:", "at": ["t3.2:40"], "then": "return"}


def case_of(*names: str, explains: bool = True, engine: str = "sglang", pid: int = 7) -> Case:
    facts = Facts({"services": [], "engines": []}, {"engine": engine, "pid": pid})
    return Case("slow", facts, [Lead(BOOKS[name]) for name in names], explains=explains)


def explained(*names: str, **more: Any) -> View:
    setting = {"value": True, "class": "launch flag", "assigned": "nowhere", "readers": [READER]} | more
    settings = {name: setting for name in names}
    return {"source": "/opt/sglang", "settings": settings, "artifacts": {"srt/runner.py": "t3.2"}}


def played(case: Case, *answers: Sequence[View]) -> list[list[tuple[str, dict[str, Any]]]]:
    """Return the calls of each step, the steps answered in turn."""
    steps = read_source(case)
    asked = []
    left = list(answers)
    step = next(steps, None)
    while step is not None:
        asked.append(step.calls)
        try:
            step = steps.send(list(left.pop(0)))
        except StopIteration:
            break
    assert not left
    return asked


def test_one_turn_asks_for_all_settings_and_for_lines_of_something_else() -> None:
    case = case_of(GRAPHS)
    (calls,) = played(case, [explained(*BOOKS[GRAPHS].settings), {"results": []}])
    (settings, search) = calls
    assert settings == ("settings", {"names": BOOKS[GRAPHS].settings, "pid": 7})
    assert search[0] == "grep" and "CudaGraphRunner" in search[1]["pattern"]
    assert "disable_cuda_graph" not in search[1]["pattern"], "a line about a setting is not searched for"
    quote = find_quote(case.source, BOOKS[GRAPHS].predictions[2].find)
    assert quote is not None and (quote.artifact, quote.lines) == ("t3.2", (40, 40))


def test_lines_that_were_not_among_those_shown_are_searched_for() -> None:
    answer = explained(*BOOKS[GRAPHS].settings, readers=[], more_readers=3)
    first, second = played(case_of(GRAPHS), [answer, {"results": []}], [{"results": []}])
    ((tool, arguments),) = second
    assert tool == "grep" and arguments["judge"] is False
    assert arguments["pattern"] == f"(?:{BOOKS[GRAPHS].predictions[2].find})"
    assert len(first) == 2


def test_all_readers_shown_means_that_no_search_finds_more() -> None:
    answer = explained(*BOOKS[GRAPHS].settings, readers=[])
    assert len(played(case_of(GRAPHS), [answer, {"results": []}])) == 1


def test_where_settings_cannot_answer_the_source_is_searched() -> None:
    error = {"error": "no source of sglang on gpu1"}
    definitions = {"results": [{"path": "srt/server_args.py", "matches": []}]}
    steps = played(case_of(GRAPHS), [error, {"results": []}], [definitions], [{}, {}, {}])
    assert [[tool for tool, _ in calls] for calls in steps] == [["settings", "grep"], ["grep"], ["grep"] * 3]
    assert steps[1][0][1]["pattern"].startswith("^    (disable_cuda_graph|")
    assert steps[2][0][1]["path"] == "srt/server_args.py"


@pytest.mark.parametrize("case", [case_of(GRAPHS, explains=False), case_of(GRAPHS, engine="ollama")])
def test_without_the_tool_or_an_engine_in_python_the_source_is_searched(case: Case) -> None:
    steps = played(case, [{"results": []}], [{}, {}, {}])
    assert [[tool for tool, _ in calls] for calls in steps] == [["grep"], ["grep"] * 3]


@pytest.mark.parametrize("case", [case_of(), case_of(GRAPHS, pid=0)])
def test_nothing_to_read_takes_no_turn(case: Case) -> None:
    assert played(case) == []


SETTINGS = [{"type": "function", "function": {"name": "settings", "description": "", "parameters": {}}}]
FACTS = {
    "host": "gpu1",
    "engines": [{"engine": "sglang", "pid": 7, "argv": ["x", "--disable-cuda-graph"],
                 "flags": {"disable_cuda_graph": True}}],
    "artifacts": {"cmdline:7": "t1.1"},
}  # fmt: skip


def thread(tools: Sequence[dict[str, Any]], answer: View) -> list[AssistantTurn]:
    """Return the turns of the built-in model on a host that answers every call with the same."""
    messages: list[Message] = [{"role": "user", "content": "decode is slow"}]
    add(messages, "facts", [("facts", "{}")], [FACTS])
    turns: list[AssistantTurn] = []
    while len(turns) < 12 and not any(call.name == "conclude" for turn in turns for call in turn.tool_calls):
        turn = asyncio.run(PlaybookModel().next_turn(messages, tools))
        turns.append(turn)
        calls = [(call.name, call.arguments) for call in turn.tool_calls]
        add(messages, str(len(turns)), calls, [answer] * len(calls))
    return turns


def add(messages: list[Message], name: str, calls: Sequence[tuple[str, str]], views: Sequence[View]) -> None:
    made = [
        {"id": f"{name}-{place}", "type": "function", "function": {"name": tool, "arguments": arguments}}
        for place, (tool, arguments) in enumerate(calls)
    ]
    messages.append({"role": "assistant", "content": "", "tool_calls": made})
    for call, view in zip(made, views, strict=True):
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(view)})


def names(turns: Sequence[AssistantTurn]) -> list[str]:
    return [call.name for turn in turns for call in turn.tool_calls]


def test_the_model_asks_for_settings_only_where_it_was_given_the_tool() -> None:
    assert "settings" in names(thread(SETTINGS, {"error": "no"}))
    assert "settings" not in names(thread([], {"error": "no"}))


def test_a_thread_that_began_with_searches_goes_on_with_them() -> None:
    messages: list[Message] = [{"role": "user", "content": "decode is slow"}]
    add(messages, "facts", [("facts", "{}")], [FACTS])
    wanted: list[str] = []
    for number in range(10):
        # The tool comes with a later release, while the thread waits.
        offered = SETTINGS if "grep" in wanted else []
        turn = asyncio.run(PlaybookModel().next_turn(messages, offered))
        calls = [(call.name, call.arguments) for call in turn.tool_calls]
        wanted += [name for name, _ in calls]
        if "conclude" in wanted:
            break
        add(messages, str(number), calls, [{"error": "no"}] * len(calls))
    assert "conclude" in wanted and "grep" in wanted and "settings" not in wanted
