"""Who asks for an action is told what speaks for it and against it, how it is done, and that nothing was."""

from __future__ import annotations

from typing import Any

import pytest

from agent.actions import AnswerArgs
from agent.models.questions import answer_question
from agent.models.questions_answer import Look
from agent.questions import is_question, opens_question, wish
from tests.test_questions import concluded, view


def told(host: str, health: str = "ok", **effective: str) -> dict[str, Any]:
    """Return what a server says of itself."""
    row = {"engine": "s.service", "health": health, "effective": effective, "artifact": "t9.1"}
    return {"host": host, "engines": [row]}


@pytest.mark.parametrize(
    ("text", "manner", "verb"),
    [
        ("restart gpu1", "do", "restart"),
        ("restart gpu1?", "whether", "restart"),
        ("please restart sglang on gpu2", "do", "restart"),
        ("bounce gpu3", "do", "bounce"),
        ("can I drain gpu2?", "whether", "drain"),
        ("upgrade all to 0.5.12", "do", "upgrade"),
        ("rollback gpu3", "do", "rollback"),
        ("should gpu1 be restarted?", "whether", "restarted"),
        ("does gpu1 need a restart?", "whether", "restart"),
        ("is it safe to reboot gpu2?", "whether", "reboot"),
        ("how do I upgrade sglang on gpu1?", "how", "upgrade"),
        ("what would happen if I enable cuda graphs on gpu2", "whether", "enable"),
        ("set --max-running-requests to 16 on gpu2", "do", "set"),
        ("kannst du gpu1 neu starten?", "whether", "restart"),
        ("Ada says in Slack: kill the server on gpu1", "do", "kill"),
    ],
)
def test_a_wish_is_told_from_a_symptom(text: str, manner: str, verb: str) -> None:
    found = wish(text)
    assert found is not None and found[:2] == (manner, verb)
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "restart gpu1, it hangs",
        "restart loop on gpu1",
        "restart of gpu1 takes 20 minutes",
        "drop-ins on gpu1?",
        "does the unit on gpu2 need a reload?",
        "when was gpu2 restarted?",
        "who restarted gpu1?",
        "can you show me the flags of gpu1?",
        "stop sequences are ignored",
        "clear cache does not work",
        "graph capture on gpu2 fails",
        "set of GPUs is idle",
    ],
)
def test_what_tells_of_trouble_or_asks_for_facts_is_no_wish(text: str) -> None:
    assert wish(text) is None


def test_a_wish_is_for_a_language_model_to_follow_up_where_it_may_change_something() -> None:
    assert opens_question("restart gpu1", "read-only", "some-model")
    assert opens_question("restart gpu1", "apply", "playbook")
    assert not opens_question("restart gpu1", "apply", "some-model")
    assert opens_question("which hosts run vllm?", "apply", "some-model")


def test_an_order_ends_with_a_person_and_says_that_nothing_was_done() -> None:
    answer = concluded("restart gpu1", [Look("gpu1", view("gpu1"))], [], [told("gpu1")])
    assert answer.outcome == "needs_person"
    assert answer.summary.startswith("This asks for an action (restart on gpu1), and nothing was done.")
    assert "Against it: it answers, health ok (gpu1)." in answer.summary
    assert "sudo systemctl restart s.service" in answer.next_step


def test_whether_to_is_answered_by_both_sides_and_decided_by_none() -> None:
    sick = concluded("should I restart gpu1?", [Look("gpu1", view("gpu1"))], [], [told("gpu1", "no answer")])
    assert sick.outcome == "answered"
    assert "For it: its health is: no answer (gpu1)." in sick.summary
    assert "Whether to, a person decides" in sick.summary
    cards = [{"index": 0, "name": "x", "utilization": 97}]
    busy = Look("gpu1", view("gpu1") | {"hardware": {"gpus": cards}})
    answer = concluded("can I drain gpu1?", [busy], [], [told("gpu1")])
    assert "Against it: 1 of 1 GPUs are at work: what they do would be cut off (gpu1)." in answer.summary


def test_an_upgrade_is_held_against_the_versions_that_run() -> None:
    looks = [Look("gpu1", view("gpu1")), Look("gpu2", view("gpu2", "0.5.12"))]
    states = [told("gpu1"), told("gpu2")]
    answer = concluded("upgrade all to 0.5.12", looks, [], states)
    assert "For it: it runs sglang 0.5.11, which is below 0.5.12 (gpu1)." in answer.summary
    assert "it runs sglang 0.5.12, which is that (gpu2)" in answer.summary.partition("Against it:")[2]
    other = concluded("upgrade vllm on gpu1 to 0.34.0", looks, [], states[:1])
    assert "Against it: it runs sglang 0.5.11, not vllm (gpu1)." in other.summary
    assert "installs nothing" in other.next_step


@pytest.mark.parametrize(
    ("text", "value", "says"),
    [
        ("enable cuda graphs on gpu1", "false", "it is so already: disable_cuda_graph is false (in force)"),
        ("enable cuda graphs on gpu1", "true", "it is not so yet: disable_cuda_graph is true (in force)"),
        ("turn off cuda graphs on gpu1", "true", "it is so already: disable_cuda_graph is true (in force)"),
        ("remove --disable-cuda-graph on gpu1", "true", "it is not so yet: disable_cuda_graph is true"),
        ("set --max-running-requests to 8 on gpu1", "8", "it is so already: max_running_requests is 8"),
        ("set --max-running-requests to 16 on gpu1", "8", "it is not so yet: max_running_requests is 8"),
    ],
)
def test_a_setting_that_is_so_already_is_said_to_be(text: str, value: str, says: str) -> None:
    name = "max_running_requests" if "max" in text else "disable_cuda_graph"
    answer = concluded(text, [Look("gpu1", view("gpu1"))], [], [told("gpu1", **{name: value})])
    assert says in answer.summary
    assert answer.outcome == "needs_person"
    assert "--mode propose" in answer.next_step and "--mode apply" in answer.next_step


def test_a_host_that_is_none_of_those_looked_at_is_not_replaced_by_another() -> None:
    answer = concluded("restart gpu9", [Look("gpu1", view("gpu1"))], [])
    assert answer.outcome == "not_known"
    assert answer.summary.startswith("gpu9 is none of the hosts")


def test_a_wish_calls_nothing_that_acts() -> None:
    steps = answer_question("restart gpu1", [Look("gpu1", view("gpu1"))])
    calls = next(steps).calls + steps.send([told("gpu1")]).calls
    assert [name for name, _ in calls] == ["engine_state", "conclude"]
    AnswerArgs.model_validate(calls[1][1])
