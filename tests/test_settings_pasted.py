"""Launch lines as people paste them, over real releases, with little known of the host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from agent.surfaces.settings_command import SettingsOptions, run
from evals.lab.package import PackageError, fetch
from evals.truth import models
from tools.settings.host_facts import read_local
from tools.settings.types import Engine

H100 = ["gpu_arch=sm90", "gpu_count=8", "gpu_memory_mib=81559", "cuda_version=12.8"]


def package(engine: Engine, version: str) -> Path:
    try:
        return fetch(engine, version, Settings().cache_dir)
    except PackageError as error:
        pytest.skip(str(error))


def text_of(capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    run(SettingsOptions(**options))
    return capsys.readouterr().out


def view_of(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(text_of(capsys, as_json=True, **options))
    return view


def values(view: dict[str, Any], *names: str) -> list[tuple[Any, str]]:
    found = [view["settings"][name] for name in names]
    return [(one["value"] if one["known"] else "unknown", one["class"]) for one in found]


@pytest.mark.parametrize("version", ["0.11.0", "0.33.0"])
def test_a_vllm_line_is_read_where_nothing_of_the_host_is_known(
    capsys: pytest.CaptureFixture[str], version: str
) -> None:
    argv = "vllm serve org/m -tp 2 --enforce-eager --port 9000 --api-key s3cr3t"
    view = view_of(capsys, source=package("vllm", version), argv=argv)
    assert (view["accepted"], view["refusal"]) == (None, "")
    assert values(view, "tensor_parallel_size", "enforce_eager", "port") == [
        (2, "launch flag"),
        (True, "launch flag"),
        (9000, "launch flag"),
    ]
    assert view["settings"]["host"]["class"] == "default"
    assert "s3cr3t" not in json.dumps(view) and view["settings"]["api_key"]["known"]


def test_a_platform_that_the_package_does_not_bring_is_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of(capsys, source=package("vllm", "0.33.0"), argv="org/m -tp 2", facts=["platform=npu"])
    assert (view["accepted"], view["refusal"]) == (None, "") and "platform" in view["partial"]
    assert values(view, "tensor_parallel_size") == [("unknown", "unknown")]


def test_a_file_of_options_is_read_and_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text(
        "model-path: /models/none-here\n\ntp-size: 4\ndisable-radix-cache: true\ncuda-graph-bs: [1, 2]\n"
    )
    argv = f"--config {file} --tp-size 2"
    view = view_of(capsys, source=package("sglang", "0.5.11"), argv=argv, facts=H100)
    assert view["refusal"] == ""
    assert values(view, "tp_size", "disable_radix_cache", "cuda_graph_bs") == [
        (2, "launch flag"),
        (True, "launch flag"),
        ([1, 2], "launch flag"),
    ]
    asked = [(one["value"], one["way"], one["where"]) for one in view["settings"]["tp_size"]["requested"]]
    assert asked == [("4", "config file", f"{file}:3"), ("2", "command line", "")]


def test_a_file_of_options_counts_for_vllm(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("enforce-eager: true\nport: 9001\ntensor-parallel-size: 4\n")
    argv = f"serve org/m --config {file} --tensor-parallel-size 2"
    view = view_of(capsys, source=package("vllm", "0.33.0"), argv=argv, facts=H100)
    assert values(view, "tensor_parallel_size", "enforce_eager", "port") == [
        (2, "launch flag"),
        (True, "launch flag"),
        (9001, "launch flag"),
    ]


def test_the_first_option_of_a_line_counts_and_numbers_are_compared_as_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = "--mem-fraction-static .8 --pp-size=2 --cuda-graph-bs 1 2 4 --model-path /models/x --api-key k"
    view = view_of(capsys, source=package("sglang", "0.5.11"), argv=argv, facts=H100)
    assert values(view, "mem_fraction_static", "pp_size", "cuda_graph_bs") == [
        (0.8, "launch flag"),
        (2, "launch flag"),
        ([1, 2, 4], "launch flag"),
    ]
    assert values(view, "api_key") == [("[value hidden]", "launch flag")]
    assert view["settings"]["mem_fraction_static"]["requested"][0]["word"] == "--mem-fraction-static"


def test_a_line_that_asks_for_help_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of(capsys, source=package("sglang", "0.5.11"), argv="--help")
    assert view["accepted"] is False and "help" in view["refusal"]


def test_what_is_to_be_filled_in_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    source = package("sglang", "0.5.11")
    argv = "python3 -m sglang.launch_server --model-path /models/%i --tp ${TP}"
    assert "! stands in the line as it is: %i, ${TP};" in text_of(capsys, source=source, argv=argv)
    view = view_of(capsys, source=source, argv=argv, environment=["TP=4"])
    assert values(view, "tp_size") == [(4, "launch flag")]


def test_a_line_over_many_unknown_settings_stays_readable(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(capsys, source=package("vllm", "0.33.0"), argv="serve org/m -tp 2")
    assert len(text.splitlines()) < 40
    assert "more with --json" in text and "most of them need: config.json of org/m" in text


def test_a_folder_that_is_not_here_may_be_on_the_host(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not on this machine"):
        read_local(str(tmp_path / "Qwen2.5-7B"))
    assert read_local(str(tmp_path / "options.yaml")) is None
    (tmp_path / "config.json").write_text("{}")
    assert read_local(str(tmp_path / "tokenizer.model")) is None


def test_a_variable_is_what_is_given_else_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    source = package("sglang", "0.5.11")
    name, argv = "SGLANG_USE_AITER", "--model-path /models/none-here"
    assert values(view_of(capsys, source=source, argv=argv, name=name), name) == [(False, "default")]
    view = view_of(capsys, source=source, argv=argv, name=name, environment=[f"{name}=1"])
    assert values(view, name) == [("1", "environment")]


def test_an_option_that_means_the_opposite_is_not_advised(capsys: pytest.CaptureFixture[str]) -> None:
    argv = "vllm serve org/m --disable-log-requests"
    view = view_of(capsys, source=package("vllm", "0.33.0"), argv=argv, lint=True)
    (one,) = [row for row in view["problems"] if row["kind"] == "unknown_flag"]
    assert one["nearest"] == "--no-enable-log-requests" and "the opposite" in one["message"]


def test_short_and_dotted_options_of_vllm_are_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    models.write(tmp_path)
    argv = f"vllm serve {tmp_path / 'llama-8b'} -O2 -cc.cudagraph_mode=NONE"
    source = package("vllm", "0.33.0")
    view = view_of(capsys, source=source, argv=argv, facts=[*H100, "package.transformers=5.0.0"])
    assert values(view, "optimization_level") == [(2, "launch flag")]
    asked = view["settings"]["compilation_config.cudagraph_mode"]["requested"]
    assert [(one["word"], one["value"]) for one in asked] == [("-cc.cudagraph_mode", "NONE")]
    open_view = view_of(capsys, source=source, argv=argv, facts=H100)
    assert "package.transformers" in open_view["accepted_needs"]
