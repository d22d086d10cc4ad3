"""Delete investigations, but none that is at work or whose record a change on a host still needs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from agent import threads
from agent.config import Settings, load_settings
from agent.errors import TranscriptError, UsageError
from agent.standing_changes import Standing, standing
from agent.surfaces.ages import size_of
from agent.surfaces.opening import give_back
from agent.transcript import peek_events
from tools.display import printable


def remove(ids: Sequence[str], *, force: bool) -> None:
    """Delete each; nothing is deleted when one of them is refused."""
    settings = load_settings()
    names = dict.fromkeys(threads.named(settings, one) for one in ids)
    folders = {name: threads.find(settings, name) for name in names}
    locks = []
    try:
        for folder in folders.values():
            locks.append(threads.lock(folder))
        lost = {name: _lost(settings, name, folder) for name, folder in folders.items()}
        if not force:
            _refuse(lost)
        for name, folder in folders.items():
            _delete(settings, name, folder, lost[name])
    finally:
        for descriptor in locks:
            os.close(descriptor)


def _lost(settings: Settings, name: str, folder: Path) -> list[Standing]:
    try:
        return standing(settings, name, peek_events(folder / "transcript.jsonl"))
    except TranscriptError as error:
        return [Standing("?", f"its record cannot be read ({error})", undoable=False)]


def _refuse(lost: dict[str, list[Standing]]) -> None:
    rows = [f"{name}/{one.change}: {one.why}" for name, found in lost.items() for one in found]
    if not rows:
        return
    undoable = all(one.undoable for found in lost.values() for one in found)
    first = "take it back first" if undoable else "go on with it first (--resume)"
    raise UsageError(printable("; ".join(rows)), do=f"{first}, or add --force, as where the host is gone")


def _delete(settings: Settings, name: str, folder: Path, lost: Sequence[Standing]) -> None:
    size = threads.size_of(folder)
    give_back(folder, settings)
    gone = folder.with_name(f".removed-{name}")
    folder.rename(gone)  # from here on it is no thread any more, whatever becomes of its files
    shutil.rmtree(gone)
    sys.stdout.write(f"removed {name} ({size_of(size)}); the audit keeps what was done on hosts\n")
    for one in lost:
        sys.stdout.write(printable(f"  lost with it: {one.change}, {one.why}") + "\n")
