"""Begin a thread from the state that another one had at a turn; the other stays as it is."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from agent import threads
from agent.config import Settings
from agent.errors import UsageError
from agent.events import (
    Event,
    Failed,
    Forked,
    Judged,
    Measured,
    Resumed,
    Started,
    ToolFinished,
    TurnTaken,
    UserMessage,
)
from agent.trials import Trials
from agent.whole_file import put_whole

_DIGEST = re.compile(r"[0-9a-f]{64}")


def fork(settings: Settings, thread: str, events: Sequence[Event], turn: int) -> str:
    """Write a new thread that stands where ``thread`` stood after ``turn``; return its id.

    Raises `UsageError` for a turn that there is not, or that lies inside the trial of a change.
    """
    taken = upto(events, turn)
    first = taken[0]
    assert isinstance(first, Started)  # every transcript begins so
    folder = threads.create(settings)
    new = folder.name
    try:
        _link(threads.folder_of(settings, thread) / "artifacts", folder / "artifacts", taken)
        end = Forked(seq=len(taken), at=datetime.now(UTC), turn=turn, thread=thread, at_turn=turn)
        rows = [first.model_copy(update={"thread": new}), *taken[1:], end]
        text = "".join(f"{row.model_dump_json()}\n" for row in rows)
        put_whole(folder / "transcript.jsonl", text.encode("utf-8", "replace"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return new


def turns_of(events: Sequence[Event]) -> list[int]:
    """Return the turns that a thread has, orientation included."""
    return [event.turn for event in events if isinstance(event, TurnTaken)]


def upto(events: Sequence[Event], turn: int) -> list[Event]:
    """Return the events up to what ``turn`` brought about; raise `UsageError` where it cannot end there."""
    turns = turns_of(events)
    if turn not in turns:
        last = f"there are 0 to {turns[-1]}" if turns else "there is none yet"
        raise UsageError(f"no turn {turn}", do=last)
    place = next((event.seq for event in events if event.turn > turn), len(events))
    taken = list(events[:place])
    while isinstance(taken[-1], UserMessage | Resumed | Failed):
        taken.pop()  # said or begun after the turn
    trials = Trials()
    for event in taken:
        trials.feed(event)
    if trials.open is not None:
        raise UsageError(
            f"turn {turn} lies in the trial of {trials.open.made.change}",
            do="fork at an earlier turn, or at one after its end",
        )
    return taken


def _link(source: Path, target: Path, events: Sequence[Event]) -> None:
    """Let the new thread have the outputs that its events name; they never change, so they are shared."""
    target.mkdir(mode=0o700)
    for digest in outputs_of(events):
        if (source / digest).is_file():
            try:
                os.link(source / digest, target / digest)
            except OSError:  # a file system without links
                shutil.copyfile(source / digest, target / digest)


def outputs_of(events: Sequence[Event]) -> set[str]:
    """Return the digests of the outputs that events name; what is none might be a path out of the folder."""
    found: set[str] = set()
    for event in events:
        if isinstance(event, ToolFinished):
            found.update(ref.sha256 for ref in event.artifacts)
        elif isinstance(event, Measured | Judged):
            found.add(event.artifact.sha256)
    return {name for name in found if _DIGEST.fullmatch(name)}
