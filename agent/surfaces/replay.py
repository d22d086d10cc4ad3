"""Replay a recording from the command line and say whether it still goes the same way."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import load_settings
from agent.errors import ExitCode
from tools.display import printable

if TYPE_CHECKING:
    from agent.models.replay import Recording


def run(transcript: Path, *, as_json: bool) -> None:
    """Print the comparison on stdout; leave with 1 when something differs."""
    from agent.models.replay import Recording

    if transcript.is_dir():
        transcript /= "transcript.jsonl"
    compare(Recording.load(transcript), as_json=as_json)


def compare(recording: Recording, *, as_json: bool) -> None:
    """Replay a recording that was read already, and print as `run` does."""
    from agent.replay import replay

    report = asyncio.run(replay(recording, load_settings()))
    if as_json:
        sys.stdout.write(json.dumps({"same": report.same, **dataclasses.asdict(report)}) + "\n")
    else:
        counted = ", ".join(
            f"{count} {what}{'' if count == 1 else 's'}" for what, count in report.counts.items()
        )
        verdict = "same" if report.same else "different"
        lines = [f"{verdict}: {report.outcome or 'unfinished'}; {report.turns} turns, {counted}"]
        lines += [f"- differs: {text}" for text in report.differences]
        lines += [f"- note: {text}" for text in report.notes]
        sys.stdout.write(printable("\n".join(lines)) + "\n")
    if not report.same:
        raise SystemExit(int(ExitCode.ERROR))
