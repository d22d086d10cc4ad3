"""Asking an engine's own argument class: the one command that may, its answers, and a released engine."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab.package import fetch
from tests.engine_interpreter import build
from tools.contract import Capture, Result, ToolError
from tools.local import LocalHost
from tools.policy_question import START, judge_question, program, question_argv
from tools.settings.ask import Answer, Question, ask, compare, read_answer, request_of, shown
from tools.settings.types import Effective, Evaluation

PYTHON = str(Path(sys.executable).resolve())
PACKAGES = Settings().cache_dir / "truth-env" / "venv" / "lib" / "python3.11" / "site-packages"
"""Where the ground truth's tool installs torch for CPUs and what engines import."""
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
SMALL_ENGINE = """
import os, sys
{start}
class Settings:
    def check_server_args(self):
        if self.values["pp_size"] == 3:
            raise ValueError("layers do not divide by 3")
    def resolved_dict(self):
        return self.values


def prepare_server_args(words):
    import argparse
    parser = argparse.ArgumentParser(prog="small serve")
    parser.add_argument("--pp-size", "--pipeline", type=int, default=1)
    parser.add_argument("--model-path")
    found = parser.parse_args(words)
    settings = Settings()
    settings.values = dict(vars(found), seen=os.environ.get("CUDA_VISIBLE_DEVICES"),
                           secret=os.environ.get("HF_TOKEN"), given=os.environ.get("SGLANG_X"),
                           path=os.environ.get("PYTHONPATH"), api_key="k", infinite=float("inf"))
    print("a line on standard output")
    if found.model_path == "absent":
        open("/nowhere/config.json")
    if found.model_path == "forever":
        while True: pass
    if found.model_path == "large":
        bytearray(20 << 30)
    return settings
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Write a package that is built as SGLang is, and return its folder."""
    return write_small(tmp_path, "")


def write_small(folder: Path, start: str) -> Path:
    package = folder / "sglang"
    (package / "srt").mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '9.9'\n")
    (package / "srt" / "__init__.py").write_text("")
    (package / "srt" / "server_args.py").write_text(SMALL_ENGINE.format(start=start))
    return package


def question(package: Path, *words: str, **environment: str) -> Question:
    argv = (PYTHON, "-m", "sglang.launch_server", *words)
    return Question("sglang", PYTHON, str(package), argv, environment)


async def asked(package: Path, *words: str, **environment: str) -> Answer:
    return await ask(LocalHost("local"), question(package, *words, **environment), consent=True)


async def test_without_consent_nothing_runs(small: Path) -> None:
    with pytest.raises(ToolError, match="needs the site's consent: LEADLINE_TOOLS__ASK_ENGINE=true"):
        await ask(LocalHost("local"), question(small), consent=False)
    assert Settings().tools.ask_engine is False


async def test_a_line_is_accepted_with_its_values(small: Path) -> None:
    answer = await asked(
        small,
        "--pipeline",
        "2",
        SGLANG_X="1",
        HF_TOKEN="hf_secret",
        PYTHONPATH="/tmp",
        CUDA_VISIBLE_DEVICES="0,1",
    )
    assert (answer.outcome, answer.stage, answer.version) == ("accepted", "done", "9.9"), answer
    assert answer.values == {
        "pp_size": 2,
        "model_path": None,
        "seen": "0,1",
        "given": "1",
        "path": None,
        "infinite": "inf",
    }  # no api_key, no secret


async def test_the_engine_s_own_words_refuse(small: Path) -> None:
    wrong = await asked(small, "--pp-size", "eight")
    assert wrong.outcome == "refused" and wrong.stage == "parse"
    assert wrong.words == "small serve: error: argument --pp-size/--pipeline: invalid int value: 'eight'"
    checked = await asked(small, "--pp-size", "3")
    assert (checked.outcome, checked.stage) == ("refused", "check")
    assert checked.words == "layers do not divide by 3" and checked.where == "srt/server_args.py:7"


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("import torch_of_nowhere", "ModuleNotFoundError: No module named 'torch_of_nowhere'"),
        ("raise ValueError('kernels are missing')", "ValueError: kernels are missing"),
        ("sys.exit(2)", "SystemExit"),
    ],
)
async def test_an_engine_that_does_not_load_was_not_asked(tmp_path: Path, start: str, words: str) -> None:
    answer = await asked(write_small(tmp_path, start), "--pp-size", "2")
    assert answer.outcome == "not_asked" and answer.words.startswith(words), answer


async def test_what_says_nothing_of_the_line_is_no_refusal(small: Path) -> None:
    absent = await asked(small, "--model-path", "absent")
    assert absent.outcome == "not_asked" and absent.words.startswith("FileNotFoundError")
    large = await asked(small, "--model-path", "large")
    assert large.outcome == "not_asked" and large.words.startswith("MemoryError")
    nowhere = await ask(
        LocalHost("local"), Question("sglang", "/nowhere/python3", None, ("--pp-size", "2")), consent=True
    )
    assert nowhere.outcome == "not_asked" and "/nowhere/python3" in nowhere.words


async def test_endless_argument_code_is_ended(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.settings.ask.SECONDS", 2)
    answer = await asked(small, "--model-path", "forever")
    assert answer.outcome == "not_asked" and "did not come to an end" in answer.words


def test_only_exactly_this_command_is_allowed() -> None:
    argv = question_argv("/opt/venv/bin/python3", "/usr/local/cuda/lib64:/opt/lib")
    assert judge_question(argv, consent=True).verdict == "allow"
    assert judge_question(question_argv("/root/.pyenv/bin/python3.11"), consent=True).verdict == "allow"
    assert judge_question(argv, consent=False).verdict == "ask"


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", START, "ask", "/opt/bin/python3", "-I", "-B", "-c", program() + "\nimport os"],
        ["sh", "-c", START, "ask", "/opt/bin/python3", "-B", "-c", program()],
        ["sh", "-c", START + ";reboot", "ask", "/opt/bin/python3", "-I", "-B", "-c", program()],
        question_argv("python3"),
        question_argv("/opt/../tmp/python3"),
        question_argv("/bin/bash"),
        question_argv("/tmp/a b/python3"),
        question_argv("/opt/python3", "/lib LD_PRELOAD=/tmp/x.so"),
        ["sh", "-c", START, "ask", "LD_PRELOAD=/tmp/x.so", "/opt/python3", "-I", "-B", "-c", program()],
        [],
    ],
)
def test_any_other_command_is_refused_even_with_consent(argv: list[str]) -> None:
    assert judge_question(argv, consent=True).verdict == "refuse"


def test_the_program_is_read_by_older_interpreters() -> None:
    ast.parse(program(), feature_version=(3, 9))


def test_the_request_holds_no_secret_and_goes_nowhere_else() -> None:
    environment = {
        "HF_TOKEN": "x",
        "SGLANG_API_KEY": "y",
        "SGLANG_ENABLE_SPEC_V2": "1",
        "LD_PRELOAD": "/x.so",
    }
    request = request_of(Question("sglang", "/p/python", None, ("--pp-size", "2"), environment))
    assert request["environment"]["SGLANG_ENABLE_SPEC_V2"] == "1"
    assert not {"HF_TOKEN", "SGLANG_API_KEY", "LD_PRELOAD"} & set(request["environment"])
    assert request["words"] == ["--pp-size", "2"] and request["environment"]["HF_HUB_OFFLINE"] == "1"


def result(stdout: bytes, **changes: Any) -> Result:
    given: dict[str, Any] = {"outcome": "exited", "exit_code": 0, "stderr": Capture(), **changes}
    return Result(
        host="h",
        argv=("x",),
        signal=None,
        stdout=Capture(head=stdout, total=len(stdout)),
        truncated=False,
        started_at=datetime.now(UTC),
        duration_s=1.0,
        **given,
    )


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"stage": 1', b'{"stage": "done", "version": ""}', b"\xff"]
)
def test_a_broken_answer_is_none(data: bytes) -> None:
    assert read_answer(result(data)).outcome == "not_asked"


def test_a_killed_interpreter_gave_no_answer() -> None:
    ended = result(b"", outcome="timed_out_killed", exit_code=None)
    assert read_answer(ended) == Answer("not_asked", "the interpreter gave no answer (timed_out_killed)")


def told(**failure: Any) -> bytes:
    base = {"error": "E", "bases": ["E"], "code": None, "words": "", "where": "a.py:1", "own": True} | failure
    answer = {"stage": "derive", "version": "1", "notes": [], "devices": 0, "failure": base}
    return json.dumps(answer).encode()


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        ({"bases": ["ValueError"], "words": "not both"}, "refused"),
        ({"bases": ["ValueError"], "words": "not both", "own": False}, "not_asked"),
        ({"bases": ["ValueError"], "words": "no GPU found"}, "not_asked"),
        ({"bases": ["RuntimeError"], "words": "no CUDA context is made"}, "not_asked"),
        ({"bases": ["RuntimeError"], "words": "both cannot be"}, "refused"),
        ({"bases": ["KeyError"], "words": "'x'"}, "not_asked"),
        ({"bases": ["ValidationError", "ValueError"], "words": "1 error", "own": False}, "refused"),
        ({"bases": ["OSError"], "words": "no config.json"}, "not_asked"),
    ],
)
def test_only_the_engine_s_own_code_refuses(failure: dict[str, Any], outcome: str) -> None:
    assert read_answer(result(told(**failure))).outcome == outcome


def evaluation(settings: Mapping[str, Any], accepted: bool | None = True) -> Evaluation:
    found = {name: Effective(name, value is not ..., value) for name, value in settings.items()}
    return Evaluation(found, accepted, refusal="" if accepted else "pp and mis")


def test_disagreements_are_named() -> None:
    answer = Answer("accepted", values={"a": 1, "b": [1, 2], "c": True, "d": {"1": [True]}})
    same = evaluation({"a": 1.0, "b": (1, 2), "c": True, "d": {1: (True,)}, "e": 5})
    assert compare(answer, same) == ()
    other = compare(answer, evaluation({"a": True, "b": (1,), "c": ..., "d": {}}, accepted=False))
    assert [d.what for d in other] == ["the launch line", "a", "b", "d"]
    assert other[0].source == "refused: pp and mis"
    assert compare(Answer("not_asked", "no torch"), evaluation({}, accepted=False)) == ()
    assert json.dumps(shown(answer, other))


@pytest.mark.slow
async def test_a_released_engine_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang 0.5.23: its argument code runs, its kernels are empty modules, its GPUs an nvidia-smi's."""
    if not (PACKAGES / "torch").is_dir() or not (PACKAGES / "transformers").is_dir():
        pytest.skip("no interpreter with torch: the ground truth's environment is not installed")
    monkeypatch.setattr("tools.settings.ask.SECONDS", 400)  # other tests may run beside this one
    source = fetch("sglang", "0.5.23", Settings().cache_dir) / "sglang"
    package = tmp_path / "package" / "sglang"
    mirror(source, package)
    (package / "kernels" / "jit" / "include").mkdir()  # headers, which the cache leaves out
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(MODEL))
    interpreter = str(build(tmp_path / "venv", PACKAGES))

    async def put(*words: str) -> Answer:
        argv = (interpreter, "-m", "sglang.launch_server", "--model-path", str(model), *words)
        return await ask(LocalHost("l"), Question("sglang", interpreter, str(package), argv), consent=True)

    fine = await put("--pp-size", "2", "--chunked-prefill-size", "2048", "--disable-cuda-graph")
    if fine.outcome == "not_asked" and "Error" in fine.words.partition(":")[0]:
        pytest.skip(f"the ground truth's environment does not carry SGLang 0.5.23: {fine.words}")
    assert fine.outcome == "accepted" and fine.version == "0.5.23"
    assert fine.values["pp_size"] == 2 and fine.values["chunked_prefill_size"] == 2048
    assert fine.values["device"] == "cuda" and fine.values["disable_overlap_schedule"] is True
    assert fine.notes == ("questions about GPUs were answered by nvidia-smi: 2 of them",)
    wrong = await put("--pp-size", "eight")
    assert wrong.outcome == "refused" and wrong.words.endswith("invalid int value: 'eight'")


def mirror(source: Path, folder: Path) -> None:
    """Make a folder of links to the files of another."""
    for where, _, names in os.walk(source):
        below = folder / Path(where).relative_to(source)
        below.mkdir(parents=True)
        for name in names:
            (below / name).symlink_to(Path(where) / name)
