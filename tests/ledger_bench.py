"""A ledger driven like the graph drives it, for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.actions import ConcludeArgs, HypothesisArgs, ProposeChangeArgs
from agent.events import Event, Started, ToolFinished, ToolStarted, TurnTaken
from agent.hypotheses import Step
from agent.ledger import Ledger
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef

NOW = datetime(2026, 5, 1, tzinfo=UTC)
CMDLINE = b"/opt/venv/bin/python\0-m\0sglang.launch_server\0--pp-size\0008\0--disable-cuda-graph\0"
SOURCE = b"class ServerArgs:\n    pp_async_batch_depth: int = 0\n    disable_cuda_graph: bool = False\n"
LOG = b"start\nDecode batch. #running-req: 1, cuda graph: False, gen throughput (token/s): 24.41\nend\n"


class Bench:
    """A ledger with its store, driven like the graph drives it: every event through `apply`."""

    def __init__(self, root: Path) -> None:
        self.store = ArtifactStore(root)
        self.events: list[Event] = []
        self.ledger = Ledger()
        self.feed(
            Started(thread="x", product="0", recorded="playbook", symptom="s", hosts=["lab"], mode="propose")
        )

    def feed(self, event: Event) -> None:
        self.events.append(event)
        self.ledger.apply(event)

    def turn(self) -> None:
        self.feed(TurnTaken(model="m"))

    def call(self, call: str, tool: str, data: bytes, **more: Any) -> str:
        self.feed(ToolStarted(call=call, tool_call_id=call, tool=tool))
        ref = ArtifactRef(
            handle=f"{call}.1",
            sha256=self.store.put(data),
            size=len(data),
            host="lab",
            taken_at=NOW,
            **{"label": tool, **more},
        )
        self.feed(
            ToolFinished(call=call, tool_call_id=call, tool=tool, status="ok", view="{}", artifacts=[ref])
        )
        return ref.handle

    def show(self, call: str, handle: str, **arguments: Any) -> None:
        """Finish a call that keeps nothing new and shows an artifact of an earlier one."""
        view = f'{{"artifact": "{handle}"}}'
        self.feed(ToolStarted(call=call, tool_call_id=call, tool="read_file", arguments=arguments))
        self.feed(ToolFinished(call=call, tool_call_id=call, tool="read_file", status="ok", view=view))

    def take(self, step: Step) -> dict[str, Any]:
        for event in step.events:
            self.feed(event)
        return step.view

    def hypothesis(self, **args: Any) -> dict[str, Any]:
        return self.take(self.ledger.hypothesis(HypothesisArgs.model_validate(args), self.store))

    def cite(
        self, name: str, prediction: str, kind: str, artifact: str, quote: str, **more: Any
    ) -> dict[str, Any]:
        given = {"prediction": prediction, "kind": kind, "artifact": artifact, "quote": quote, **more}
        view = self.hypothesis(update=[{"id": name, "evidence": [given]}])
        said: dict[str, Any] = view["evidence"][0]
        return said

    def status(self, name: str) -> str:
        return self.ledger.hypotheses[name].status

    def change(self, **more: Any) -> dict[str, Any]:
        fields = {
            "unit": "sglang.service",
            "setting": "--disable-cuda-graph",
            "from_value": "true",
            "to_value": None,
            "reason": "E1",
            "hypotheses": ["H1"],
            "predicted_effect": "44 tok/s at 1",
            "mechanism": "is_cuda_graph 0 -> 1",
            "rollback": "put the flag back",
            **more,
        }
        return self.take(self.ledger.propose_change(ProposeChangeArgs.model_validate(fields)))

    def conclude(self, outcome: str, **more: Any) -> None:
        fields = {"outcome": outcome, "summary": "s", "claims": [], **more}
        self.ledger.may_conclude(ConcludeArgs.model_validate(fields).conclusion())


def oriented(root: Path) -> Bench:
    """Return a bench after orientation, in its first turn."""
    made = Bench(root)
    made.call("t1", "facts", CMDLINE)
    made.turn()
    return made


def text(name: str, favours: str, pattern: str, **more: Any) -> dict[str, Any]:
    check = {"kind": "text", "pattern": pattern, **more}
    return {"id": name, "favours": favours, "says": "seen", "check": check}


def graphs(rank: int = 1) -> dict[str, Any]:
    return {
        "statement": "The launch flag turns CUDA graphs off",
        "rank": rank,
        "predictions": [
            text("P1", "for", "--disable-cuda-graph"),
            text("P2", "for", "cuda graph: False"),
            text("P3", "against", "cuda graph: True"),
        ],
    }
