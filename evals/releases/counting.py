"""Count one release: what its own classes show, in an interpreter of its own, against what is found in it."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time
from pathlib import Path

from agent.errors import LeadlineError
from evals.releases.compare import compare
from evals.releases.table import Row
from tools.contract import ToolError
from tools.settings.define import definitions
from tools.settings.source import LocalTree
from tools.settings.types import Engine

NEEDS = (
    "msgspec==0.23.0",
    "pydantic==2.14.4",
    "typing_extensions==4.16.0",
    "PyYAML==6.0.4",
    "regex==2026.11.19",
)
"""What the counted modules really need; everything else is a stand-in."""
PROGRAM = Path(__file__).with_name("count_program.py")
LIMIT_S = 180


class CountError(LeadlineError):
    """Report a release whose own classes could not be asked."""


def interpreter(cache_dir: Path) -> Path:
    """Return an interpreter that has what the counted modules need, made the first time."""
    folder = cache_dir / "counting"
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = folder / "ready"
        if not ready.is_file() or ready.read_text() != "\n".join(NEEDS):
            for argv in (
                [sys.executable, "-m", "venv", "--clear", str(folder / "venv")],
                [str(python), "-m", "pip", "install", "--quiet", "--only-binary=:all:", *NEEDS],
            ):
                _run(argv, "the interpreter to count with cannot be made", do="go online and try again")
            ready.write_text("\n".join(NEEDS))
    return python


def shown(engine: str, package: Path, python: Path) -> dict[str, object]:
    """Return what a release's own classes show."""
    text = _run(
        [str(python), "-I", str(PROGRAM), engine, str(package)],
        f"the classes of {package.name} cannot be asked",
        do="see what the counting program lacks for this release",
    )
    found: dict[str, object] = json.loads(text)
    return found


def count(engine: Engine | str, version: str, package: Path, python: Path) -> Row:
    """Return the counts of one release."""
    theirs = shown(engine, package, python)
    started = time.process_time()
    try:
        tree = LocalTree(package)
        ours = definitions(tree)
        took = time.process_time() - started
        counted = compare(theirs, ours)
    except ToolError as error:
        raise CountError(f"{package.name}: {error}") from None
    return Row(engine, version, counted, round(took * 1000), len(ours))


def _run(argv: list[str], what: str, *, do: str) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise CountError(f"{what}: over {LIMIT_S} s", do=do) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word of it"])[-1]
        raise CountError(f"{what}: {last[:200]}", do=do)
    return done.stdout
