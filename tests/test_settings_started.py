"""Where an engine's own options begin: wrappers, containers, shells, variables."""

from __future__ import annotations

import pytest

from tools.contract import ToolError
from tools.settings.started_words import engine_words, filled, unfilled, words_for
from tools.settings.subject import words_of

SGLANG = "sglang.launch_server"


@pytest.mark.parametrize(
    ("line", "entry", "words"),
    [
        ("--model-path /m --tp 2", "", ["--model-path", "/m", "--tp", "2"]),
        ("python -u -m sglang.launch_server --tp 2", SGLANG, ["--tp", "2"]),
        ("numactl --cpunodebind=0 python3 -m sglang.launch_server --tp 2", SGLANG, ["--tp", "2"]),
        ("env A=b python3 -m sglang.launch_server --tp 2", SGLANG, ["--tp", "2"]),
        (
            "docker run --gpus all -p 1:1 lmsysorg/sglang:v1 python3 -m sglang.launch_server --tp 2",
            SGLANG,
            ["--tp", "2"],
        ),
        (
            "docker run --gpus all vllm/vllm-openai:v0.11.0 --model m -tp 2",
            "serve",
            ["--model", "m", "-tp", "2"],
        ),
        ("podman run --rm h:5000/a/vllm-openai-rocm@sha256:0 m", "serve", ["m"]),
        ("/bin/sh -c 'exec python3 -m sglang.launch_server --tp 2'", SGLANG, ["--tp", "2"]),
        ("bash -lc 'cd /x && vllm serve m -tp 2 2>&1 | tee /log'", "serve", ["m", "-tp", "2"]),
        ("python -m vllm.entrypoints.cli.main serve m -tp 2", "serve", ["m", "-tp", "2"]),
        ("/v/bin/python3 /v/bin/vllm serve m", "serve", ["m"]),
        ("uv run --with x vllm serve m", "serve", ["m"]),
        ("--served-model-name serve --tp 2", "", ["--served-model-name", "serve", "--tp", "2"]),
    ],
)
def test_the_options_are_those_after_what_starts_the_engine(line: str, entry: str, words: list[str]) -> None:
    assert engine_words(words_of(line)) == (entry, words)


def test_what_sglang_serve_takes_for_itself_is_left_out() -> None:
    words = ["sglang", "serve", "--model-type", "llm", "--tp", "2", "--model-type=llm"]
    assert words_for("sglang", words) == ("serve", ["--tp", "2"])
    assert words_for("vllm", ["serve", "--model-type", "x"])[1] == ["--model-type", "x"]


def test_a_line_that_starts_no_engine_is_said() -> None:
    with pytest.raises(ToolError, match="no engine is seen to be started by docker"):
        words_of("docker run --gpus all nginx --tp 2")


def test_variables_are_filled_in_as_systemd_does() -> None:
    words = ["--tp", "${TP}", "--model", "/m/$NAME-x", "$MORE", "$NONE", "%i"]
    given = {"TP": "4", "NAME": "a", "MORE": "--dp 2"}
    assert filled(words, given) == ["--tp", "4", "--model", "/m/a-x", "--dp", "2", "$NONE", "%i"]
    assert unfilled(filled(words, given)) == ["$NONE", "%i"]
    assert unfilled(["%Y-%m", '{"a": 1}', "100%"]) == []
