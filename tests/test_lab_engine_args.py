"""Effective settings come from the engine's own argument code and agree with what was recorded of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab.engine_args import Effective, LabArgumentError, derive, derive_cached
from evals.lab.engine_facts import Hardware
from evals.lab.engine_facts import Scenario as Facts
from evals.lab.package import fetch
from evals.lab.scenario import load
from evals.lab.truth import Record, compare, differences, read

TRUTH = Path(__file__).parent / "data" / "truth_sglang_0_5_11.json"
RECORDS = list(read(TRUTH))
FOUNDING = RECORDS[0]


@pytest.fixture(scope="module")
def sglang() -> Path:
    return fetch("sglang", "0.5.11", Settings().cache_dir) / "sglang"


def launch(package: Path, *flags: str) -> Effective:
    return derive(
        package,
        ["--model-path", "/models/kimi", "--pp-size", "8", *flags],
        hardware=FOUNDING.hardware,
        config=FOUNDING.models["kimi-k2.5"],
    )


@pytest.mark.lab
@pytest.mark.parametrize("record", RECORDS, ids=[record.ident for record in RECORDS])
def test_every_recorded_launch_line_agrees(sglang: Path, record: Record) -> None:
    assert differences(sglang, record) == []


def test_the_records_cover_refusals_and_starts() -> None:
    stages = [record.stage for record in RECORDS]
    assert {"parse", "post_init", "check", "done"} == set(stages)
    assert len(RECORDS) >= 25 and len({record.hardware.gpu_name for record in RECORDS}) >= 4


@pytest.mark.lab
def test_a_wrong_record_is_told(sglang: Path) -> None:
    wrong = Record(**{**_parts(FOUNDING), "fields": {"pp_size": 4, "tp_size": 1}})
    found = compare(sglang, iter([wrong]))
    assert found.agreeing == 0 and found.differences == [f"{wrong.ident}: pp_size is 8, recorded is 4"]


@pytest.mark.lab
@pytest.mark.parametrize(
    ("flags", "off", "said"),
    [
        ((), False, "Pipeline parallelism is incompatible with overlap schedule."),
        (("--disable-cuda-graph",), True, "Attention backend not specified. Use triton backend by default."),
        (("--enable-mis", "--attention-backend", "flashinfer"), True, "Chunked prefill is disabled"),
        (("--attention-backend", "torch_native"), True, "Cuda graph is disabled"),
    ],
)
def test_what_turns_cuda_graphs_off(sglang: Path, flags: tuple[str, ...], off: bool, said: str) -> None:
    got = launch(sglang, *flags)
    assert got.starts and got.fields["disable_cuda_graph"] is off
    assert got.fields["disable_piecewise_cuda_graph"] is True
    assert any(text.startswith(said) for _, text in got.logs), got.logs
    assert f"disable_cuda_graph={off}" in got.text


@pytest.mark.lab
def test_a_model_of_four_bit_weights_is_judged_without_its_kernels(sglang: Path) -> None:
    host = load("qwen72-a100")
    facts = Facts.from_json(host.facts(package_dir=str(sglang)))
    line = host.units["sglang.service"].launch
    assert line is not None
    flags = line.argv[3:]
    got = derive(sglang, flags, hardware=facts.hardware, config=facts.model.config, environ={})
    assert got.starts and got.fields["disable_cuda_graph"] is True
    assert any("torch native attention backend" in text for _, text in got.logs)
    assert any("awq_marlin" in text for _, text in got.logs)


def test_an_unknown_flag_is_refused_as_argparse_does(sglang: Path) -> None:
    got = launch(sglang, "--enable-warp-drive")
    assert (got.stage, got.exit_code) == ("parse", 2)
    assert got.output.startswith("usage: ")
    assert got.output.endswith("error: unrecognized arguments: --enable-warp-drive\n")


@pytest.mark.lab
def test_a_refusal_shows_the_engines_own_frames(sglang: Path) -> None:
    got = launch(sglang, "--enable-mis", "--attention-backend", "triton")
    assert (got.stage, got.exit_code, got.error) == ("post_init", 1, "AssertionError")
    assert "_handle_multi_item_scoring" in got.trace and "source_loader" not in got.trace


SMALL = """
import argparse
import dataclasses
import warp
from small.srt.words import choices, limit


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    mode: str = "a"
    limit: int = 0

    def __post_init__(self):
        if self.mode == "warp" and warp.drive().ready:
            self.limit = 9
        self.limit = limit(self.mode)

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path")
        parser.add_argument("--mode", choices=choices)

    def check_server_args(self):
        pass


def prepare_server_args(argv):
    parser = argparse.ArgumentParser(prog="small serve")
    ServerArgs.add_cli_args(parser)
    return ServerArgs(**vars(parser.parse_args(argv)))
"""

WORDS = """
import torch
from .more import *

never = torch.missing_operator.tables[3] + 1
choices = ["a"]
choices.append("warp")
if torch.cuda.get_device_capability() >= (12, 0):
    choices.append("new")


def limit(mode):
    return {"a": base(), "new": base() * 2}.get(mode, 0)
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    package = tmp_path / "small"
    (package / "srt").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('never imported whole')\n")
    (package / "srt" / "__init__.py").write_text("")
    (package / "srt" / "server_args.py").write_text(SMALL)
    (package / "srt" / "words.py").write_text(WORDS)
    (package / "srt" / "more.py").write_text("def base():\n    return 7\n")
    record = tmp_path / "small-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Requires-Dist: torch==2.0\nRequires-Dist: warp>=1\n")
    return package


def run_small(package: Path, *argv: str, capability: tuple[int, int] = (12, 0)) -> Effective:
    hardware = Hardware("GPU", 1, 1000, capability)
    return derive(package, ["--model-path", "m", *argv], hardware=hardware, config={})


def test_only_what_is_used_runs_and_order_is_kept(small: Path) -> None:
    assert run_small(small, "--mode", "a").fields == {"model_path": "m", "mode": "a", "limit": 7}
    assert run_small(small, "--mode", "new").fields["limit"] == 14
    old = run_small(small, "--mode", "new", capability=(9, 0))
    assert old.exit_code == 2 and "choose from" in old.output


def test_a_value_nobody_supplied_may_not_decide(small: Path) -> None:
    with pytest.raises(LabArgumentError, match=r"warp\.drive\(\)\.ready decides a setting"):
        run_small(small, "--mode", "warp")


def test_a_package_that_is_not_required_is_absent(small: Path) -> None:
    (small.parent / "small-1.0.dist-info" / "METADATA").write_text("Requires-Dist: torch==2.0\n")
    got = run_small(small, "--mode", "warp")
    assert (got.error, got.message) == ("ModuleNotFoundError", "No module named 'warp'")


def test_a_result_is_kept_by_digest(small: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    def ask(*argv: str) -> Effective:
        return derive_cached(
            cache,
            small,
            ["--model-path", "m", *argv],
            hardware=Hardware("GPU", 1, 1000, (12, 0)),
            config={},
            environ={"PWD": str(len(list(cache.glob("*"))))},
        )

    first = ask("--mode", "a")
    (small / "srt" / "more.py").write_text("def base():\n    return 8\n")
    assert ask("--mode", "a") == first, "the kept result is used"
    (kept,) = cache.glob("*.json")
    kept.write_text("half of a fi")
    assert ask("--mode", "a").fields["limit"] == 8, "an unreadable one is derived anew"
    ask("--mode", "new")
    assert len(list(cache.glob("*.json"))) == 2


def _parts(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}
