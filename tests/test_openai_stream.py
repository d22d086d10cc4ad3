"""A turn put together from its pieces, whatever the pieces are."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.models.scripted import _Answer
from agent.models.scripted_script import FaultKind
from agent.models.stream import BrokenAnswer, TurnBuilder
from agent.state import AssistantTurn, ToolCall
from tests.openai_parts import (
    HABITS,
)


def test_thoughts_left_in_the_text_are_moved() -> None:
    builder = TurnBuilder()
    message = {"content": "<think>\nGraphs are off?\n</think>\n\nI look."}
    builder.feed_whole({"choices": [{"message": message, "finish_reason": "stop"}]})
    turn = builder.turn([], [], (0.0, 0.0))
    assert (turn.reasoning, turn.text) == ("Graphs are off?", "I look.")


@pytest.mark.parametrize("chunk", [42, "x", [], None])
def test_a_chunk_that_is_none_is_a_broken_answer(chunk: Any) -> None:
    with pytest.raises(BrokenAnswer):
        TurnBuilder().feed(chunk)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "tool_calls", "function", "index", "id", "name", "arguments", "usage"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=5))
def test_no_chunk_breaks_the_builder(chunks: list[Any]) -> None:
    builder = TurnBuilder()
    for chunk in chunks:
        try:
            builder.feed(chunk)
            builder.feed({"choices": [{"delta": chunk}]})
        except BrokenAnswer:
            continue
    builder.finish = "stop"
    with suppress(BrokenAnswer):
        builder.turn([], [], (1.0, 1.0))


calls = st.lists(
    st.builds(
        lambda name, arguments: (name, json.dumps(arguments)),
        st.sampled_from(["grep", "run"]),
        st.dictionaries(st.text(max_size=8), st.text(max_size=60) | st.integers(), max_size=3),
    ),
    max_size=4,
)


@given(st.sampled_from([None, *HABITS]), st.text(max_size=80), st.text(max_size=80), calls)
def test_any_turn_comes_through_any_habit_of_a_server(
    habit: FaultKind | None, text: str, reasoning: str, wanted: list[tuple[str, str]]
) -> None:
    sent = AssistantTurn(
        text="x" + text,
        reasoning=reasoning,
        tool_calls=[
            ToolCall(id=f"c{place}", name=name, arguments=arguments)
            for place, (name, arguments) in enumerate(wanted)
        ],
    )
    answer = _Answer(1, sent, habit, 10)
    builder = TurnBuilder()
    for delta in answer._deltas():
        builder.feed(json.loads(json.dumps({"choices": [{"delta": delta}]})))
    builder.feed({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    whole = TurnBuilder()
    whole.feed_whole(json.loads(json.dumps(answer.whole())))
    for turn in (builder.turn([], [], (0, 0)), whole.turn([], [], (0, 0))):
        assert (turn.text, turn.reasoning) == (sent.text, sent.reasoning)
        assert [(call.name, call.arguments) for call in turn.tool_calls] == wanted
