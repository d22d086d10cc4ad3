"""The cases on vLLM hosts: their patterns tell causes apart, and no prompt holds an answer."""

from __future__ import annotations

import pytest

from evals import leaks
from evals.case import load, names
from evals.lab import scenario as scenarios
from tests.paraphrases import mistaken, phrases, unrecognised

PHRASES = phrases("case_paraphrases_vllm.yaml")


def test_every_case_of_a_vllm_host_has_paraphrases() -> None:
    hosts = {name: load(name).scenario for name in names()}
    packages = {name: scenarios.load(host).package for name, host in hosts.items() if host}
    assert {name for name, package in packages.items() if package and package.name == "vllm"} == set(PHRASES)


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_each_cause_is_recognised_in_other_words(name: str) -> None:
    assert list(unrecognised(name, PHRASES[name])) == []


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_denials_and_distractors_are_no_cause(name: str) -> None:
    assert list(mistaken(name, PHRASES[name])) == []


def test_three_cases_hold_nothing_to_fix() -> None:
    fine = {name for name in PHRASES if load(name).nothing_to_fix}
    assert fine == {"eager-needed-sm120", "moe-warning", "pipeline-one-request"}
    assert all("abstention" in load(name).success for name in fine)


def test_the_flag_that_is_still_needed_takes_both_causes() -> None:
    case = load("eager-needed-sm120")
    assert [cause.id for cause in case.causes if cause.required] == ["eager", "capture"]
    assert "fixed" not in case.outcomes and "configuration_fine" not in case.outcomes


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_no_prompt_holds_an_answer(name: str) -> None:
    assert [str(leak) for leak in leaks.check([name])] == []


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_a_host_tells_nothing_of_its_case(name: str) -> None:
    case = load(name)
    text = (scenarios.FOLDER / f"{case.scenario}.yaml").read_text(encoding="utf-8")
    told = [*(cause.says for cause in case.causes), case.symptom, case.description]
    assert not [words for words in told if words in text]
