"""A host in a file, transactions on it and a load on it, which outlive the process as a real host does.

Its timer fires when a test says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent.leases import HostLease
from tools import benchmark
from tools.contract import Tool, ToolContext, ToolError
from tools.observe import Observation
from tools.service_types import (
    Applied,
    ChangePlan,
    ChangeRequest,
    ChangeState,
    ChangeStatus,
    Finished,
    Progress,
)

UNIT = "engine.service"
SPEEDS: Mapping[str, Mapping[int, float]] = {
    "old": {1: 24.4, 8: 97.7},
    "graphs": {1: 44.3, 8: 177.0},
    "depth": {1: 44.3, 8: 315.0},
    "useless": {1: 24.4, 8: 97.9},
    "worse": {1: 44.3, 8: 60.0},
    "garbled": {1: 44.3, 8: 177.0},
}
"""Tok/s of the states that the host can be in, by concurrency."""


class FileHost:
    """Keep what runs on a host, and every plan it knows, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            self.write({"runs": "old", "restarts": 0, "plans": {}, "loads": 0})

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def write(self, state: Mapping[str, Any]) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.rename(self.path)

    def fire(self) -> None:
        """Let every armed rollback timer fire."""
        state = self.read()
        for plan in state["plans"].values():
            if plan["state"] == "applied":
                plan |= {"state": "rolled_back", "by": "timer"}
                state |= {"runs": plan["before"], "restarts": state["restarts"] + 1}
        self.write(state)


class FakeService:
    """Carry out plans on a `FileHost`; ``to`` names the state a change leads to."""

    def __init__(
        self, host: FileHost, to: str = "graphs", fault: Callable[[str, str], None] | None = None
    ) -> None:
        self.host = host
        self.to = to
        self.fault = fault or (lambda point, when: None)
        self.running_requests = 0
        self.valid_s = 600.0
        self.secret = ""
        self.refuses = ""
        self.undo_refused = ""
        self.leased = False
        self.line_refused = ""
        self.line_told: list[str] = []
        self.irreproducible = False
        self.timer_fires_at: str | None = None
        self.apply_ends: ChangeState = "applied"
        self.restarted = False
        """True when the host was restarted: a change that nobody confirmed is there, without a timer."""
        self.calls: list[str] = []
        self.fails: set[str] = set()

    async def make_plan(
        self, host: Any, request: ChangeRequest, *, port: int, now: datetime, minimum_s: float = 60.0
    ) -> ChangePlan:
        self.fault("make_plan", "before")
        if request.unit != UNIT:
            raise ToolError(f"no unit {request.unit}")
        state = self.host.read()
        digest = hashlib.sha256(str(state["runs"]).encode()).hexdigest()
        plan = ChangePlan(
            id=f"p{len(state['plans']) + 1}-{os.urandom(3).hex()}",
            host=host.name,
            host_key=host.key_fingerprint,
            unit=request.unit,
            setting=request.setting,
            from_value=request.from_value,
            to_value=request.to_value,
            exec_start_before=["engine", "--disable-cuda-graph"],
            exec_start_after=["engine", *([self.secret] if self.secret else [])],
            environment=None,
            dropin_path="/etc/systemd/system/engine.service.d/90-leadline.conf",
            dropin_text="[Service]\nExecStart=\nExecStart=engine\n",
            preimage_sha256=digest,
            diff="-engine --disable-cuda-graph\n+engine",
            running_requests=self.running_requests,
            queued_requests=0,
            startup_s=30.0,
            rollback_after_s=60.0,
            readiness_s=60.0,
            port=port,
            blast_radius=["requests in flight end"],
            restarts_needed=2,
            created_at=now,
            expires_at=now + timedelta(seconds=self.valid_s),
        )
        self.fault("make_plan", "after")
        return plan

    async def make_undo(self, host: Any, kept: ChangePlan, now: datetime) -> ChangePlan:
        self.fault("make_undo", "before")
        if self.undo_refused:
            raise ToolError(self.undo_refused)
        request = ChangeRequest(
            unit=kept.unit, setting=kept.setting, from_value=kept.to_value, to_value=kept.from_value
        )
        plan = await self.make_plan(host, request, port=kept.port, now=now)
        self.fault("make_undo", "after")
        return plan.model_copy(update={"undoes": kept.id, "dropin_path": kept.dropin_path})

    async def check_line(self, ctx: ToolContext, host: Any, plan: ChangePlan) -> list[str]:
        self.fault("check_line", "before")
        if self.line_refused:
            raise ToolError(self.line_refused)
        self.fault("check_line", "after")
        return self.line_told

    async def apply(self, host: Any, plan: ChangePlan, approved_digest: str, progress: Progress) -> Applied:
        self._enter("apply")
        if self.refuses or approved_digest != plan.digest():
            raise ToolError(self.refuses or "not the plan that was approved")
        state = self.host.read()
        assert plan.id not in state["plans"], "a plan was applied twice"
        known = {"state": "applied", "before": state["runs"], "by": ""}
        state |= {"runs": self.to, "restarts": state["restarts"] + 1}
        state["plans"][plan.id] = known
        if self.apply_ends in ("rolled_back", "failed"):
            known |= {"state": self.apply_ends, "by": "readiness"}
            state |= {"runs": known["before"], "restarts": state["restarts"] + 1}
        self.host.write(state)
        self._leave("apply")
        found = await self._standing(plan.id)
        unknown = self.apply_ends == "unknown"
        outcome: Any = "unknown" if unknown else found.state
        return Applied(outcome=outcome, plan_id=plan.id, detail=found.detail, status=found, seconds=1.0)

    async def extend(self, host: Any, plan: ChangePlan, seconds: float) -> ChangeStatus:
        self._enter("extend")
        found = await self._standing(plan.id)
        self._leave("extend")
        return found

    async def confirm(self, host: Any, plan: ChangePlan) -> Finished:
        return await self._finish("confirm", plan, "confirmed")

    async def roll_back(self, host: Any, plan: ChangePlan) -> Finished:
        return await self._finish("roll_back", plan, "rolled_back")

    async def status(self, host: Any, plan_id: str) -> ChangeStatus:
        self._enter("status")
        found = await self._standing(plan_id)
        self._leave("status")
        return found

    async def _finish(self, point: str, plan: ChangePlan, to: ChangeState) -> Finished:
        self._enter(point)
        state = self.host.read()
        known = state["plans"].get(plan.id)
        if known is not None and known["state"] == "applied":
            known["state"] = to
            if to == "rolled_back":
                known["by"] = "request"
                state |= {"runs": known["before"], "restarts": state["restarts"] + 1}
            self.host.write(state)
        self._leave(point)
        found = await self._standing(plan.id)
        outcome: Any = "rolled_back" if found.state == "none" else found.state
        return Finished(outcome=outcome, plan_id=plan.id, detail=found.detail, status=found)

    async def _standing(self, plan_id: str) -> ChangeStatus:
        await asyncio.sleep(0)
        known = self.host.read()["plans"].get(plan_id)
        if known is None:
            return ChangeStatus(state="none", detail="the host knows no such plan")
        if self.restarted and known["state"] == "applied":
            return ChangeStatus(state="unknown", detail="it is there; roll it back", stranded=True)
        reason = "it did not answer" if known["by"] == "readiness" else ""
        return ChangeStatus(
            state=known["state"], detail=known["state"], reason=reason, rolled_back_by=known["by"]
        )

    def _enter(self, point: str) -> None:
        self.calls.append(point)
        if point in self.fails:
            raise ToolError(f"{point} is refused")
        if self.timer_fires_at == point:
            self.host.fire()
        self.fault(point, "before")

    def _leave(self, point: str) -> None:
        self.fault(point, "after")


@dataclass(frozen=True)
class FaultyLease(HostLease):
    """Let every session in, by way of two more points."""

    fault: Callable[[str, str], None] = lambda point, when: None

    async def take(self, host: Any, plan: ChangePlan) -> int | None:
        """Return a token."""
        self.fault("lease", "before")
        self.fault("lease", "after")
        return 1

    async def give_back(self, host: Any, plan: ChangePlan) -> None:
        """Give it back."""
        self.fault("give_back", "before")
        self.fault("give_back", "after")


def observer(service: FakeService) -> Callable[[Any, int], Any]:
    """Return what asks the engine of a `FileHost` for its settings."""

    async def observe(host: Any, port: int) -> Observation:
        service.fault("observe", "before")
        state = service.host.read()
        off = state["runs"] in ("old", "useless")
        settings = {
            "pp_size": 8,
            "disable_cuda_graph": state["runs"] == "old",
            "depth": state["runs"] == "depth",
        }
        passes = {"decode_none" if off else "decode_cuda_graph": float(state["loads"])}
        service.fault("observe", "after")
        return Observation(settings, 0.0 if off else 1.4, passes)

    return observe


def load_tool(service: FakeService, noise: Sequence[float] = (0.99, 1.0, 1.01)) -> Tool[Any]:
    """Return a benchmark of a `FileHost` that is done at once."""

    async def run(ctx: ToolContext, args: benchmark.Args) -> dict[str, Any]:
        service.fault("measure", "before")
        state = service.host.read()
        speeds = SPEEDS[state["runs"]]
        service.host.write({**state, "loads": state["loads"] + 100})
        runs = [
            {
                "concurrency": level,
                "repeat": repeat + 1,
                "errors": 0,
                "output_throughput": speeds[level] * noise[repeat % len(noise)],
                "tok_s_per_request": speeds[level] / level * noise[repeat % len(noise)],
                "gpu": {"power_w_mean": 85.0},
                "server": {"sglang:is_cuda_graph": 0.0 if state["runs"] in ("old", "useless") else 1.0},
            }
            for level in args.concurrency
            for repeat in range(args.repeats)
        ]
        text = "other" if state["runs"] == "garbled" else "same"
        outputs = {
            f"c{level}.r1.{place}": hashlib.sha256(f"{args.seed}{level}{place}{text}".encode()).hexdigest()
            for level in args.concurrency
            for place in range(level)
        }
        again = {key: f"{digest}, unlike" for key, digest in outputs.items()}
        figures = {
            "runs": runs,
            "outputs": outputs,
            "outputs_again": again if service.irreproducible else outputs,
            "notes": [],
        }
        ref = ctx.keep(
            json.dumps(figures, indent=1).encode(), host="here", label="benchmark", taken_at=datetime.now(UTC)
        )
        service.fault("measure", "after")
        return {"host": "here", "artifact": ref.handle, "runs": runs}

    return Tool(name="benchmark", description="Load.", args=benchmark.Args, run=run)
