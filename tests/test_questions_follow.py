"""A later question of a thread: what it leaves out is taken from those before, and it says of which hosts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent.actions import AnswerArgs
from agent.models.playbook import PlaybookModel
from agent.questions import asked, asks_on
from prompts.render import render
from tests.test_questions import view

FACTS = {
    "gpu1": view("gpu1"),
    "gpu2": view("gpu2", "0.5.12", disable_cuda_graph="true"),
    "gpu3": view("gpu3", "0.5.10"),
}


class Thread:
    """Hold the messages of a thread with the built-in model, and answer its calls as the hosts would."""

    def __init__(self, first: str) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": "x"}]
        self.say(first)
        self.call([("facts", {"host": host}) for host in FACTS])

    def say(self, text: str) -> None:
        """Add what a person says."""
        self.messages.append({"role": "user", "content": text})

    def call(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Add calls with their results."""
        ids = [f"c{len(self.messages)}-{place}" for place, _ in enumerate(calls)]
        made = [
            {"id": name, "function": {"name": call[0], "arguments": json.dumps(call[1])}}
            for name, call in zip(ids, calls, strict=True)
        ]
        self.messages.append({"role": "assistant", "content": "", "tool_calls": made})
        for name, (tool, given) in zip(ids, calls, strict=True):
            content = json.dumps(self.result(tool, given))
            self.messages.append({"role": "tool", "tool_call_id": name, "content": content})

    def result(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return what a call brings."""
        if tool == "facts":
            return FACTS[given["host"]]
        return {"accepted": True} if tool == "conclude" else {"host": given["host"], "engines": []}

    async def answered(self) -> AnswerArgs:
        """Let the model work until it concludes; return the conclusion."""
        while True:
            turn = await PlaybookModel().next_turn(self.messages, [])
            calls = [(call.name, json.loads(call.arguments)) for call in turn.tool_calls]
            self.call(calls)
            if calls[0][0] == "conclude":
                return AnswerArgs.model_validate(calls[0][1])


@pytest.mark.parametrize(
    ("first", "later", "says"),
    [
        ("which version is on gpu1?", "and gpu2?", "sglang 0.5.12 on gpu2."),
        ("which version is on gpu1?", "und auf gpu2?", "sglang 0.5.12 on gpu2."),
        ("which version is on gpu1?", "what about gpu3", "sglang 0.5.10 on gpu3."),
        ("which version is on gpu1?", "and gpu9?", "gpu9 is none of the hosts"),
        ("which version is on gpu1?", "since when?", "s.service on gpu1 runs since"),
        ("which hosts still run SGLang below 0.5.12?", "which of them have a drop-in?", "No unit"),
        (
            "which hosts still run SGLang below 0.5.12?",
            "which of them?",
            "sglang below 0.5.12: gpu1 (0.5.11)",
        ),
        ("are graphs off on gpu2?", "why?", "CUDA graph capture is off on gpu2"),
        ("are graphs off on gpu2?", "who did that?", "I do not know"),
        ("restart gpu1?", "and gpu2?", "This asks about an action (restart on gpu2)"),
        ("which version is on gpu2?", "ok, restart it", "This asks for an action (restart on gpu2)"),
        ("which version is on gpu1?", "how many hosts have a drop-in?", "No unit of an engine"),
    ],
)
async def test_a_later_question_is_read_by_the_one_before(first: str, later: str, says: str) -> None:
    assert asks_on(later)
    thread = Thread(first)
    await thread.answered()
    thread.say(later)
    answer = await thread.answered()
    assert answer.summary.startswith(says), answer.summary


async def test_a_question_put_while_one_is_answered_is_answered_with_it() -> None:
    thread = Thread("which version is on gpu1?")
    thread.say("and gpu2?")
    answer = await thread.answered()
    assert answer.summary.startswith("sglang 0.5.11 on gpu1. sglang 0.5.12 on gpu2.")
    thread.say("and gpu3?")
    answer = await thread.answered()
    assert answer.summary.startswith("sglang 0.5.10 on gpu3.")


def test_what_slack_says_beside_a_question_is_no_part_of_it() -> None:
    ada = {"who": "Ada", "text": "restart it"}
    for against, others in ((None, ["Ada"]), (ada, ["Ada"]), (None, [])):
        told = render("said_in_slack", who="Ben", text="and gpu2?", against=against, others=others)
        assert asked(told) == "and gpu2?"
    assert asked("and gpu2?\nThis conflicts with what Ada said before: x").endswith("x"), (
        "a person's own words"
    )


async def test_them_are_the_hosts_of_the_last_answer_and_it_says_so() -> None:
    thread = Thread("which hosts still run SGLang below 0.5.12?")
    await thread.answered()
    thread.say("which of them have a drop-in?")
    answer = await thread.answered()
    assert "Asked of gpu1, gpu3, as before." in answer.summary
    assert answer.table is not None
    assert {row[0] for row in answer.table.rows} == {"gpu1, gpu3"}


async def test_a_sentence_of_its_own_is_asked_of_all_hosts_again() -> None:
    thread = Thread("which version is on gpu1?")
    await thread.answered()
    thread.say("which versions are running?")
    answer = await thread.answered()
    assert "gpu3" in answer.summary and "as before" not in answer.summary


async def test_the_lines_of_an_answer_are_shown_and_cited_again() -> None:
    thread = Thread("which hosts still run SGLang below 0.5.12?")
    first = await thread.answered()
    for later in ("show me the line", "are you sure?", "zeig mir die Zeile"):
        thread.say(later)
        shown = await thread.answered()
        assert shown.outcome == "answered"
        assert [claim.says for claim in shown.claims] == [claim.says for claim in first.claims]
    thread.say("show me the evidence for gpu2")
    only = await thread.answered()
    assert only.table is not None
    assert [row[0] for row in only.table.rows] == ["gpu2"]
    thread.say("and gpu3?")
    again = await thread.answered()
    assert again.summary.startswith("sglang below 0.5.12: gpu3 (0.5.10)"), (
        "the line was no question about hosts"
    )


async def test_a_thread_about_a_symptom_shows_its_lines_and_what_it_read_in_words() -> None:
    thread = Thread("decode is slow on gpu2")
    cite = {"artifact": "t2.1", "quote": "--disable-cuda-graph", "lines": None}
    claim = {"type": "log_event", "says": "It was launched so.", "cite": cite}
    thread.call([("conclude", {"outcome": "diagnosed", "summary": "s", "claims": [claim]})])
    for later, says in (
        ("show me the line", "- It was launched so.\n  t2.1: --disable-cuda-graph"),
        ("which version is on gpu1?", "not verified: sglang 0.5.11 on gpu1."),
        ("and gpu3?", "not verified: sglang 0.5.10 on gpu3."),
        ("what changed since yesterday?", "Ask it in a thread of its own: leadline ask gpu1,gpu2,gpu3"),
    ):
        thread.say(later)
        turn = await PlaybookModel().next_turn(thread.messages, [])
        assert turn.tool_calls == []
        assert says in turn.text
        thread.messages.append({"role": "assistant", "content": turn.text})


@pytest.mark.parametrize("text", ["thanks!", "ok", "great work", "we fixed it", "decode hangs on gpu2"])
def test_what_asks_nothing_is_no_later_question(text: str) -> None:
    assert not asks_on(text)
