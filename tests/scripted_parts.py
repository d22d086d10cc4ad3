"""A scripted model, a host on this machine and a few small tools for the tests of the state machine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from agent.config import Settings
from agent.events import Event, Live
from agent.models import ToolSchema
from agent.session import Session
from agent.state import AssistantTurn, Message, ToolCall, Usage
from tools.contract import Capture, HostArgs, Result, Tool, ToolContext, ToolError

Move = AssistantTurn | Callable[[Sequence[Message]], AssistantTurn]


class LocalHost:
    """Run commands on this machine, without a shell."""

    def __init__(self, name: str = "here") -> None:
        self.name = name
        self.key_fingerprint: str | None = None
        self.commands = 0

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        self.commands += 1
        began = datetime.now(UTC)
        child = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
        out, err = await child.communicate(stdin)
        spent = (datetime.now(UTC) - began).total_seconds()
        kept = Capture(out, b"", len(out)), Capture(err, b"", len(err))
        code = child.returncode
        return Result(self.name, tuple(argv), "exited", code, None, *kept, False, began, spent)

    async def forward(self, port: int) -> int:
        return port

    async def close(self) -> None:
        pass


class ScriptedModel:
    """Take the next move of a script; which one is next, the messages alone tell, so it can be resumed."""

    name = "scripted"

    def __init__(self, moves: Sequence[Move]) -> None:
        self.moves = moves
        self.asked: list[int] = []
        self.offered: list[list[str]] = []

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        number = sum(message["role"] == "assistant" for message in messages) - 1
        self.asked.append(number)
        self.offered.append([tool["function"]["name"] for tool in tools])
        move = self.moves[min(number, len(self.moves) - 1)]
        turn = move if isinstance(move, AssistantTurn) else move(messages)
        on_text(turn.text)
        return turn


class LookArgs(HostArgs):
    text: str = "nothing"
    wait_s: float = Field(default=0.0, ge=0)


async def _look(ctx: ToolContext, args: LookArgs) -> dict[str, Any]:
    host = ctx.host(args.host)
    await asyncio.sleep(args.wait_s)
    if args.text == "refuse":
        raise ToolError("not that; look at something else")
    if args.text == "break":
        raise RuntimeError("a bug in the tool")
    result = await host.exec(["echo", args.text])
    ctx.progress("echoed")
    ref = ctx.keep(result.stdout.data, host=host.name, label=f"echo {args.text}", taken_at=result.started_at)
    return {"host": host.name, "said": result.stdout.data.decode(), "artifact": ref.handle}


async def _facts(ctx: ToolContext, args: HostArgs) -> dict[str, Any]:
    host = ctx.host(args.host)
    data = b"--disable-cuda-graph\n--pp-size\n8\n"
    ref = ctx.keep(data, host=host.name, label="cmdline", taken_at=datetime.now(UTC))
    return {"host": host.name, "flags": {"disable_cuda_graph": True}, "artifacts": {"cmdline:1": ref.handle}}


class TouchArgs(HostArgs):
    path: str
    then_die: bool = False


async def _touch(ctx: ToolContext, args: TouchArgs) -> dict[str, Any]:
    descriptor = os.open(args.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, b"touched\n")
    os.close(descriptor)
    if args.then_die:
        os.kill(os.getpid(), 9)
    return {"host": "here", "touched": args.path}


TOOLS: Mapping[str, Tool[Any]] = {
    "facts": Tool(name="facts", description="Facts.", args=HostArgs, run=_facts),
    "look": Tool(name="look", description="Echo a text.", args=LookArgs, run=_look),
    "grep": Tool(name="grep", description="Search source.", args=LookArgs, run=_look),
    "touch": Tool(name="touch", description="Write a file.", args=TouchArgs, run=_touch, read_only=False),
}


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Return a call whose id says what it is for; ids may repeat, as models repeat them."""
    return ToolCall(id=f"call_{name}", name=name, arguments=json.dumps(arguments))


def turn(*calls: ToolCall, text: str = "", tokens: int = 10, cost_usd: float = 0.0) -> AssistantTurn:
    """Return one move of a script."""
    usage = Usage(input_tokens=tokens, output_tokens=0, cost_usd=cost_usd)
    return AssistantTurn(text=text, tool_calls=list(calls), usage=usage)


HYPOTHESIS = call(
    "hypothesis",
    add=[
        {
            "statement": "CUDA graphs are off, so every token pays for kernel launches.",
            "rank": 1,
            "predictions": [
                {
                    "id": "P1",
                    "favours": "for",
                    "says": "the launch line disables graphs",
                    "check": {"kind": "text", "pattern": "--disable-cuda-graph"},
                },
                {
                    "id": "P2",
                    "favours": "against",
                    "says": "the log says graphs run",
                    "check": {"kind": "text", "pattern": "cuda graph: True"},
                },
            ],
        }
    ],
)
EVIDENCE = call(
    "hypothesis",
    update=[
        {
            "id": "H1",
            "evidence": [
                {
                    "prediction": "P1",
                    "kind": "configuration",
                    "artifact": "t1.1",
                    "quote": "--disable-cuda-graph",
                }
            ],
        }
    ],
)


def conclusion(quote: str = "--disable-cuda-graph", outcome: str = "diagnosed") -> ToolCall:
    """Return a conclusion with one claim, which holds when the quote is in the facts."""
    claim = {"type": "log_event", "says": "graphs are off", "cite": {"artifact": "t1.1", "quote": quote}}
    causes = ["H1"] if outcome == "diagnosed" else []
    return call(
        "conclude",
        outcome=outcome,
        summary="Graphs are off.",
        causes=causes,
        claims=[claim],
        next_step="turn them on",
    )


STORY: Sequence[Move] = (
    turn(HYPOTHESIS, text="I think graphs are off."),
    turn(call("look", text="one", wait_s=0.05), call("look", text="two"), call("grep", text="three")),
    turn(EVIDENCE),
    turn(conclusion(quote="not there at all")),
    turn(conclusion()),
)
"""A whole investigation: hypothesis, three reads at once, evidence, a conclusion that comes back, another."""


def make_settings(root: Path, **more: Any) -> Settings:
    """Return settings whose state lies below ``root``."""
    return Settings(state_dir=root, **more)


def begin(root: Path, moves: Sequence[Move], *, thread: str | None = None, **more: Any) -> Session:
    """Start an investigation of this machine by a script."""
    settings = make_settings(root, **more)
    return Session.start(
        settings,
        ScriptedModel(moves),
        {"here": LocalHost()},
        "slow",
        thread=thread,
        tools=TOOLS,
        redact=plain,
    )


def again(root: Path, moves: Sequence[Move], thread: str, **more: Any) -> Session:
    """Resume an investigation of this machine by the same or another script."""
    settings = make_settings(root, **more)
    return Session.resume(
        settings, thread, ScriptedModel(moves), {"here": LocalHost()}, tools=TOOLS, redact=plain
    )


def plain(data: bytes) -> bytes:
    """Redact nothing."""
    return data


async def run(session: Session, text: str | None = None) -> list[Live]:
    """Let a session work until it stops, close it, and return what it yielded."""
    try:
        return [event async for event in session.ask(text)]
    finally:
        await session.close()


def essence(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return what must be the same however often a thread was cut off: no times, no marks of the cuts."""
    volatile = {"seq", "at", "duration_s", "taken_at", "thread"}

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items() if key not in volatile}
        return [bare(item) for item in value] if isinstance(value, list) else value

    kept = [event for event in events if event.type not in {"resumed", "budget_used"}]
    return [bare(event.model_dump(mode="json")) for event in kept]
