"""Derive an engine's effective settings from a launch line by running the engine's own argument code.

The code comes from the package's source (`evals.lab.source_loader`), the answers to its questions about the
host from the scenario (`evals.lab.engine_host`). Nothing here knows a single setting, and nothing is shared
with the product's analysis of settings: the analyst must not be marked by itself. Standard library only.
"""

from __future__ import annotations

import dataclasses
import enum
import gc
import hashlib
import io
import json
import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TextIO

from evals.lab.engine_facts import Hardware
from evals.lab.engine_host import HostAnswers
from evals.lab.source_loader import Package
from evals.lab.stand_ins import StandIn, StandInUsed

Stage = Literal["parse", "post_init", "check", "done"]

MODEL_FLAGS = ("--model-path", "--model", "--speculative-draft-model-path", "--speculative-draft-model")

OWN_FILES = ("engine_args.py", "engine_host.py", "engine_modules.py", "source_loader.py", "stand_ins.py")

UNRELATED = frozenset({"INVOCATION_ID", "JOURNAL_STREAM", "OLDPWD", "PWD", "SHLVL", "SYSTEMD_EXEC_PID", "_"})
"""Variables that differ from start to start and that no engine reads."""

WHOLE_MODULES = ("environ", "server_args")
"""Modules that run from top to bottom, since their last lines change what the first ones made."""


class LabArgumentError(RuntimeError):
    """Report that the package's argument code asked something the lab has no fact for."""


@dataclass(slots=True)
class Effective:
    """Hold what the engine's argument code made of one launch line."""

    stage: Stage
    """How far it got; ``done`` is a launch line that starts."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Every field of ``ServerArgs`` after all overrides, as JSON types."""
    text: str = ""
    """``repr`` of the arguments, as the start-up log shows it."""
    logs: list[tuple[str, str]] = field(default_factory=list)
    """Level and text of every line the argument code logged, in order."""
    environ: dict[str, str] = field(default_factory=dict)
    """Environment variables the argument code set."""
    exit_code: int = 0
    output: str = ""
    """What the parser printed before it ended the process (usage, help), and warnings."""
    error: str = ""
    """Type of the exception that ended it."""
    message: str = ""
    trace: str = ""

    @property
    def starts(self) -> bool:
        """Tell whether the engine starts with this launch line."""
        return self.stage == "done"


def derive(
    package_dir: Path,
    argv: Sequence[str],
    *,
    hardware: Hardware,
    config: Mapping[str, Any] | Callable[[str], Mapping[str, Any] | None],
    environ: Mapping[str, str] | None = None,
) -> Effective:
    """Run the package's argument code on ``argv`` (without program name) and return what came of it.

    ``config`` is the served model's ``config.json``, or a function from a model's path to it. Raises
    `LabArgumentError` where the code decides something by a fact the lab does not have.
    """
    models = _models(argv, config)
    host = HostAnswers(package_dir, hardware, models, environ or {})
    result = Effective("parse")
    stdout, stderr = io.StringIO(), io.StringIO()
    package = Package(
        package_dir,
        facts=host.facts,
        modules=host.modules,
        installed=host.installed,
        whole=frozenset(f"{package_dir.name}.srt.{name}" for name in WHOLE_MODULES),
    )
    try:
        with (
            _no_collection(),
            _warnings_to(stderr),
            package,
            redirect_stdout(stdout),
            redirect_stderr(stderr),
        ):
            _run(package, list(argv), result)
    except StandInUsed as error:
        raise LabArgumentError(f"{package_dir}: {error}") from error
    except SystemExit as error:
        result.exit_code = error.code if isinstance(error.code, int) else 1
        result.error, result.message = "SystemExit", str(error.code)
    except Exception as error:  # noqa: BLE001 - whatever the package raises is the answer
        result.exit_code = 1
        result.error, result.message = type(error).__name__, str(error)
        result.trace = _trace(error, package_dir)
    result.output = stdout.getvalue() + stderr.getvalue()
    result.logs = host.logs
    result.environ = {k: v for k, v in host.environ.items() if (environ or {}).get(k) != v}
    return result


@contextmanager
def _warnings_to(stream: TextIO) -> Iterator[None]:
    """Write warnings as the interpreter of the engine would, whatever ours does with them."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        stream.write(warnings.formatwarning(message, category, filename, lineno))

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


@contextmanager
def _no_collection() -> Iterator[None]:
    """Hold off the garbage collector: walking hundred thousands of syntax nodes costs a third of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _run(package: Package, argv: list[str], result: Effective) -> None:
    module = package.module(f"{package.name}.srt.server_args")
    kind = module.ServerArgs
    original = kind.__post_init__

    def post_init(self: Any) -> None:
        result.stage = "post_init"
        original(self)

    kind.__post_init__ = post_init
    server_args = module.prepare_server_args(argv)
    result.fields = {f.name: plain(getattr(server_args, f.name), f.name) for f in dataclasses.fields(kind)}
    result.stage = "check"
    server_args.check_server_args()
    result.fields = {f.name: plain(getattr(server_args, f.name), f.name) for f in dataclasses.fields(kind)}
    result.text = repr(server_args)
    result.stage = "done"


def _models(
    argv: Sequence[str], config: Mapping[str, Any] | Callable[[str], Mapping[str, Any] | None]
) -> dict[str, Mapping[str, Any]]:
    """Return the configuration of every model that the launch line names."""
    paths = [value for flag, value in pairwise(argv) if flag in MODEL_FLAGS]
    paths += [
        word.partition("=")[2] for word in argv if word.partition("=")[0] in MODEL_FLAGS and "=" in word
    ]
    if not callable(config):
        return {**{path: config for path in paths}, "*": config}
    found = {path: config(path) for path in paths}
    return {path: value for path, value in found.items() if value is not None}


def plain(value: Any, where: str) -> Any:
    """Return a field's value as JSON types; raise `StandInUsed` for one that was never supplied."""
    match value:
        case StandIn():
            raise StandInUsed(f"field {where} is {value!r}")
        case enum.Enum():
            return value.value if isinstance(value.value, str) else value.name
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(plain(k, where)): plain(v, where) for k, v in value.items()}
        case set() | frozenset():
            return sorted((plain(v, where) for v in value), key=str)
        case list() | tuple():
            return [plain(v, where) for v in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {f.name: plain(getattr(value, f.name), where) for f in dataclasses.fields(value)}
        case _:
            return repr(value)


def _trace(error: BaseException, package_dir: Path) -> str:
    """Return the traceback of the package's own frames, as the engine would print it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(package_dir))]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    return "".join([*lines, *traceback.format_exception_only(error)])


def digest(package_dir: Path, argv: Sequence[str], facts: Any) -> str:
    """Return the key under which a result may be kept: source, launch line, facts, and this code."""
    own = Path(__file__).parent
    parts = [(package_dir / "srt" / "server_args.py").read_bytes()]
    parts += [(own / name).read_bytes() for name in OWN_FILES]
    parts.append(json.dumps([list(argv), facts], sort_keys=True, default=str).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def derive_cached(
    cache_dir: Path | None,
    package_dir: Path,
    argv: Sequence[str],
    *,
    hardware: Hardware,
    config: Mapping[str, Any],
    environ: Mapping[str, str],
) -> Effective:
    """Return `derive`'s result, from a file in ``cache_dir`` when it was derived before."""
    if cache_dir is None:
        return derive(package_dir, argv, hardware=hardware, config=config, environ=environ)
    engine_environ = {key: value for key, value in environ.items() if key not in UNRELATED}
    facts = [dataclasses.asdict(hardware), dict(config), engine_environ, str(package_dir)]
    path = cache_dir / f"{digest(package_dir, argv, facts)}.json"
    with suppress(OSError, ValueError, TypeError):
        raw = json.loads(path.read_text(encoding="utf-8"))
        raw["logs"] = [(level, text) for level, text in raw["logs"]]
        return Effective(**raw)
    result = derive(package_dir, argv, hardware=hardware, config=config, environ=environ)
    with suppress(OSError):
        cache_dir.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps(dataclasses.asdict(result)), encoding="utf-8")
        draft.replace(path)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Compare with recorded settings: ``python -m evals.lab.engine_args --truth FILE``."""
    import argparse
    import sys

    from agent.config import Settings
    from evals.lab import package, truth

    parser = argparse.ArgumentParser(prog="python -m evals.lab.engine_args", description=main.__doc__)
    parser.add_argument("--truth", type=Path, required=True, help="recorded settings: JSON, or JSON lines")
    parser.add_argument("--package", type=Path, help="the unpacked package's folder; default: the pinned one")
    parser.add_argument("--models", type=Path, help="folder of model folders, for JSON lines")
    args = parser.parse_args(argv)
    folder = args.package or package.fetch("sglang", "0.5.11", Settings().cache_dir) / "sglang"
    found = truth.compare(folder, truth.read(args.truth, args.models))
    for text in found.differences:
        sys.stdout.write(f"{text}\n")
    sys.stdout.write(f"{found.agreeing} of {found.records} records agree, {found.fields} fields compared\n")
    return 1 if found.differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
