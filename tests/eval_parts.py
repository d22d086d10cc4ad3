"""Small recordings and cases for the tests of evals: real investigations of this machine by a script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from agent.session import Session
from evals.jobs import Asked
from evals.recordings import save
from evals.results import Result, Way
from tests.scripted_parts import (
    HYPOTHESIS,
    LocalHost,
    Move,
    ScriptedModel,
    call,
    make_settings,
    run,
    turn,
)

SMALL: dict[str, Any] = {
    "description": "Graphs are off.",
    "source": "made for these tests",
    "difficulty": 1,
    "scenario": "kimi-k26-pp8",
    "symptom": "slow",
    "causes": [{"id": "graphs", "says": "Graphs are off.", "any": ["cuda.?graph"]}],
    "evidence": [{"id": "flag", "kind": "configuration", "quote": "disable-cuda-graph"}],
    "outcomes": ["diagnosed"],
    "success": ["outcome", "cause"],
}


def story(file: Path) -> Sequence[Move]:
    """Return an investigation that reads one file, and is right."""
    quote = "--disable-cuda-graph"
    evidence = {"prediction": "P1", "kind": "configuration", "artifact": "t3.1", "quote": quote}
    claim = {
        "type": "log_event",
        "says": "CUDA graphs are off",
        "cite": {"artifact": "t3.1", "quote": quote},
    }
    return (
        turn(HYPOTHESIS, text="I think graphs are off."),
        turn(call("read_file", path=str(file))),
        turn(call("hypothesis", update=[{"id": "H1", "evidence": [evidence]}])),
        turn(
            call(
                "conclude",
                outcome="diagnosed",
                summary="CUDA graphs are off.",
                causes=["H1"],
                claims=[claim],
                next_step="turn them on",
            )
        ),
    )


async def recorded(root: Path, name: str = "small-right", case: str = "small") -> Path:
    """Investigate this machine by a script and keep that as a recording below ``root``."""
    (root / "served").mkdir(parents=True, exist_ok=True)
    file = root / "served" / "launch.txt"
    file.write_text("python -m engine --pp-size 8 --disable-cuda-graph\n")
    settings = make_settings(root / "state")
    session = Session.start(settings, ScriptedModel(story(file)), {"here": LocalHost()}, "slow")
    await run(session)
    folder = root / "transcripts"
    save(session.folder, name, case=case, says="It is right.", folder=folder)
    return folder


def copies(folder: Path, name: str, count: int) -> None:
    """Lay further recordings beside one, which share its artifacts."""
    for place in range(count):
        for ending in (".jsonl", ".yaml"):
            shutil.copy(folder / f"{name}{ending}", folder / f"{name}-{place:03}{ending}")


def case_file(root: Path, name: str = "small", **more: Any) -> Path:
    """Write a case below ``root``; return its folder."""
    folder = root / "cases"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**SMALL, **more}, sort_keys=False))
    return folder


def edit(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the lines of a transcript."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def asked(root: Path, *ways: Way, pattern: str = "*", **more: Any) -> Asked:
    """Return what is asked of the small cases and recordings below ``root``."""
    places = {"cases": root / "cases", "transcripts": root / "transcripts"}
    return Asked(ways=list(ways), pattern=pattern, jobs=1, **places, **more)


def command(root: Path, *words: str) -> list[str]:
    """Return the command line of an eval of the small cases and recordings below ``root``."""
    places = ["--cases", str(root / "cases"), "--transcripts", str(root / "transcripts")]
    return [sys.executable, "-m", "evals", *words, *places]


def start(root: Path, *words: str) -> subprocess.Popen[str]:
    """Start an eval in a process of its own."""
    return subprocess.Popen(
        command(root, *words),
        env={**os.environ, "LEADLINE_STATE_DIR": str(root / "state")},  # noqa: TID251
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def evaluate(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run an eval to its end."""
    process = start(root, *words)
    out, err = process.communicate(timeout=200)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def results(root: Path) -> tuple[Path, list[Result]]:
    """Return the folder of the one run below ``root``, and every line of its results."""
    (folder,) = (root / "state" / "evals").iterdir()
    lines = (folder / "results.jsonl").read_bytes().split(b"\n")[:-1]
    return folder, [Result.model_validate_json(line) for line in lines]
