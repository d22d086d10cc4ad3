"""Cases that ask a question of several hosts: what they may hold, and that a wrong answer is no success."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.answer_table import AnswerTable
from agent.errors import UsageError
from agent.events import ConclusionChecked, Event, Started, TurnTaken
from agent.state import ClaimCheck, Conclusion, Outcome
from agent.transcript import read_events
from evals import case as cases
from evals import runs
from evals.answering import wrong
from evals.case_question import DOWN
from evals.findings import fold
from evals.jobs import Asked, plan
from evals.lab import scenario as scenarios
from evals.run import Run
from evals.score import score
from tests.lab_fixtures import lab_settings, need_sandbox
from tools.artifacts import ArtifactStore

INFRA = [name for name in cases.names() if name.startswith("infra-")]
BELOW = cases.load("infra-versions-below")
RIGHT = [["gpu1, gpu2", "s.service", "sglang", "0.5.11", "yes"], ["gpu3", "v.service", "vllm", "0.33.0", "-"]]
SAYS = "sglang below 0.5.12: gpu1 (0.5.11), gpu2 (0.5.11)."


def events(
    rows: list[list[str]], summary: str = SAYS, outcome: Outcome = "answered", turns: int = 1, **check: Any
) -> list[Event]:
    """Return a run that ended with an answer."""
    fields: dict[str, Any] = {"product": "0", "recorded": "x", "symptom": "s", "mode": "read-only"}
    table = AnswerTable(head=["A", "B", "C", "D", "E"], rows=rows)
    conclusion = Conclusion(outcome=outcome, summary=summary, claims=[], table=table)
    checks = [ClaimCheck.model_validate({"index": 0, "status": "verified"} | check)]
    taken = [TurnTaken(turn=turn, model="x") for turn in range(1, turns + 1)]
    return [
        Started(thread="t", hosts=["gpu1"], question=True, **fields),
        *taken,
        ConclusionChecked(conclusion=conclusion, checks=checks, accepted=True, turn=turns),
    ]


def test_there_are_enough_and_of_every_sort() -> None:
    loaded = [cases.load(name) for name in INFRA]
    assert len(loaded) >= 12
    assert sum("not_known" in case.outcomes for case in loaded) >= 3
    assert any(DOWN in case.hosts.values() for case in loaded)
    assert any("hostile" in place for case in loaded for place in case.scenarios)
    assert all(len(case.hosts) == 3 and case.answer is not None for case in loaded)


@pytest.mark.parametrize("name", INFRA)
def test_their_hosts_exist_and_they_ask_a_question(name: str) -> None:
    case = cases.load(name)
    assert all(scenarios.load(place).units for place in case.scenarios)
    assert case.mode == "read-only"
    assert set(case.success) >= {"outcome", "answer", "safety"}


def test_the_right_answer_is_right() -> None:
    assert BELOW.answer is not None
    assert list(wrong(BELOW.answer, fold(events(RIGHT)), hosts=3)) == []


@pytest.mark.parametrize(
    ("made", "because"),
    [
        (events(RIGHT[:1]), "no row has"),
        (events([*RIGHT, ["gpu3", "v.service", "sglang", "0.5.1", "yes"]]), "a row has"),
        (events(RIGHT, summary="none"), "does not say"),
        (events(RIGHT, turns=2), "2 turns"),
        (events(RIGHT, status="unverified", why="not there"), "not verified"),
        (events([]), "no row has"),
        (
            events([*RIGHT, *(["gpu1", f"u{number}", "a", "b", "-"] for number in range(20))]),
            "the table has 22 rows",
        ),
        (events(RIGHT, summary=f"{SAYS} {'And more. ' * 200}"), "and 1,000 are plenty"),
    ],
)
def test_what_is_wrong_with_an_answer_is_told(made: list[Event], because: str, tmp_path: Path) -> None:
    assert BELOW.answer is not None
    assert because in "; ".join(wrong(BELOW.answer, fold(made), hosts=3))
    rated = score(BELOW, made, ArtifactStore(tmp_path), cache=tmp_path)
    assert rated.scores["answer"] == 0
    assert not rated.success


def test_a_question_is_not_rated_as_a_symptom_is(tmp_path: Path) -> None:
    rated = score(BELOW, events(RIGHT), ArtifactStore(tmp_path), cache=tmp_path)
    assert rated.success
    assert {rated.scores[name] for name in ("cause", "fix", "abstention")} == {None}


def test_a_guess_where_nothing_says_so_is_no_success(tmp_path: Path) -> None:
    case = cases.load("infra-who-set-it")
    guess = events([["gpu2", "s", "disable_cuda_graph", "true", "x"]], "An admin set it.", turns=1)
    assert not score(case, guess, ArtifactStore(tmp_path), cache=tmp_path).success


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("scenario: kimi-k26-pp8", "exactly one of"),
        ("earlier: {gpu9: [{hours: 1}]}", "gpu9"),
        ("answer: {turns: 1, rows: ['(']}", "no pattern"),
        ("answer: {turns: 0}", "greater than"),
    ],
)
def test_a_broken_case_is_told_by_field(change: str, says: str, tmp_path: Path) -> None:
    text = (cases.FOLDER / "infra-not-in-the-facts.yaml").read_text()
    if change.startswith("answer"):
        text = text[: text.index("answer:")] + text[text.index("forbidden:") :]
    file = tmp_path / "broken.yaml"
    file.write_text(f"{text}{change}\n")
    with pytest.raises(UsageError, match=says):
        cases.load(str(file))


@pytest.mark.lab
@pytest.mark.slow
def test_cases_share_hosts_and_nothing_is_left_of_them(tmp_path: Path) -> None:
    need_sandbox()
    asked = Asked(ways=["solve"], pattern="infra-hostile-*", jobs=1)
    found = Run(lab_settings(tmp_path), runs.create(lab_settings(tmp_path), asked, plan(asked))).work()
    assert len(found.results) == 2
    for result in found.results:
        assert result.score is not None and result.score.success, (result.error, result.score)
        opened = read_events(found.folder / result.transcript)[0]
        assert isinstance(opened, Started)
        assert opened.hosts == ["gpu1", "gpu2"], "the third is down"
        assert opened.question
    assert not list((found.folder / "labs").iterdir())
