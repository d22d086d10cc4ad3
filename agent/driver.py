"""Run the graph over a thread's checkpoints, from where its transcript stands."""

from __future__ import annotations

import os
from pathlib import Path

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.runtime import RunControl

from agent.graph import Graph, build
from agent.investigation import Investigation
from agent.state import GraphState

STEPS_A_TURN = 3
"""Steps of the graph one turn may take: reason, act, conclude."""


async def drive(work: Investigation, folder: Path, control: RunControl, *, spoken: bool) -> None:
    """Run until the graph ends; ``spoken`` says that a person has just said something."""
    path = folder / "checkpoints.sqlite"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    config: RunnableConfig = {
        "configurable": {"thread_id": folder.name},
        "recursion_limit": STEPS_A_TURN * (work.settings.max_turns + 2) + 10,
    }
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        graph = build(saver)
        entry = await _entry(work, graph, config, spoken)
        await graph.ainvoke(entry, config, context=work, durability="async", control=control)


async def _entry(
    work: Investigation, graph: Graph, config: RunnableConfig, spoken: bool
) -> GraphState | None:
    """Return where to begin: None goes on from the checkpoint, unless the transcript knows better.

    The transcript is written first, so a checkpoint may lag behind it (recorded turns are then walked
    again without being taken) but can only be ahead of it when a disk lost writes.
    """
    last = work.history.last_turn
    if not spoken:
        snapshot = await graph.aget_state(config)
        at = snapshot.values.get("turn")
        if snapshot.next and isinstance(at, int) and 0 <= at <= last:
            return None
        last = max(last - 1, 0)
    return {"thread": config["configurable"]["thread_id"], "turn": last, "route": "reason", "sent_back": 0}
