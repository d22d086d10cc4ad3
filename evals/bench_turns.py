"""Measure what a turn costs beside a bare two-node graph, how that grows, and how what is stored grows.

``python -m evals.bench_turns`` prints ratios of one run as JSON. Model and tool answer at once, so that only
our own work is timed; both graphs keep checkpoints in SQLite in the same way.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from agent.config import Settings, pin_libraries
from agent.models import ToolSchema
from agent.session import Session
from agent.state import AssistantTurn, GraphState, Message, ToolCall
from tools.contract import HostArgs, Tool, ToolContext, ToolRun
from tools.redact import redact

TURNS = 300
ROUNDS = 9
LIMITS = {
    "turn_to_bare_graph": 2.0,
    "turn_300_to_turn_10": 1.2,
    "checkpoint_bytes_200_to_100": 2.2,
    "artifact_bytes_200_to_100": 2.2,
    "transcript_bytes_200_to_100": 2.2,
}


class _Looker:
    """A model that asks for one call a turn and never concludes."""

    name = "looker"

    def __init__(self) -> None:
        self.at: list[float] = []
        """Processor time of this thread at each turn: what grows is seen in it, other programs are not."""

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        self.at.append(time.thread_time())
        call = ToolCall(id=f"call-{len(messages)}", name="look", arguments="{}")
        return AssistantTurn(text="Looking.", tool_calls=[call])


async def _look(ctx: ToolContext, args: HostArgs) -> dict[str, Any]:
    return {"host": "bench", "text": f"{ctx.call_id}: a line of output"}


async def _keep(ctx: ToolContext, args: HostArgs) -> dict[str, Any]:
    text = f"{ctx.call_id}: " + "line of output\n" * 40
    ref = ctx.keep(text.encode(), host="bench", label="look", taken_at=datetime.now(UTC))
    return {"host": "bench", "text": text, "artifact": ref.handle}


async def _facts(ctx: ToolContext, args: HostArgs) -> dict[str, Any]:
    return {"host": "bench"}


def _tools(look: ToolRun[HostArgs]) -> dict[str, Tool[Any]]:
    facts = Tool(name="facts", description="Facts.", args=HostArgs, run=_facts)
    return {"facts": facts, "look": Tool(name="look", description="Look.", args=HostArgs, run=look)}


@dataclass(frozen=True)
class Run:
    """Hold what one run took: seconds a turn, its saver's work included; processor seconds of each turn."""

    mean_s: float
    cpu_s: list[float]
    folder: Path


async def our_turns(root: Path, turns: int, look: ToolRun[HostArgs] = _look) -> Run:
    """Run a whole investigation of so many turns."""
    settings = Settings(
        state_dir=root, max_turns=turns, max_tokens=10**9, max_wall_s=10**6, max_cost_usd=10**6
    )
    model = _Looker()
    session = Session.start(settings, model, {}, "bench", tools=_tools(look), redact=redact)
    began = time.perf_counter()
    async for _ in session.ask():
        pass
    mean_s = (time.perf_counter() - began) / turns
    await session.close()
    return Run(mean_s, [later - earlier for earlier, later in pairwise(model.at)], session.folder)


async def bare_turns(root: Path, turns: int) -> float:
    """Run two nodes that do nothing as often, over the same kind of saver; return the seconds a turn."""
    from langgraph.graph import END, START, StateGraph

    from agent.driver import checkpoints

    async def reason(state: GraphState) -> GraphState:
        return {"turn": state["turn"] + 1, "route": "end" if state["turn"] >= turns else "act"}

    async def act(state: GraphState) -> GraphState:
        return {"route": "reason"}

    async def route(state: GraphState) -> str:
        return END if state["route"] == "end" else "act"

    graph = StateGraph(GraphState)
    graph.add_node("reason", reason)
    graph.add_node("act", act)
    graph.add_edge(START, "reason")
    graph.add_conditional_edges("reason", route, ["act", END])
    graph.add_edge("act", "reason")
    began = time.perf_counter()
    async with checkpoints(root / "bare.sqlite") as saver:
        await graph.compile(checkpointer=saver).ainvoke(
            {"thread": "bare", "turn": 0, "route": "reason", "sent_back": 0},
            {"configurable": {"thread_id": "bare"}, "recursion_limit": 3 * turns},
            durability="async",
        )
    return (time.perf_counter() - began) / turns


async def measure() -> dict[str, float]:
    """Return every ratio, each the median over pairs of runs next to each other, and the two best times."""
    ours: list[Run] = []
    bare: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        await bare_turns(Path(folder), 10)
        await our_turns(Path(folder), 10)
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            bare.append(await bare_turns(Path(folder), TURNS))
            ours.append(await our_turns(Path(folder), TURNS))
    with tempfile.TemporaryDirectory() as folder:
        few = _bytes((await our_turns(Path(folder) / "few", 100, _keep)).folder)
        many = _bytes((await our_turns(Path(folder) / "many", 200, _keep)).folder)
    ratios = [run.mean_s / alone for run, alone in zip(ours, bare, strict=True)]
    growth = [statistics.median(run.cpu_s[-30:]) / statistics.median(run.cpu_s[5:35]) for run in ours]
    return {
        "turn_ms": round(min(run.mean_s for run in ours) * 1000, 3),
        "bare_ms": round(min(bare) * 1000, 3),
        "turn_to_bare_graph": round(statistics.median(ratios), 3),
        "turn_300_to_turn_10": round(statistics.median(growth), 3),
        **{f"{kind}_bytes_200_to_100": round(many[kind] / few[kind], 3) for kind in few},
    }


def main() -> int:
    """Print the ratios and their limits; return 1 when one is exceeded."""
    pin_libraries()
    found = asyncio.run(measure())
    missed = [name for name, limit in LIMITS.items() if found[name] > limit]
    sys.stdout.write(json.dumps({"turns": found, "limits": LIMITS, "missed": missed}, indent=1) + "\n")
    return 1 if missed else 0


def _bytes(folder: Path) -> dict[str, int]:
    def size(pattern: str) -> int:
        return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())

    return {
        "checkpoint": size("checkpoints*"),
        "artifact": size("artifacts/**/*"),
        "transcript": size("transcript.jsonl"),
    }


if __name__ == "__main__":
    sys.exit(main())
