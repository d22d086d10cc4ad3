"""``leadline case check`` tells what a program can see of what is wrong with a case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config import Settings
from evals import case as cases
from evals import case_check
from tests.in_process import leadline


def bad_case(tmp_path: Path, **more: Any) -> Path:
    """Write a case that is right but for what is given."""
    case = {
        "description": "x",
        "source": "made up",
        "difficulty": 1,
        "scenario": "kimi-k26-pp8",
        "symptom": "slow",
        "causes": [{"id": "a", "says": "Graphs are off.", "any": ["graphs?"]}],
        "evidence": [
            {
                "id": "reader",
                "kind": "source",
                "package": "sglang",
                "path": "model_executor/model_runner.py",
                "symbol": "ModelRunner.init_device_graphs",
            }
        ],
        "outcomes": ["diagnosed"],
    }
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump({**case, **more}))
    return file


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, None),
        ({"scenario": "nowhere"}, "no scenario 'nowhere'"),
        ({"scenario": "nowhere"}, ": scenario: no scenario 'nowhere'"),
        (
            {"scenario": "", "hosts": {"one": "kimi-k26-pp8", "two": "nowhere"}, "answer": {"turns": 1}},
            "hosts.two: no scenario 'nowhere'",
        ),
        (
            {
                "scenario": "vllm-kimi-k25",
                "evidence": [{"id": "v", "kind": "configuration", "quote": "NCCL_P2P_DISABLE"}],
                "fixes": [{"id": "p", "setting": "NCCL_P2P_DISABEL", "to": [0]}],
            },
            "fixes.0.setting: NCCL_P2P_DISABEL is no setting of",
        ),
        ({"scenario": "./there.yaml"}, "no scenario"),
        ({"colour": "red"}, "colour: there is no such field"),
        ({"causes": [{"id": "a", "says": "Off.", "any": ["("]}]}, "is no pattern"),
        ({"causes": [{"id": "a", "says": "Off.", "any": ["x*"]}]}, "stands in any text at all"),
        *(
            ({"causes": [{"id": "a", "says": "Off.", "any": [wild]}]}, "stands in any text at all")
            for wild in ("", ".", ".+", r"\w", "[a-z]+", "e|o", r"\b", r"\d")
        ),
        (
            {"evidence": [{"id": "r", "kind": "log", "quote": ".+"}]},
            "evidence.0.quote: '.+' stands in any text",
        ),
        ({"forbidden": [{"id": "f", "command": ".*"}]}, "forbidden.0.command: '.*' stands in any text"),
        ({"distractors": [{"id": "d", "any": ["graphs"]}]}, "stands in what the true cause a says"),
        (
            {"evidence": [{"id": "r", "kind": "source", "package": "sglang", "path": "no/such.py"}]},
            "has no file that ends in no/such.py",
        ),
        (
            {
                "evidence": [
                    {
                        "id": "r",
                        "kind": "source",
                        "package": "sglang",
                        "path": "model_executor/model_runner.py",
                        "symbol": "ModelRunner.no_such",
                    }
                ]
            },
            "defines no ModelRunner.no_such",
        ),
    ],
)
def test_check_tells_what_is_wrong_with_a_case(
    more: dict[str, Any], says: str | None, tmp_path: Path
) -> None:
    file = bad_case(tmp_path, **more)
    done = leadline("case", "check", str(file), "--json")
    (problems,) = json.loads(done.stdout)["problems"].values()
    assert done.returncode == (1 if says else 0), done.stdout
    assert says is None or any(says in one for one in problems), problems


def test_a_scenario_that_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    file = bad_case(tmp_path, scenario="nowhere")
    (told,) = case_check.problems(str(file), tmp_path)
    line = file.read_text().splitlines().index("scenario: nowhere") + 1
    assert told.startswith(f"{file}:{line}: scenario: no scenario 'nowhere'")


def test_a_file_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "torn.yaml"
    file.write_text("description: x\nsource: [a\n")
    (told,) = case_check.problems(str(file), tmp_path)
    assert told.startswith(f"{file}:3: is not YAML: ")


def test_our_own_cases_have_nothing_wrong_that_a_program_can_see() -> None:
    found = case_check.check(cases.names(), Settings().cache_dir)
    assert found and not [text for texts in found.values() for text in texts]


def test_a_scenario_beside_its_case_is_found_from_anywhere(tmp_path: Path) -> None:
    file = bad_case(tmp_path, scenario="../scenarios/mine.yaml")
    assert cases.load(str(file)).scenario == str(tmp_path.parent / "scenarios" / "mine.yaml")
