from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.compaction import compact, foldable, folded, tokens_of
from agent.events import Compacted, ToolFinished, TurnTaken
from agent.messages import Messages
from agent.state import Message, ToolCall

Round = tuple[str, list[tuple[str, str]]]


def talk(rounds: list[Round], symptom: str = "slow: 24 tok/s") -> list[Message]:
    """Return a conversation; each round is a text and its calls with their results."""
    messages: list[Message] = [
        {"role": "system", "content": "You are Leadline."},
        {"role": "user", "content": symptom},
    ]
    for number, (text, calls) in enumerate(rounds):
        wire = [
            {
                "id": f"c{number}-{place}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps({"pattern": f"p{number}"})},
            }
            for place, (name, _) in enumerate(calls)
        ]
        messages.append({"role": "assistant", "content": text, **({"tool_calls": wire} if wire else {})})
        for place, (_, content) in enumerate(calls):
            messages.append({"role": "tool", "tool_call_id": f"c{number}-{place}", "content": content})
    return messages


def result(number: int, size: int = 4000) -> str:
    rows = [{"path": "/opt/server_args.py", "artifact": f"t{number}.1"}]
    return json.dumps({"host": "h", "results": rows, "stderr_artifact": f"t{number}.2", "text": "x" * size})


def contents(messages: list[Message]) -> list[str]:
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def test_nothing_changes_below_the_bound() -> None:
    messages = talk([("look", [("grep", result(n))]) for n in range(8)])
    assert compact(messages, 100_000) == messages


def test_older_results_become_one_line_with_their_handles() -> None:
    messages = talk([("look", [("grep", result(n))]) for n in range(8)])
    before = json.dumps(messages)
    short = compact(messages, 6_000)
    assert json.dumps(messages) == before
    assert tokens_of(short) <= 6_000
    first = contents(short)[0]
    assert first == (
        '[leadline] cut to save room: grep {"pattern": "p0"} returned 4,118 bytes; artifacts '
        "t0.1 (/opt/server_args.py), t0.2 (stderr_artifact): read_file artifact=t0.1 pages it"
    )
    assert contents(short)[-3:] == contents(messages)[-3:]
    assert short[:2] == messages[:2]


def test_a_result_that_is_no_json_still_gives_its_handles() -> None:
    cut = '{"host": "h", "artifact": "t3.1", "text": "says \\"t9.9\\" ' + "y" * 4000
    messages = talk([("look", [("run", cut)]), *[("look", [("grep", result(n))]) for n in range(5)]])
    first = contents(compact(messages, 3_000))[0]
    assert "artifacts t3.1: read_file artifact=t3.1" in first and "t9.9" not in first


def test_what_carries_ids_is_never_cut() -> None:
    ledger = json.dumps({"evidence": ["E1", "E2"], "pad": "z" * 3000})
    rounds: list[Round] = []
    for number in range(6):
        rounds.append(("", [("hypothesis", ledger), ("propose_change", ledger), ("conclude", ledger)]))
        rounds.append(("", [("grep", result(number))]))
    messages = talk(rounds)
    short = compact(messages, 1_000)
    assert [text for text in contents(short) if text == ledger] == [ledger] * 18


def test_the_last_turn_stays_whole_even_when_too_long() -> None:
    messages = talk([("look", [("grep", result(n)), ("run", result(n, 9000))]) for n in range(4)])
    short = compact(messages, 1_500)
    assert contents(short)[-2:] == contents(messages)[-2:]
    assert all(text.startswith("[leadline] cut") for text in contents(short)[:-2])


def test_the_beginning_stays_the_same_for_several_turns() -> None:
    rounds: list[Round] = [("look", [("grep", result(n))]) for n in range(40)]
    heads = [json.dumps(compact(talk(rounds[:turns]), 10_000)[: 2 * (turns - 3)]) for turns in range(12, 40)]
    kept = sum(later.startswith(earlier[:-1]) for earlier, later in pairwise(heads))
    assert kept >= 18


texts = st.one_of(
    st.integers(0, 99).map(result),
    st.text(max_size=300),
    st.just("{" * 3000),
    st.integers(1, 3000).map("ü".__mul__),
)
names = st.sampled_from(["grep", "run", "read_file", "hypothesis"])
talks = st.lists(st.tuples(st.text(max_size=40), st.lists(st.tuples(names, texts), max_size=3)), max_size=12)


@settings(suppress_health_check=[HealthCheck.too_slow])  # how fast inputs are made is the machine's affair
@given(talks, st.integers(200, 8_000))
def test_compacting_keeps_pairs_is_repeatable_and_settles(rounds: Any, limit: int) -> None:
    messages = talk(rounds)
    short = compact(messages, limit)
    assert short == compact(messages, limit)
    assert compact(short, limit) == short
    assert tokens_of(short) <= tokens_of(messages)
    asked = [call["id"] for message in short for call in message.get("tool_calls") or ()]
    assert asked == [message["tool_call_id"] for message in short if message["role"] == "tool"]
    rest = [message for message in short if message["role"] != "tool"]
    assert rest == [message for message in messages if message["role"] != "tool"]


def test_a_person_folds_what_is_not_of_the_latest_turn() -> None:
    ledger = json.dumps({"evidence": ["E1"], "pad": "z" * 3000})
    messages = talk(
        [
            ("look", [("grep", result(0)), ("run", "short")]),
            ("state", [("hypothesis", ledger)]),
            ("look", [("grep", result(2))]),
            ("an answer without a call", []),
        ]
    )
    calls = foldable(messages)
    assert calls == ["c0-0"], "the short one saves nothing, the ledger's ids stay, the latest stays whole"
    short = folded(messages, frozenset(calls))
    assert contents(short)[0].startswith("[leadline] cut to save room: grep")
    assert contents(short)[1:] == contents(messages)[1:] and foldable(short) == []
    assert foldable([]) == []


def test_a_fold_is_part_of_the_record() -> None:
    fold = Messages("You are Leadline.")
    turn = TurnTaken(turn=0, model="m", tool_calls=[ToolCall(id="c1", name="facts", arguments="{}")])
    done = ToolFinished(call="t1", tool_call_id="c1", tool="facts", status="ok", view=result(1))
    for event in (turn, done, Compacted(calls=["c1"], tokens_before=9, tokens_after=1)):
        fold.feed(event)
    assert contents(fold.list) == [
        "[leadline] cut to save room: facts {} returned 4,118 bytes; artifacts t1.1 (/opt/server_args.py), "
        "t1.2 (stderr_artifact): read_file artifact=t1.1 pages it"
    ]
