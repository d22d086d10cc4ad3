"""Investigations that may change the host of `tests.file_host`: their tools, doors, scripts and decisions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from agent.approvals import Approval
from agent.events import Live, ToolFinished
from agent.fault_points import TrialPoint
from agent.ports import Ports
from agent.roles import Person
from agent.session import Session
from agent.state import Mode, ToolCall
from agent.transcript import check_order, read_events
from tests.file_host import UNIT, FakeService, FaultyLease, FileHost, load_tool, observer
from tests.scripted_parts import (
    EVIDENCE,
    HYPOTHESIS,
    TOOLS,
    LocalHost,
    Move,
    ScriptedModel,
    call,
    make_settings,
    turn,
)
from tools.contract import HostArgs, Tool, ToolContext

TRIAL_POINTS: tuple[str, ...] = get_args(TrialPoint)


async def _facts(ctx: ToolContext, args: HostArgs) -> dict[str, Any]:
    host = ctx.host(args.host)
    ref = ctx.keep(b"--disable-cuda-graph\n", host=host.name, label="cmdline", taken_at=datetime.now(UTC))
    engines = [{"unit": UNIT, "port": 30000}]
    return {"host": host.name, "engines": engines, "artifacts": {"cmdline:1": ref.handle}}


def propose(setting: str = "--disable-cuda-graph", **more: Any) -> ToolCall:
    """Return the call that proposes to leave a flag out."""
    given: dict[str, Any] = {
        "unit": UNIT,
        "setting": setting,
        "from_value": "true",
        "reason": "E1",
        "hypotheses": ["H1"],
        "predicted_effect": "1.8 x at 1 and 8",
        "mechanism": "sglang:is_cuda_graph 0 -> 1",
        "rollback": "restore the unit",
    }
    return call("propose_change", **(given | more))


def fixed(outcome: str = "fixed", changes: Sequence[str] = ("C1",)) -> ToolCall:
    """Return the conclusion that names what was done."""
    claim = {
        "type": "log_event",
        "says": "the flag was set",
        "cite": {"artifact": "t1.1", "quote": "--disable-cuda-graph"},
    }
    return call(
        "conclude",
        outcome=outcome,
        summary="Done.",
        causes=["H1"] if outcome in ("fixed", "diagnosed") else [],
        claims=[claim],
        changes=list(changes),
        next_step="watch it",
    )


def moves(*proposals: ToolCall, outcome: str = "fixed", changes: Sequence[str] = ("C1",)) -> list[Move]:
    """Return the script of an investigation that proposes changes in one turn."""
    return [
        turn(HYPOTHESIS),
        turn(EVIDENCE),
        turn(*(proposals or (propose(),))),
        turn(fixed(outcome, changes)),
    ]


def ports(service: FakeService) -> Ports:
    """Return the doors to a `FileHost`."""
    lease = FaultyLease(fault=service.fault) if service.leased else None
    return Ports(
        service,
        observer(service),
        check_line=service.check_line,
        make_undo=service.make_undo,
        lease=lease,
    )


def tools(service: FakeService, noise: Sequence[float] = (0.99, 1.0, 1.01)) -> dict[str, Tool[Any]]:
    """Return the tools of an investigation that may change things."""
    facts = Tool(name="facts", description="Facts.", args=HostArgs, run=_facts)
    return {**TOOLS, "facts": facts, "benchmark": load_tool(service, noise)}


def redact(data: bytes) -> bytes:
    """Mask the one secret of these tests."""
    return data.replace(b"sk-hunter2", b"[masked]")


def open_session(
    root: Path,
    service: FakeService,
    script: Sequence[Move],
    *,
    thread: str = "one",
    resume: bool = False,
    mode: Mode = "apply",
    requester: Person | None = None,
    **settings_: Any,
) -> Session:
    """Start, or resume, an investigation that may change the host."""
    settings = make_settings(root, tools={"allow_load": True}, **settings_)
    hosts = {"here": LocalHost()}
    model = ScriptedModel(script)
    more: dict[str, Any] = {"tools": tools(service), "redact": redact, "ports": ports(service)}
    if resume:
        return Session.resume(settings, thread, model, hosts, **more)
    return Session.start(settings, model, hosts, "slow", mode, thread=thread, requester=requester, **more)


def decision(session: Session, decision: Any = "approved", **more: Any) -> Approval:
    """Return a decision on what the session waits for."""
    asked = session.waiting
    assert asked is not None
    given = {"change": asked.change, "digest": asked.digest, "decision": decision, "by": "a person"}
    return Approval(**(given | more))


async def go(session: Session, decide: Any = "approved") -> list[Live]:
    """Let a session work to its end, deciding the same whenever it asks; do not close it."""
    live = [event async for event in session.ask()]
    while session.waiting is not None:
        live += [event async for event in session.answer(decision(session, decide))]
    return live


def results(session: Session) -> list[dict[str, Any]]:
    """Return what the model was told of each proposed change."""
    return [
        json.loads(event.view)
        for event in session.events
        if isinstance(event, ToolFinished) and event.tool == "propose_change"
    ]


async def tried(root: Path, to: str, **set_: Any) -> tuple[dict[str, Any], Session, FileHost]:
    """Return the result of one approved change that leads the host to a state."""
    host = FileHost(root / "host.json")
    service = FakeService(host, to)
    for name, value in set_.items():
        setattr(service, name, value)
    session = open_session(root, service, moves(outcome="inconclusive"))
    await go(session)
    await session.close()
    path = session.folder / "transcript.jsonl"
    check_order(read_events(path), path)
    (result,) = results(session)
    return result, session, host
