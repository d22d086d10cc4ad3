"""Cases on hosts of Ollama and llama.cpp, and of faults of hosts and units: patterns, leaks, coverage."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from evals import leaks
from evals.case import load
from evals.lab import scenario as scenarios
from tests.test_cases import ROOT, matches, says

PHRASES: dict[str, Any] = yaml.safe_load(
    (ROOT / "tests" / "data" / "case_paraphrases_hosts.yaml").read_text(encoding="utf-8")
)["cases"]


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_each_cause_is_recognised_in_other_words(name: str) -> None:
    case = load(name)
    assert set(PHRASES[name]["causes"]) == {cause.id for cause in case.causes}
    for known, texts in PHRASES[name]["causes"].items():
        for text in texts:
            named = {one.id for one in case.causes if says(one, text)}
            assert known in named, f"{known} is not recognised in {text!r}"
            wrong = [one.id for one in case.distractors if matches(one.any, text)]
            assert not wrong, f"{text!r} is taken for {wrong}"


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_denials_and_distractors_are_no_cause(name: str) -> None:
    case = load(name)
    distractors = {one.id: one for one in case.distractors}
    assert set(PHRASES[name]["distractors"]) == set(distractors)
    for known, texts in PHRASES[name]["distractors"].items():
        for text in texts:
            assert matches(distractors[known].any, text), f"{known} is not recognised in {text!r}"
    popular = [text for texts in PHRASES[name]["distractors"].values() for text in texts]
    denials = [text for texts in PHRASES[name]["denials"] for text in texts]
    for text in [*denials, *popular]:
        named = [cause.id for cause in case.causes if says(cause, text)]
        assert not named, f"{text!r} is taken for {named}"


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_no_prompt_holds_an_answer(name: str) -> None:
    assert [str(leak) for leak in leaks.check([name])] == []


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_a_host_tells_nothing_of_its_case(name: str) -> None:
    case = load(name)
    text = (scenarios.FOLDER / f"{case.scenario}.yaml").read_text(encoding="utf-8")
    told = [*(cause.says for cause in case.causes), case.symptom, case.description]
    assert not [words for words in told if words and words in text]


def test_on_some_hosts_nothing_may_be_changed() -> None:
    closed = {name for name in PHRASES if load(name).nothing_to_fix}
    assert closed >= {"power-brake", "card-fell-off", "second-tenant", "bandwidth-bound"}
    for name in closed:
        case = load(name)
        assert "abstention" in case.success
        assert set(case.outcomes) <= {"needs_person", "configuration_fine"}
