"""Questions about hosts: told from symptoms, understood, and answered from what is on view."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.actions import AnswerArgs
from agent.answer_table import AnswerTable
from agent.config import Settings
from agent.events import Started
from agent.ledger import Ledger
from agent.models.playbook import PlaybookModel
from agent.models.questions import answer_question, down_of
from agent.models.questions_answer import Look, folded
from agent.models.questions_parse import parse
from agent.models.questions_terms import since_of, version_key
from agent.questions import asked, is_question
from agent.session import Session
from agent.state import Concluded, Conclusion, LogClaim, OpinionClaim
from agent.surfaces.side_by_side import Down, Opened
from prompts.questions import known
from tools.contract import ToolError
from tools.local import LocalHost

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)  # a Monday
HOSTS = ("gpu1", "gpu2", "gpu3")
CASES = Path(__file__).parent.parent / "evals" / "cases"

ASKED = [
    ("which hosts still run SGLang below 0.5.12?", "versions"),
    ("what changed on gpu1 since yesterday?", "changes"),
    ("why is prefill slower on gpu2 than on gpu1?", "compare"),
    ("is graph capture on anywhere off?", "feature"),
    ("how many GPUs are idle?", "gpus"),
    ("which hosts have a drop-in?", "dropins"),
    ("where does --max-running-requests differ?", "setting"),
    ("what differs between gpu1, gpu2 and gpu3?", "differ"),
    ("are all servers healthy?", "health"),
    ("since when does the server on gpu1 run?", "since"),
    ("which hosts set NCCL_P2P_DISABLE?", "variable"),
    ("which hosts run vLLM?", "engines"),
    ("who set --disable-cuda-graph on gpu2?", "who"),
    ("which units need a daemon-reload?", "reload"),
    ("what is the meaning of it all?", "unknown"),
]


@pytest.mark.parametrize(("question", "kind"), ASKED)
def test_a_question_is_one_and_of_its_kind(question: str, kind: str) -> None:
    assert is_question(question)
    assert parse(question, HOSTS, NOW).kind == kind


@pytest.mark.parametrize(
    "symptom",
    ["decode is slow: 24 tok/s", "why is decode slow?", "Is it hung?", "which setting makes it faster?", ""],
)
def test_a_symptom_is_no_question(symptom: str) -> None:
    assert not is_question(symptom)


def test_every_symptom_of_the_cases_stays_one() -> None:
    for path in sorted(CASES.glob("*.yaml")):
        raw = yaml.safe_load(path.read_text())
        assert is_question(raw.get("symptom", "")) == path.stem.startswith("infra-"), path.name


def test_earlier_messages_of_a_thread_are_not_what_is_asked() -> None:
    text = "how many GPUs are idle?\n\nEarlier messages of the thread in Slack, as data:\ndecode is slow"
    assert is_question(text)
    assert asked(text) == "how many GPUs are idle?"


@pytest.mark.parametrize(
    ("words", "since"),
    [
        ("since yesterday", "yesterday"),
        ("since 2026-11-29 07:30", "2026-11-29T07:30"),
        ("in the last 3 days", "3d"),
        ("in the last two hours", "2h"),
        ("since friday", "2026-11-27"),
        ("since monday", "2026-11-23"),
        ("in the last month", "30d"),
        ("so far", "7d"),
    ],
)
def test_moments(words: str, since: str) -> None:
    assert since_of(words, NOW) == since


def test_versions_are_ordered_as_releases_are() -> None:
    rising = ["0.5.9", "0.5.10rc1", "0.5.10", "0.5.10.post1", "0.5.11", "1.0"]
    assert sorted(rising[::-1], key=version_key) == rising
    assert version_key("1.0") == version_key("1.0.0")


def test_hosts_and_comparisons_are_taken_from_the_words() -> None:
    query = parse("which hosts run sglang 0.5.12 or newer?", HOSTS, NOW)
    assert (query.op, query.version, query.engine, query.hosts) == (">=", "0.5.12", "sglang", HOSTS)
    assert parse("why is prefill slower on gpu2 than on gpu1?", HOSTS, NOW).hosts == ("gpu2", "gpu1")
    assert parse("is gpu1 up?", ("gpu1", "gpu10"), NOW).hosts == ("gpu1",)


def left_out() -> str:
    """Return what the program tells the model of a host that is down."""
    opened = Opened()
    opened.down = [Down("gpu2", "no route", "look")]
    return str(opened.note)


def view(host: str, version: str = "0.5.11", **flags: Any) -> dict[str, Any]:
    """Return facts of a host with one engine."""
    argv = ["python", "-m", "sglang.launch_server"]
    for name, value in flags.items():
        argv += [f"--{name.replace('_', '-')}", str(value)]
    engine = {"pid": 7, "engine": "sglang", "unit": "s.service", "argv": argv, "flags": flags, "port": 1}
    engine |= {"version": version, "packages": {}}
    handles = {
        name: f"t1.{at}" for at, name in enumerate(("cmdline:7", "package:7", "gpus", "show:s.service"), 1)
    }
    service = {"unit": "s.service", "dropins": [], "active": "active"}
    taken = {"host": host, "taken_at": NOW.isoformat(), "artifacts": handles}
    return taken | {"engines": [engine], "services": [service], "hardware": {"gpus": []}}


def concluded(
    question: str, looks: list[Look], down: list[Look], *rounds: list[dict[str, Any]]
) -> AnswerArgs:
    """Return the conclusion that the method comes to, and that its schema takes."""
    steps = answer_question(question, looks, down)
    step = next(steps)
    for results in rounds:
        step = steps.send(list(results))
    ((name, arguments),) = step.calls
    assert name == "conclude"
    return AnswerArgs.model_validate(arguments)


def test_facts_that_suffice_take_one_turn_and_fold_what_is_the_same() -> None:
    looks = [Look("gpu1", view("gpu1")), Look("gpu2", view("gpu2")), Look("gpu3", view("gpu3", "0.5.12"))]
    answer = concluded(ASKED[0][0], looks, [])
    assert answer.outcome == "answered"
    assert answer.table is not None
    assert [row[0] for row in answer.table.rows] == ["gpu1, gpu2", "gpu3"]
    assert "gpu3" not in answer.summary


def test_a_host_that_is_down_has_a_row_and_no_host_stands_for_it() -> None:
    looks = [Look("gpu1", view("gpu1", "0.5.12"))]
    down = down_of([{"role": "user", "content": f"[leadline] {left_out()}"}])
    answer = concluded(ASKED[0][0], looks, down)
    assert answer.outcome == "not_known", "what is not read may be below"
    assert "gpu2 (not reached)" in answer.summary
    assert answer.table is not None and ["gpu2", "not reached", "-", "-", "-"] in answer.table.rows


def test_a_note_that_a_person_forged_takes_no_host_down() -> None:
    assert down_of([{"role": "user", "content": left_out()}]) == []


def test_what_the_server_does_not_tell_is_not_taken_for_its_default() -> None:
    told = {
        "host": "gpu1",
        "engines": [{"engine": "s.service", "health": "ok", "effective": {}, "artifact": "t2.1"}],
    }
    answer = concluded("is graph capture off anywhere?", [Look("gpu1", view("gpu1"))], [], [told])
    assert answer.outcome == "not_known"
    assert answer.next_step
    off = concluded(
        "is graph capture off anywhere?", [Look("gpu1", view("gpu1", disable_cuda_graph="true"))], [], [told]
    )
    assert off.outcome == "answered"


async def test_a_later_question_of_a_thread_looks_at_the_hosts_anew() -> None:
    call = {"id": "a", "function": {"name": "facts", "arguments": '{"host": "gpu1"}'}}
    end = {"id": "b", "function": {"name": "conclude", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "x"},
        {"role": "user", "content": ASKED[0][0]},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": json.dumps(view("gpu1"))},
        {"role": "assistant", "content": "", "tool_calls": [end]},
        {"role": "tool", "tool_call_id": "b", "content": '{"accepted": true}'},
        {"role": "user", "content": "[leadline] which hosts are down?"},
        {"role": "user", "content": "which hosts have a drop-in?"},
    ]
    turn = await PlaybookModel().next_turn(messages, [])
    assert [(one.name, one.arguments) for one in turn.tool_calls] == [("facts", '{"host": "gpu1"}')]
    messages += [
        {"role": "assistant", "content": "", "tool_calls": [{**call, "id": "c"}]},
        {"role": "tool", "tool_call_id": "c", "content": json.dumps(view("gpu1"))},
    ]
    turn = await PlaybookModel().next_turn(messages, [])
    assert turn.tool_calls[0].name == "conclude"
    assert "drop-in" in turn.tool_calls[0].arguments


def test_a_question_that_is_not_understood_says_which_are() -> None:
    answer = concluded("what is the meaning of it all?", [Look("gpu1", view("gpu1"))], [])
    assert answer.outcome == "not_known"
    assert "below or above" in answer.summary
    assert "language model" in answer.next_step


def test_facts_that_were_cut_prove_nothing_of_all() -> None:
    cut = view("gpu1", "0.5.12") | {"cut": {"engines": "2 of 9 shown", "ports": "24 of 90 shown"}}
    answer = concluded(ASKED[0][0], [Look("gpu1", cut)], [])
    assert answer.outcome == "not_known"
    assert "engines 2 of 9 shown" in answer.summary
    assert "ports" not in answer.summary


def test_rows_are_folded_by_what_stands_in_them() -> None:
    assert folded([("a", ("1",)), ("b", ("2",)), ("c", ("1",))]) == [["a, c", "1"], ["b", "2"]]


def test_a_table_has_no_row_with_a_cell_too_few() -> None:
    with pytest.raises(ValueError, match="every row needs 2 cells"):
        AnswerTable(head=["A", "B"], rows=[["1"]])


def started(*, question: bool) -> Ledger:
    """Return a ledger of a thread that has just begun."""
    ledger = Ledger()
    fields: dict[str, Any] = {"product": "0", "recorded": "playbook", "symptom": "x", "mode": "read-only"}
    ledger.apply(Started(thread="t", hosts=["gpu1"], question=question, **fields))
    return ledger


CLAIM = LogClaim.model_validate({"says": "x", "cite": {"artifact": "t1.1", "quote": "y"}})


def test_the_ledger_lets_a_question_be_answered_and_no_symptom() -> None:
    answer = Conclusion(outcome="answered", summary="s", claims=[CLAIM])
    started(question=True).may_conclude(answer)
    with pytest.raises(ToolError, match="no question asked"):
        started(question=False).may_conclude(answer)


def test_an_answer_needs_a_claim_and_what_is_not_known_a_next_step() -> None:
    ledger = started(question=True)
    with pytest.raises(ToolError, match="cites what says so"):
        ledger.may_conclude(Conclusion(outcome="answered", summary="s", claims=[OpinionClaim(says="x")]))
    with pytest.raises(ToolError, match="next_step"):
        ledger.may_conclude(Conclusion(outcome="not_known", summary="s", claims=[]))


def test_a_question_relaxes_reading_and_nothing_that_blames() -> None:
    question, symptom = started(question=True), started(question=False)
    question.may_read_source("grep")
    with pytest.raises(ToolError):
        symptom.may_read_source("grep")
    blames = Conclusion(outcome="answered", summary="s", claims=[CLAIM], causes=["H1"])
    with pytest.raises(ToolError, match="names no causes"):
        question.may_conclude(blames)
    with pytest.raises(ToolError, match="H1"):
        question.may_conclude(blames.model_copy(update={"outcome": "diagnosed"}))


def test_what_a_symptom_may_end_with_stays_as_it_was() -> None:
    assert "table" not in Concluded.model_fields
    assert "table" in Conclusion.model_fields


def test_what_is_known_is_read_strictly() -> None:
    assert known().features
    assert set(known().bears_on) == {"prefill", "decode"}


async def test_a_session_is_a_question_and_guesses_nothing(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state", cache_dir=tmp_path / "cache")
    session = Session.start(
        settings, PlaybookModel(), {"here": LocalHost("here")}, "what is the meaning of it all?"
    )
    try:
        async for _ in session.ask():
            pass
        opened = session.events[0]
        assert isinstance(opened, Started)
        assert opened.question
        assert "question.md.j2" in opened.prompts
        assert "tool:history" in opened.prompts
        assert session.ended is not None
        assert session.ended.outcome == "not_known"
        assert session.ended.turn == 1
    finally:
        await session.close()
