"""Settings that a case names: those that exist are known, a misspelt one is told with its place."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.config import Settings
from evals import case as cases
from evals import case_check, case_settings
from evals.case_commands import app
from evals.lab.package import PackageError, fetch
from tests.eval_parts import SMALL, case_file, recorded
from tests.test_eval_run import done

CACHE = Settings().cache_dir
OLLAMA = "threads-above-quota"


def fix(setting: str, **more: Any) -> dict[str, Any]:
    return {"id": "one", "setting": setting, "to": [1], **more}


def remarks(root: Path, **more: Any) -> list[case_settings.Remark]:
    """Return what is said of a small case with more fields."""
    path = case_file(root, **more) / "small.yaml"
    case = cases.load(str(path))
    where = case_check.scenario_of(case)
    assert not isinstance(where, str)
    return case_settings.remarks(case, path, where, CACHE)


def have(package: str, version: str) -> None:
    """Have the source of a package, or skip."""
    try:
        fetch(package, version, CACHE)
    except PackageError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def source() -> None:
    """Have the source of the small scenario's package."""
    have("sglang", "0.5.11")


@pytest.mark.parametrize("name", cases.names())
def test_every_setting_of_our_own_cases_is_known(name: str) -> None:
    case = cases.load(name)
    where = case_check.scenario_of(case)
    assert not isinstance(where, str)
    if where.package is not None:
        have(where.package.name, where.package.version)
    assert case_settings.remarks(case, cases.path_of(name), where, CACHE) == []


@pytest.mark.parametrize(
    ("field", "part", "says"),
    [
        (
            "fixes",
            fix("--pp-async-batch-dept"),
            "--pp-async-batch-dept is no setting of sglang 0.5.11",
        ),
        ("fixes", fix("pp_async_batch_dept"), "write --pp-async-batch-depth?"),
        ("fixes", fix("Environment=SGLANG_DG_CACHE_DRI"), "SGLANG_DG_CACHE_DRI is no setting"),
        ("fixes", fix("[Service] PrivateTemp"), "write PrivateTmp?"),
        (
            "forbidden",
            {"id": "one", "setting": "--cuda-graf-max-bs"},
            "write --cuda-graph-max-bs?",
        ),
    ],
)
def test_a_misspelt_setting_is_told_with_its_place(
    field: str, part: dict[str, Any], says: str, tmp_path: Path
) -> None:
    (found,) = remarks(tmp_path, **{field: [part]})
    path = tmp_path / "cases" / "small.yaml"
    line = next(n for n, row in enumerate(path.read_text().splitlines(), 1) if "setting:" in row)
    assert (
        found.unknown and found.line.startswith(f"{path}:{line}: {field}.0.setting: ") and says in found.line
    )


def test_a_setting_that_a_cause_names_is_held_to_the_same(tmp_path: Path) -> None:
    cause = {**SMALL["causes"][0], "settings": ["--disable-cuda-graph", "--disable-kuda-graph"]}
    (found,) = remarks(tmp_path, causes=[cause])
    assert "causes.0.settings.1: --disable-kuda-graph is no setting" in found.line


@pytest.mark.parametrize(
    "setting",
    [
        "--pp-async-batch-depth",
        "pp_async_batch_depth",
        "--pp-size=4",  # in the unit
        "Environment=SGLANG_DG_CACHE_DIR",
        "MemoryMax",
        "[Service] CPUQuota",
        "--shm-size",
        "CUDA_VISIBLE_DEVICES",  # in the source of the package
    ],
)
def test_every_usual_spelling_of_what_exists_is_known(setting: str, tmp_path: Path) -> None:
    assert remarks(tmp_path, fixes=[fix(setting)]) == []


@pytest.mark.parametrize(
    ("scenario", "setting"),
    [("kimi-k26-pp8", "NCCL_NO_SUCH_THING"), ("kimi-k26-pp8", "vm.no_such_thing"), (OLLAMA, "num_thraed")],
)
def test_what_nothing_can_tell_is_allowed_and_said(scenario: str, setting: str, tmp_path: Path) -> None:
    where = cases.load(OLLAMA).scenario if scenario == OLLAMA else scenario
    (found,) = remarks(tmp_path, scenario=where, fixes=[fix(setting)])
    assert not found.unknown and setting in found.line and "nothing here can tell" in found.line
    path = str(tmp_path / "cases" / "small.yaml")
    assert not [text for text in case_check.problems(path, CACHE) if setting in text]
    told = CliRunner().invoke(app, ["check", path])
    assert f"remark: {path}:" in told.stdout


def test_check_fails_for_a_misspelt_setting(tmp_path: Path) -> None:
    path = case_file(tmp_path, fixes=[fix("--pp-async-batch-dept")]) / "small.yaml"
    told = CliRunner().invoke(app, ["check", str(path), "--json"])
    shown = json.loads(told.stdout)
    assert told.exit_code == 1 and shown["remarks"] == []
    assert any("fixes.0.setting: --pp-async-batch-dept" in text for text in shown["problems"][str(path)])


def test_a_case_with_an_unknown_setting_does_not_count_and_the_others_go_on(tmp_path: Path) -> None:
    case_file(tmp_path)
    case_file(tmp_path, "misspelt", fixes=[fix("--pp-async-batch-dept")])
    asyncio.run(recorded(tmp_path))
    asyncio.run(recorded(tmp_path, "other", "misspelt"))
    found = done(tmp_path, "score")
    told = {result.case: result.error for result in found.results}
    assert told["small"] == ""
    path = tmp_path / "cases" / "misspelt.yaml"
    (line,) = [text for text in case_check.problems(str(path), CACHE) if "pp-async" in text]
    assert told["misspelt"] == line and line.startswith(f"{path}:")
