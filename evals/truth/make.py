"""Make records: ask the separate environment, one process at a time, and write what it answers."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from agent.errors import LeadlineError
from evals.truth import environment, lines, machines, models, wheels
from evals.truth.inside.pretended import values_of
from evals.truth.lines import Line
from tools.settings.types import Engine

Progress = Callable[[str], None]
_DROPPED: Final = ("SGLANG", "SGL_", "VLLM", "NCCL", "CUDA", "HF_", "TRANSFORMERS_", "PYTHON", "LEADLINE")
_FIXED: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_NO_USAGE_STATS": "1",
    "PYTHONHASHSEED": "0",
}


class RecordingError(LeadlineError):
    """Report that the separate environment did not answer."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold what records are wanted; ``count`` is that of the random lines."""

    engine: Engine
    version: str
    seed: str
    count: int
    cache_dir: Path
    transformers: str = ""

    @property
    def folder(self) -> Path:
        """Return where records lie, and ``models`` below it."""
        return self.cache_dir / "truth"

    @property
    def out(self) -> Path:
        """Return the file of these records."""
        return self.folder / f"{self.engine}-{self.version}-{self.seed}.jsonl.gz"


def make(asked: Asked, progress: Progress) -> Path:
    """Record what the engine's own argument code makes of launch lines; return the file.

    The engine's code is run: only in the separate environment, and only because a person asked for it.
    """
    unpacked = wheels.source(asked.engine, asked.version, asked.cache_dir, progress)
    base = asked.cache_dir / "truth-env"
    site = wheels.laid_out(unpacked, base / "src")
    python = environment.interpreter(base, progress)
    target = environment.transformers(base, site, progress, asked.transformers)
    models.write(asked.folder / "models")
    with (
        tempfile.TemporaryDirectory(prefix="leadline-truth-") as scratch,
        _process(asked, python, site, target, Path(scratch)) as ask,
    ):
        found = json.loads(ask({"do": "options", **_group(machines.DEFAULT, {})}))
        seed = f"{asked.seed}/{asked.engine}/{asked.version}"
        wanted = lines.chosen(asked.engine)
        wanted += lines.drawn(asked.engine, seed, asked.count, found["options"])
        records = dict(_records(asked, wanted, ask, progress))
    _write(asked.out, records, found["packages"])
    return asked.out


def _write(out: Path, records: Mapping[int, Mapping[str, Any]], packages: Mapping[str, str]) -> None:
    """Write the records in the order of their lines; the first also says what was installed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_suffix(".part")
    with gzip.GzipFile(draft, "wb", mtime=0) as file:
        for number in sorted(records):
            row = {**records[number], "packages": packages} if number == 0 else records[number]
            file.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
    draft.replace(out)


Ask = Callable[[Mapping[str, Any]], str]


def _group(machine: str, variables: Mapping[str, str]) -> dict[str, Any]:
    return {"machine": values_of(machines.MACHINES[machine]), "environment": dict(variables)}


def _records(
    asked: Asked, wanted: Sequence[Line], ask: Ask, progress: Progress
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line's number and record, machine by machine: the engine is imported once for each."""

    def place(numbered: tuple[int, Line]) -> str:
        return json.dumps([numbered[1].machine, sorted(numbered[1].environment.items())])

    done = 0
    for _, members in groupby(sorted(enumerate(wanted), key=place), key=place):
        group = list(members)
        first = group[0][1]
        rows = [_row(asked, number, line) for number, line in group]
        text = ask({"do": "lines", "lines": rows, **_group(first.machine, first.environment)})
        for (number, line), record in zip(group, map(json.loads, text.splitlines()), strict=True):
            yield number, record | {"hardware": _hardware(line.machine)}
        done += len(group)
        progress(f"{asked.engine} {asked.version}: {done} of {len(wanted)} lines")


def _row(asked: Asked, number: int, line: Line) -> dict[str, Any]:
    return {
        "id": f"{asked.engine}-{asked.version}-{asked.seed}-{number:03d}",
        "engine": asked.engine,
        "version": asked.version,
        "note": None,
        "model": line.model,
        "model_dir": f"{{M}}/{line.model}",
        "argv": line.full(asked.engine),
        "env": dict(line.environment),
    }


def _hardware(name: str) -> dict[str, Any]:
    machine = machines.MACHINES[name]
    return {
        "id": machine.id,
        "name": machine.name,
        "mem_mib": machine.memory_mib,
        "capability": list(machine.capability),
        "count": machine.count,
        "torch_version_cuda": machine.cuda,
    }


@contextmanager
def _process(asked: Asked, python: Path, site: Path, target: Path, scratch: Path) -> Iterator[Ask]:
    """Start the process that runs the engine's code; give a function that asks it."""
    (scratch / "evals").mkdir()
    (scratch / "evals" / "__init__.py").touch()
    (scratch / "evals" / "truth").symlink_to(Path(__file__).parent)
    setup = {
        "engine": asked.engine,
        "site": str(site),
        "models": str(asked.folder / "models"),
        "scratch": str(scratch),
        "machine": values_of(machines.MACHINES[machines.DEFAULT]),
    }
    inherited = {n: v for n, v in os.environ.items() if not n.startswith(_DROPPED)}  # noqa: TID251 - PATH, HOME
    own = {"HF_HOME": str(scratch / "hf"), "VLLM_CACHE_ROOT": str(scratch / "vllm")}
    own["PYTHONPATH"] = os.pathsep.join(map(str, (scratch, target, site)))
    out, errors = scratch / "out", scratch / "errors"
    with errors.open("wb") as stream:
        process = subprocess.Popen(
            [str(python), "-W", "ignore", "-m", "evals.truth.inside"],
            env={**inherited, **_FIXED, **own},
            cwd=scratch,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
        )

    def say(words: Mapping[str, Any]) -> None:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        problem = json.loads(answer).get("error") if answer else errors.read_text("utf-8", "replace")[-3000:]
        if problem or not answer:
            raise RecordingError(f"{asked.engine} {asked.version}: {problem}", do="see what it says last")

    def ask(request: Mapping[str, Any]) -> str:
        say({**request, "out": str(out)})
        return out.read_text("utf-8")

    try:
        say(setup)
        yield ask
    finally:
        process.kill()
        process.wait()
        for pipe in _pipes(process):
            pipe.close()


def _pipes(process: subprocess.Popen[str]) -> Iterable[Any]:
    return [pipe for pipe in (process.stdin, process.stdout) if pipe is not None]
