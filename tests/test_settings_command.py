"""`leadline settings` over an unpacked package: what it prints, and what it says of unusable input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from agent.errors import LeadlineError, UsageError
from agent.surfaces.settings_command import SettingsOptions, run
from evals.lab.package import PackageError, fetch
from tools.settings.text import WIDTH

FOUNDING = "--model-path /models/none-here --pp-size 8 --disable-cuda-graph --max-running-requests 8"
SM120 = ["gpu_arch=sm120", "gpu_count=8", "gpu_memory_mib=97887", "cuda_version=13.0"]


@pytest.fixture(scope="module")
def package() -> Path:
    try:
        return fetch("sglang", "0.5.11", Settings().cache_dir)
    except PackageError as error:
        pytest.skip(str(error))


def printed(capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    run(SettingsOptions(**options))
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def founding(package: Path) -> dict[str, Any]:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run(SettingsOptions(source=package, argv=FOUNDING, facts=SM120, as_json=True))
    view: dict[str, Any] = json.loads(out.getvalue())
    return view


def test_one_object_holds_every_setting(founding: dict[str, Any]) -> None:
    assert (founding["engine"], founding["version"], founding["refusal"]) == ("sglang", "0.5.11", "")
    assert founding["partial"] == "" and len(founding["settings"]) > 300
    keys = {"known", "value", "needs", "alternatives", "origin", "class", "steps", "definition"}
    for name, one in founding["settings"].items():
        assert keys <= set(one), name
        assert one["known"] or one["value"] is None, name
        for step in one["steps"]:
            assert {"origin", "value", "cite", "text", "conditions", "logged"} <= set(step), name


@pytest.mark.parametrize(
    ("name", "value", "kind", "line"),
    [
        ("disable_cuda_graph", True, "launch flag", None),
        ("disable_piecewise_cuda_graph", True, "silent override", "srt/server_args.py:1212@0.5.11"),
        ("disable_overlap_schedule", True, "logged override", "srt/server_args.py:3177@0.5.11"),
        ("pp_async_batch_depth", 0, "default", "srt/server_args.py:392@0.5.11"),
        ("pp_size", 8, "launch flag", None),
    ],
)
def test_the_founding_settings_are_explained(
    founding: dict[str, Any], name: str, value: Any, kind: str, line: str | None
) -> None:
    one = founding["settings"][name]
    assert (one["known"], one["value"], one["class"]) == (True, value, kind)
    (deciding,) = [step for step in one["steps"] if step.get("decides")]
    assert deciding["cite"] is None if line is None else deciding["cite"].startswith(line)


def test_a_named_setting_comes_with_its_assignments_and_readers(package: Path, capsys: Any) -> None:
    text = printed(
        capsys, source=package, argv=FOUNDING, facts=SM120, name="--disable-cuda-graph", as_json=True
    )
    (one,) = json.loads(text)["settings"].values()
    assert one["definition"]["cite"].startswith("srt/server_args.py:637@0.5.11#")
    fired = [row for row in one["overwrites"] if row["result"] == "fires"]
    assert fired == []
    (mis,) = [row for row in one["overwrites"] if row["cite"].startswith("srt/server_args.py:1276@")]
    assert mis["result"] == "cannot fire" and mis["decided_at"].startswith("srt/server_args.py:1271@")
    assert any(row["cite"].startswith("srt/model_executor/model_runner.py:2761@") for row in one["readers"])


def test_the_text_fits_eighty_columns_and_leads_with_the_value(package: Path, capsys: Any) -> None:
    for name in ("pp_async_batch_depth", None):
        text = printed(capsys, source=package, argv=FOUNDING, facts=SM120, name=name)
        assert max(map(len, text.splitlines())) <= WIDTH
        assert text.startswith("sglang 0.5.11\n")
    one = printed(capsys, source=package, argv=FOUNDING, facts=SM120, name="pp_async_batch_depth")
    assert one.splitlines()[2] == "pp_async_batch_depth = 0 [default]"
    assert "srt/managers/scheduler_pp_mixin.py:" in one


def test_a_launch_line_that_the_source_refuses_is_told(package: Path, capsys: Any) -> None:
    argv = "--model-path /m --pp-size eight"
    view = json.loads(printed(capsys, source=package, argv=argv, facts=SM120, as_json=True))
    assert view["accepted"] is False and "eight" in view["refusal"]
    assert "the engine refuses this launch line" in printed(capsys, source=package, argv=argv, facts=SM120)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "no host"),
        ({"host": "gpu1", "argv": "--x"}, "go with --source"),
        ({"host": "gpu1", "pid": 1, "unit": "a.service"}, "one process twice"),
        ({"source": Path("/no/such/folder")}, "is no folder"),
        ({"source": Path("/"), "pid": 3}, "go with a host"),
        ({"source": Path("/"), "argv": "'open"}, "cannot be split"),
        ({"source": Path("/"), "facts": ["colour=red"]}, "there is no fact colour"),
        ({"source": Path("/"), "environment": ["A"]}, "write NAME=VALUE"),
        ({"host": "gpu1", "lint": True, "suspects": True}, "two questions"),
        ({"host": "gpu1", "name": "pp_size", "lint": True}, "goes without"),
        ({"host": "gpu1", "launch_line": "--x"}, "goes with a host and --lint"),
    ],
)
def test_usage_errors_name_the_option(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(SettingsOptions(**options))


def test_a_name_that_is_no_setting_is_answered_with_the_nearest(package: Path) -> None:
    with pytest.raises(LeadlineError, match=r"no setting disable_cuda_grap; nearest: .*disable_cuda_graph"):
        run(SettingsOptions(source=package, argv=FOUNDING, name="disable_cuda_grap"))


def test_a_folder_without_an_engine_is_told(tmp_path: Path) -> None:
    with pytest.raises(LeadlineError, match="holds no sglang"):
        run(SettingsOptions(source=tmp_path, argv="--pp-size 8"))


def test_suspects_and_lint_are_other_questions_of_the_same_line(package: Path, capsys: Any) -> None:
    asked = {"source": package, "facts": SM120}
    text = printed(capsys, **asked, argv=FOUNDING, suspects=True)
    assert "disable_cuda_graph = True [off by flag]" in text
    assert max(map(len, text.splitlines())) <= WIDTH
    view = json.loads(printed(capsys, **asked, argv=FOUNDING + " --enforce-eager", lint=True, as_json=True))
    (problem,) = view["problems"]
    assert (problem["level"], problem["kind"], problem["flag"]) == (
        "error",
        "other_engine",
        "--enforce-eager",
    )
    assert "vLLM" in printed(capsys, **asked, argv=FOUNDING + " --enforce-eager", lint=True)
