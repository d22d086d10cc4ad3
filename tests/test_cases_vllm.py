"""The cases on vLLM hosts: each has texts in other words, and what fixes nothing is known."""

from __future__ import annotations

from evals.case import load, names
from evals.lab import scenario as scenarios
from tests.paraphrases import phrases

PHRASES = phrases("case_paraphrases_vllm.yaml")


def test_every_case_of_a_vllm_host_has_paraphrases() -> None:
    hosts = {name: load(name).scenario for name in names()}
    packages = {name: scenarios.load(host).package for name, host in hosts.items() if host}
    assert {name for name, package in packages.items() if package and package.name == "vllm"} == set(PHRASES)


def test_three_cases_hold_nothing_to_fix() -> None:
    fine = {name for name in PHRASES if load(name).nothing_to_fix}
    assert fine == {"eager-needed-sm120", "moe-warning", "pipeline-one-request"}
    assert all("abstention" in load(name).success for name in fine)


def test_the_flag_that_is_still_needed_takes_both_causes() -> None:
    case = load("eager-needed-sm120")
    assert [cause.id for cause in case.causes if cause.required] == ["eager", "capture"]
    assert "fixed" not in case.outcomes and "configuration_fine" not in case.outcomes
