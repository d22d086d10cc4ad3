"""The state machine: nodes and edges, nothing else.

Only in mode ``apply`` does `act` lead to review and experiment.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from agent.changing import experiment, review
from agent.investigation import Investigation
from agent.nodes import act, conclude, orient, reason
from agent.state import GraphState

Graph = CompiledStateGraph[GraphState, Investigation, GraphState, GraphState]


async def route(state: GraphState) -> str:
    """Return where the node that just ran wants to go; not plain, as that would cost a thread each time."""
    return END if state["route"] == "end" else state["route"]


def build(saver: BaseCheckpointSaver[Any]) -> Graph:
    """Return the graph over a place for its checkpoints."""
    return _compiled().copy({"checkpointer": saver})


def prepare() -> None:
    """Make the graph before it is needed; it is the same for every thread."""
    _compiled()


@cache
def _compiled() -> Graph:
    graph = StateGraph(GraphState, context_schema=Investigation)
    graph.add_node("orient", orient)
    graph.add_node("reason", reason)
    graph.add_node("act", act)
    graph.add_node("review", review)
    graph.add_node("experiment", experiment)
    graph.add_node("conclude", conclude)
    graph.add_edge(START, "orient")
    graph.add_edge("orient", "reason")
    graph.add_conditional_edges("reason", route, ["reason", "act", "conclude", END])
    graph.add_conditional_edges("act", route, ["reason", "act", "review", "conclude"])
    graph.add_conditional_edges("review", route, ["experiment", "act"])
    graph.add_edge("experiment", "act")
    graph.add_conditional_edges("conclude", route, ["reason", END])
    return graph.compile()
