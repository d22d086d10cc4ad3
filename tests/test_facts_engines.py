"""Ollama and llama.cpp among the engines that facts and process find, with real processes on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import facts, facts_parse, facts_view, launch_line
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolSettings
from tools.facts_view import Seen
from tools.local import LocalHost
from tools.process import load_process

SERVED = ["/usr/local/bin/ollama", "serve"]
RUNNER = ["/usr/local/bin/ollama", "runner", "--threads", "8", "--port", "36591"]
WAITS = "import signal, sys\nprint('up', flush=True)\nsignal.pause()\n"
RUNS = f"import os\nif os.fork() == 0:\n    os.execv({sys.executable!r}, {RUNNER!r})\nos.wait()\n"
LLAMA = ["/opt/llama/bin/llama-server", "wait.py", "-m", "/models/a.gguf", "-ngl", "20", "--port", "8123"]
"""The second word is the file that the stand-in runs, here where an option would stand."""


@contextlib.contextmanager
def running(folder: Path, argv: list[str], **environment: str) -> Iterator[int]:
    """Start an interpreter under another program's name and command line."""
    with subprocess.Popen(
        argv,
        executable=sys.executable,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    for name in ("runner", "show", "wait.py"):
        (folder / name).write_text(WAITS)
    (folder / "serve").write_text(RUNS)
    return folder


@pytest.fixture(scope="module")
def rows(folder: Path) -> Iterator[dict[int, dict[str, Any]]]:
    """Return the engines that one run of the script finds, by process."""
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(
            running(folder, SERVED, OLLAMA_HOST="http://127.0.0.1:11500/", OLLAMA_API_KEY="hush")
        )
        stack.enter_context(running(folder, [SERVED[0], "show"]))
        llama = stack.enter_context(
            running(folder, LLAMA, LLAMA_ARG_FLASH_ATTN="on", GGML_CUDA_DISABLE_GRAPHS="1", PRIVATE="hush")
        )
        done = subprocess.run(["sh", "-c", facts.script(), "x", ""], capture_output=True, check=True)
        gathered = facts_parse.decode(done.stdout)
        found = {row["pid"]: row for row in facts_view.engines_view(gathered, Seen())}
        yield {0: found[served], 1: found[llama], **found}


def test_ollama_is_an_engine_with_its_runners(rows: dict[int, dict[str, Any]]) -> None:
    served = rows[0]
    assert (served["engine"], served["port"]) == ("ollama", 11500)
    assert served["environ"]["OLLAMA_HOST"] == "http://127.0.0.1:11500/"
    assert served["environ"]["OLLAMA_API_KEY"] == "[value not read]"
    (runner,) = served["runners"]
    assert runner["argv"] == RUNNER
    assert runner["pid"] not in rows, "a runner is told with its server"


def test_llama_server_is_an_engine_with_its_options_by_their_long_names(
    rows: dict[int, dict[str, Any]],
) -> None:
    llama = rows[1]
    assert (llama["engine"], llama["port"], llama["version"]) == ("llama.cpp", 8123, None)
    assert llama["flags"] == {"model": "/models/a.gguf", "n_gpu_layers": "20", "port": "8123"}
    assert llama["environ"] == {"LLAMA_ARG_FLASH_ATTN": "on", "GGML_CUDA_DISABLE_GRAPHS": "1"}


def test_what_only_asks_ollama_is_no_engine(rows: dict[int, dict[str, Any]]) -> None:
    assert [row for row in rows.values() if row["argv"][1:2] == ["show"]] == []


@pytest.mark.parametrize(
    ("argv", "engine"),
    [
        (["ollama", "serve"], "ollama"),
        (["/usr/bin/ollama", "run", "qwen3"], None),
        (["ollama"], None),
        (["/opt/llama.cpp/build/bin/llama-server", "-m", "x.gguf"], "llama.cpp"),
        (["/usr/bin/python3", "-m", "llama_cpp.server", "--model", "x.gguf"], "llama.cpp"),
        (["/usr/bin/llama-cli", "-m", "x.gguf"], None),
        (["sh", "-c", "ollama serve"], None),
    ],
)
def test_the_engine_of_a_command_line(argv: list[str], engine: str | None) -> None:
    assert launch_line.engine_of(argv) == launch_line.engine_of(tuple(argv)) == engine


@pytest.mark.parametrize(
    ("given", "port"),
    [
        ("", 11434),
        ("0.0.0.0", 11434),
        ("0.0.0.0:8000", 8000),
        (":9000", 9000),
        ("https://ollama.example/", 11434),
        ("[::1]:7000", 7000),
        ("::1", 11434),
    ],
)
def test_the_port_of_ollama_stands_in_its_environment(given: str, port: int) -> None:
    assert launch_line.port_of({}, "ollama", {"OLLAMA_HOST": given}) == port


@pytest.mark.parametrize(
    ("argv", "environ", "engine", "port"),
    [
        (SERVED, {"OLLAMA_HOST": "127.0.0.1:11501"}, "ollama", 11501),
        (LLAMA, {}, "llama.cpp", 8123),
    ],
)
async def test_a_process_is_described_and_asked_nothing(
    folder: Path, tmp_path: Path, argv: list[str], environ: dict[str, str], engine: str, port: int
) -> None:
    store = ArtifactStore(tmp_path / "store")
    host = LocalHost("here")
    ctx = ToolContext("t1", {"here": host}, store, lambda data: data, ToolSettings())
    with running(folder, argv, PYTHONPATH=os.fspath(folder), **environ) as pid:
        found = await load_process(ctx, host, pid)
    assert (found.engine, found.port, found.pid) == (engine, port, pid)
    assert (found.package_root, found.effective) == (None, {})
