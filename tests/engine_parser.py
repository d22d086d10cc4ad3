"""Parse launch lines by an engine's own parser: the truth that the lint is held to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

_PROGRAM = """
import argparse, contextlib, importlib, io, json, os, sys

request = json.load(sys.stdin)
sys.path.insert(0, request["root"])
out = os.dup(1)
os.dup2(2, 1)
if request["engine"] == "sglang":
    parser = argparse.ArgumentParser(prog="sglang serve")
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    before = []
else:
    platforms = importlib.import_module("vllm.platforms")
    platforms._current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()
    try:
        kind = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    except ModuleNotFoundError:
        kind = importlib.import_module("vllm.utils").FlexibleArgumentParser
    try:
        make = importlib.import_module("vllm.entrypoints.common.cli_args").make_arg_parser
    except ModuleNotFoundError:
        make = importlib.import_module("vllm.entrypoints.openai.cli_args").make_arg_parser
    parser = kind(prog="vllm")
    make(parser.add_subparsers(dest="subparser").add_parser("serve"))
    before = ["serve"]
answers = []
for words in request["lines"]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parser.parse_args(before + words)
        answers.append("")
    except SystemExit:
        answers.append((said.getvalue().strip().splitlines() or ["nothing"])[-1])
    except Exception as error:
        answers.append("%s: %s" % (type(error).__name__, error))
os.write(out, json.dumps(answers).encode())
os._exit(0)
"""


def parse_all(interpreter: Path, engine: str, package: Path, lines: Sequence[Sequence[str]]) -> list[str]:
    """Return for each launch line what the engine's parser says against it, empty when it takes it."""
    request = {"engine": engine, "root": str(package.parent), "lines": [list(line) for line in lines]}
    done = subprocess.run(
        [interpreter, "-I", "-B", "-c", _PROGRAM],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode or not done.stdout:
        last = done.stderr.strip().splitlines()[-1:] or ["no word"]
        pytest.skip(f"the ground truth's environment does not carry this {engine}: {last[0][:200]}")
    found: list[str] = json.loads(done.stdout)
    return found
