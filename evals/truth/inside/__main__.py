"""Serve requests on standard input: one JSON object a line, answered by one line each.

Torch, transformers and the like are imported once; every machine and environment gets a fork that imports the
engine, since its modules look at both when they are imported.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.metadata
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.truth.inside import lines, stubs, vllm_lines
from evals.truth.inside.lines import ENGINES, Place
from evals.truth.inside.pretended import Pretence, machine_of, write_smi

_SHARED = (
    *("torchvision", "triton", "numpy", "pydantic", "fastapi", "aiohttp", "requests", "uvicorn", "zmq"),
    *("PIL.Image", "scipy", "orjson", "huggingface_hub", "transformers", "transformers.configuration_utils"),
    *("transformers.modeling_utils", "transformers.models.auto", "torch.distributed", "IPython", "openai"),
)
"""What engines import anyway: once here is cheaper than once in every fork."""


class Server:
    """Hold what all forks share."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self.place = Place(setup["engine"], setup["site"], setup["models"], Path(setup["scratch"]))
        site = Path(self.place.site)
        importlib.import_module("torch")
        self.finder = stubs.install(site, self.place.scratch)
        stubs.declare_operators(site)
        stubs.add_old_names(self.place.scratch)
        self.pretence = Pretence(machine_of(setup["machine"]))
        self.pretence.install()
        write_smi(self.place.scratch / "bin")
        if self.place.engine == "vllm":
            vllm_lines.prepare(self.pretence, site)
        for name in _SHARED:
            with contextlib.suppress(Exception):
                importlib.import_module(name)

    def serve(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request in a fork; return an error in words, or an empty object."""
        said = self.place.scratch / "group"
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                lines.speaks_to(said)
                self._in_fork(request)
                code = 0
            except BaseException:  # noqa: BLE001 - said to who asked
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        return {"error": said.read_text("utf-8", "replace")[-3000:]} if status else {}

    def _in_fork(self, request: dict[str, Any]) -> None:
        environment = os.environ  # noqa: TID251 - the engine reads its process's environment
        self.pretence.machine = machine_of(request["machine"])
        environment.update(self.pretence.machine.variables | request["environment"])
        environment["PATH"] = f"{self.place.scratch / 'bin'}{os.pathsep}{environment['PATH']}"
        module: Any = ENGINES[self.place.engine]
        if self.place.engine == "vllm":
            vllm_lines.imported(self.pretence)
        for name in module.MODULES:
            importlib.import_module(name)
        with open(request["out"], "w", encoding="utf-8") as out:
            if request["do"] == "options":
                json.dump({"options": module.options(), "packages": _packages()}, out)
            else:
                lines.follow_all(self.place, request["lines"], out)
                (self.place.scratch / "stubs").write_text(" ".join(sorted(self.finder.used)))


def _packages() -> dict[str, str]:
    """Return the distributions that this process finds, with their versions."""
    found: dict[str, str] = {}
    for one in importlib.metadata.distributions():
        found.setdefault(one.metadata["Name"], one.version)
    return found


def main() -> int:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    gc.disable()  # forks are many and short: walking their objects would copy the memory they share
    server = Server(json.loads(sys.stdin.readline()))
    answers.write("{}\n")
    answers.flush()
    for text in sys.stdin:
        answers.write(json.dumps(server.serve(json.loads(text))) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
