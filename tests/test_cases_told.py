"""Every case with causes: told in other words they are recognised, and nothing read gives them away."""

from __future__ import annotations

import pytest

from evals import leaks
from evals.case import load
from evals.lab import scenario as scenarios
from tests.paraphrases import mistaken, phrases, unrecognised

PHRASES = {
    name: told
    for file in ("case_paraphrases.yaml", "case_paraphrases_vllm.yaml", "case_paraphrases_hosts.yaml")
    for name, told in phrases(file).items()
}
ON_A_HOST = sorted(set(PHRASES) - {"founding-continued"})
"""Cases that begin on a host; the one left out goes on with a recording."""


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_each_cause_is_recognised_in_other_words(name: str) -> None:
    assert list(unrecognised(name, PHRASES[name])) == []


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_denials_and_distractors_are_no_cause(name: str) -> None:
    assert list(mistaken(name, PHRASES[name])) == []


@pytest.mark.parametrize("name", ON_A_HOST)
def test_no_prompt_holds_an_answer(name: str) -> None:
    assert [str(leak) for leak in leaks.check([name])] == []


@pytest.mark.parametrize("name", ON_A_HOST)
def test_a_host_tells_nothing_of_its_case(name: str) -> None:
    case = load(name)
    text = (scenarios.FOLDER / f"{case.scenario}.yaml").read_text(encoding="utf-8")
    told = [*(cause.says for cause in case.causes), case.symptom, case.description]
    assert not [words for words in told if words and words in text]


def test_on_some_hosts_nothing_may_be_changed() -> None:
    closed = {name for name in phrases("case_paraphrases_hosts.yaml") if load(name).nothing_to_fix}
    assert closed >= {"power-brake", "card-fell-off", "second-tenant", "bandwidth-bound"}
    for name in closed:
        case = load(name)
        assert "abstention" in case.success
        assert set(case.outcomes) <= {"needs_person", "configuration_fine"}
