"""Follow launch lines one by one, each in a fork of its own, so that none sees what another left behind."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from evals.truth.inside import sglang_lines, vllm_lines
from evals.truth.inside.plain import keep_logs, raised, without_places

ENGINES = {"sglang": sglang_lines, "vllm": vllm_lines}
LIMIT_S = 120
_WARMED = 3
"""After so many lines, what lines import lazily has been imported once for all."""
_LAZY = ("transformers", "sglang", "vllm", "compressed_tensors", "pydantic")
_BY_IMPORTS = ("DG_JIT_", "TLLM_LOG_LEVEL", "AITER_", "PRETENDED_", "PYTHONPATH")
"""Variables that kernels' modules set when they are imported; argument code does not."""


@dataclass(frozen=True, slots=True)
class Place:
    """Hold where one package and the models lie."""

    engine: str
    site: str
    models: str
    scratch: Path


def follow_all(place: Place, lines: list[dict[str, Any]], out: IO[str]) -> None:
    """Write one record for each line."""
    for number, line in enumerate(lines):
        answer, said, met = (place.scratch / name for name in ("answer", "said", "met"))
        for path in (answer, met):
            path.unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            try:
                _child(place, line, answer, said, met if number < _WARMED else None)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        if met.exists():
            _import(json.loads(met.read_text("utf-8")))
        out.write(answer.read_text("utf-8") if answer.exists() else _died(line, said))
        out.flush()


def _died(line: Mapping[str, Any], said: Path) -> str:
    tail = said.read_text("utf-8", "replace")[-800:] if said.exists() else ""
    error = {"type": "WorkerDied", "message": tail, "where": None, "innermost": None}
    return json.dumps({**line, "ok": False, "stage": "worker", "exception": error, "logs": []}) + "\n"


def _import(names: list[str]) -> None:
    for name in names:
        if name.partition(".")[0] in _LAZY:
            with contextlib.suppress(BaseException):
                importlib.import_module(name)


def _child(place: Place, line: dict[str, Any], answer: Path, said: Path, met: Path | None) -> None:
    known = set(sys.modules)
    speaks_to(said)
    signal.alarm(LIMIT_S)
    record = _followed(place, line)
    sys.stdout.flush()
    sys.stderr.flush()
    error = record.get("exception")
    if error and error["type"] == "SystemExit":
        words = [text for text in said.read_text("utf-8", "replace").splitlines() if "error:" in text]
        error["message"] = words[-1][:1500] if words else error["message"]
    text = json.dumps(record, separators=(",", ":"))
    answer.write_text(without_places(text, place.models, place.site) + "\n", encoding="utf-8")
    if met is not None:
        met.write_text(json.dumps(sorted(set(sys.modules) - known)), encoding="utf-8")


def speaks_to(path: Path) -> None:
    """Let this process's standard output and error go to a file."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(target, 1)
    os.dup2(target, 2)


def _followed(place: Place, line: dict[str, Any]) -> dict[str, Any]:
    """Return the record of one line: what the argument code ended with, said and set."""
    logs: list[list[str]] = []
    environment = os.environ  # noqa: TID251 - what the argument code sets of it is part of the record
    before = dict(environment)
    random.seed(0)
    module: Any = ENGINES[place.engine]
    held = module.Line(place.site)
    result: dict[str, Any] = {}
    keep_logs(logs, place.site)
    try:
        held.follow([word.replace("{M}", place.models) for word in line["argv"]])
        result = held.record
    except SystemExit as stop:
        error = {"type": "SystemExit", "message": str(stop), "where": None, "innermost": None}
        result = {"ok": False, "stage": held.stage, "exception": error}
    except BaseException as error:  # noqa: BLE001 - whatever it raises is the answer
        result = {"ok": False, "stage": held.stage, "exception": raised(error, place.site)}
    changed = {
        name: value
        for name, value in environment.items()
        if before.get(name) != value and not name.startswith(_BY_IMPORTS)
    }
    return {**line, **result, "logs": logs, "env_set": changed}
