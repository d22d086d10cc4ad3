"""Runs on disk: ``evals/ID/run.json`` says what was asked, ``results.jsonl`` holds a result a line."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field, ValidationError

from agent.config import Settings
from agent.errors import LeadlineError, TranscriptError, UsageError
from agent.state import Record
from evals.jobs import Asked, Job
from evals.results import Result
from tools.wrong_fields import first_wrong

_ID = re.compile(r"[a-z0-9][a-z0-9-]{2,63}")
_WAIT_S = 30.0
"""How long the processes of a killed run may take to notice it, and to end their labs."""


class RunFile(Record):
    """Hold ``run.json``."""

    schema_version: int = 1
    id: str
    started_at: datetime
    product: str
    model: str
    judge: str = Field(default="", description="Model that adds an opinion; empty: none.")
    prompts: dict[str, str] = Field(description="Prompt and playbook files to their sha256.")
    asked: Asked
    jobs: list[Job]


def folder_of(settings: Settings, run: str) -> Path:
    """Return the folder of a run; refuse every id that is not one of ours by its form."""
    if not _ID.fullmatch(run):
        raise UsageError(f"not the id of an eval run: {run!r}", do="see `leadline eval --list`")
    return settings.state_dir / "evals" / run


def names(settings: Settings) -> list[str]:
    """Return the ids of all runs, oldest first."""
    return sorted(path.parent.name for path in (settings.state_dir / "evals").glob("*/run.json"))


def create(settings: Settings, asked: Asked, jobs: Sequence[Job]) -> RunFile:
    """Make the folder of a new run and write down what was asked."""
    import agent

    now = datetime.now(UTC)
    run = RunFile(
        id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        started_at=now,
        product=agent.__version__,
        model=settings.model,
        judge=settings.judge_model or "",
        prompts=prompt_digests(),
        asked=asked,
        jobs=list(jobs),
    )
    folder = folder_of(settings, run.id)
    folder.mkdir(parents=True, mode=0o700)
    new = folder / "run.json.new"
    new.write_text(run.model_dump_json(indent=1) + "\n", encoding="utf-8")
    new.rename(folder / "run.json")
    return run


def load(settings: Settings, run: str) -> RunFile:
    """Read what was asked of a run; raise `UsageError` when there is no such run."""
    path = folder_of(settings, run) / "run.json"
    if not path.is_file():
        known = names(settings)[-5:]
        raise UsageError(f"no eval run {run}", do=f"the last ones are: {', '.join(known) or 'none'}")
    try:
        return RunFile.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise TranscriptError(f"{path}: {first_wrong(error, 'run').text}", do="start a new run") from error


def lock(folder: Path) -> int:
    """Take a run for this process and those that it starts; return the descriptor that holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise UsageError(
                    f"eval run {folder.name} is at work in another process", do="wait for it or end it"
                ) from None
            time.sleep(0.1)


class Results:
    """Append results to a run's file, one a line; a torn end is dropped on open."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "results.jsonl"
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        raw = self.path.read_bytes()
        if not raw.endswith(b"\n"):
            os.ftruncate(self._descriptor, raw.rfind(b"\n") + 1)

    def add(self, result: Result) -> None:
        """Write one result whole, or raise `LeadlineError` and leave nothing of it."""
        line = memoryview(result.model_dump_json().encode() + b"\n")
        before = os.fstat(self._descriptor).st_size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            os.ftruncate(self._descriptor, before)
            raise LeadlineError(
                f"{self.path}: cannot be written: {error.strerror}",
                do=f"make room, then go on with: leadline eval --resume {self.path.parent.name}",
            ) from error

    def close(self) -> None:
        """Wait for the disk and close the file."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)


def read(folder: Path) -> dict[str, Result]:
    """Return the results of a run by key, the last of each; raise `TranscriptError` for a damaged line."""
    path = folder / "results.jsonl"
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return {}
    found: dict[str, Result] = {}
    for number, line in enumerate(lines, 1):
        try:
            result = Result.model_validate_json(line)
        except ValidationError as error:
            raise TranscriptError(
                f"{path}:{number}: {first_wrong(error, 'line').text}",
                do="take the line out, then resume the run",
            ) from error
        found[result.key] = result
    return found


def prompt_digests() -> dict[str, str]:
    """Return the sha256 of every prompt and playbook, by its path: what a model is led by."""
    from prompts.render import FOLDER

    files = sorted(path for path in FOLDER.rglob("*") if path.name.endswith((".md", ".md.j2")))
    return {str(path.relative_to(FOLDER)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
