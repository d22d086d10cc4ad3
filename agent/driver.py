"""Run the graph over a thread's checkpoints, from where its transcript stands."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.runtime import RunControl
from langgraph.types import Command, Durability

from agent.approvals import decided
from agent.graph import Graph, build
from agent.investigation import Investigation
from agent.state import GraphState

STEPS_A_TURN = 3
"""Steps of the graph one turn may take: reason, act, conclude."""

STEPS_OF_CHANGES = 300
"""Further steps, for the changes that are tried: three each, and again when nobody decides in time."""


async def drive(work: Investigation, folder: Path, control: RunControl, *, spoken: bool) -> None:
    """Run until the graph ends; ``spoken`` says that a person has just said something."""
    config: RunnableConfig = {
        "configurable": {"thread_id": folder.name},
        "recursion_limit": STEPS_A_TURN * (work.settings.max_turns + 2) + STEPS_OF_CHANGES,
    }
    async with _saver(folder, lasting=work.lasting) as saver:
        graph = build(saver)
        entry: GraphState | Command[Any] | None = await _entry(work, graph, config, spoken)
        durability: Durability = "sync" if work.mode == "apply" else "async"
        while True:
            await graph.ainvoke(entry, config, context=work, durability=durability, control=control)
            waits = (await graph.aget_state(config)).interrupts
            decision = decided(work, waits[0].id) if waits else None
            if decision is None:
                return
            entry = Command(resume={waits[0].id: decision})


@asynccontextmanager
async def _saver(folder: Path, *, lasting: bool) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """Open the place for a thread's checkpoints: a file beside its transcript, or this process's memory."""
    if not lasting:
        yield InMemorySaver()
        return
    path = folder / "checkpoints.sqlite"
    if _is_damaged(path) or not await _is_readable(path, folder.name):
        _set_aside(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    async with checkpoints(path) as saver:
        yield saver


@asynccontextmanager
async def checkpoints(path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    """Open a store of checkpoints that builds no objects from what it reads.

    It waits for the disk only when SQLite folds its log back: after a power cut the last checkpoints may be
    missing, and the transcript, which is written first and waits where it matters, says where to go on.
    """
    async with aiosqlite.connect(path) as connection:
        await connection.execute("pragma journal_mode = wal")
        await connection.execute("pragma synchronous = normal")
        yield AsyncSqliteSaver(connection, serde=PlainSerializer(allowed_msgpack_modules=None))


class PlainSerializer(JsonPlusSerializer):
    """Read back what we write, which is plain values in msgpack, and refuse every other form."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a stored value; raise `ValueError` for one in a form that we never write."""
        if data[0] not in ("msgpack", "null", "bytes"):
            raise ValueError(f"a checkpoint holds {data[0]!r}, which is never written here")
        return super().loads_typed(data)


def _is_damaged(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.DatabaseError:
        return True
    return False


async def _is_readable(path: Path, thread: str) -> bool:
    """Tell whether the last checkpoint of a thread can be read; what it holds is looked at later."""
    if not path.exists():
        return True
    try:
        async with checkpoints(path) as saver:
            found = await build(saver).aget_state({"configurable": {"thread_id": thread}})
            return found.metadata is None or isinstance(found.metadata.get("step"), int)
    except (ValueError, TypeError, LookupError, AttributeError, sqlite3.DatabaseError):
        return False


def _set_aside(path: Path) -> None:
    """Move a file away that cannot be used: the transcript alone is enough to go on."""
    path.replace(path.with_suffix(".damaged"))
    for journal in path.parent.glob(f"{path.name}-*"):
        journal.unlink()


async def _entry(
    work: Investigation, graph: Graph, config: RunnableConfig, spoken: bool
) -> GraphState | None:
    """Return where to begin: None goes on from the checkpoint, unless the transcript knows better.

    The transcript is written first, so a checkpoint may lag behind it (recorded turns are then walked
    again without being taken) but can only be ahead of it when a disk lost writes.
    """
    last = work.history.last_turn
    spoken = spoken or (bool(work.history.unheard) and not any(work.history.pending()))
    if not spoken:
        snapshot = await graph.aget_state(config)
        at = snapshot.values.get("turn")
        if snapshot.next and isinstance(at, int) and 0 <= at <= last:
            return None
        last = max(last - 1, 0)
    return {"thread": config["configurable"]["thread_id"], "turn": last, "route": "reason", "sent_back": 0}
