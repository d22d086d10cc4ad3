"""Turns taken from an endpoint that serves one script, with faults or oddities on request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from agent.config import Settings
from agent.models.openai import OpenAIModel
from agent.models.scripted import MODEL, ScriptedServer, serving
from agent.models.scripted_http import Reply, read_request
from agent.models.scripted_script import FaultKind, ScriptCall, ScriptTurn, from_turns
from agent.state import AssistantTurn

ASK = [{"role": "user", "content": "PP8 decode is slow: 24 tok/s"}]
TOOL = {"type": "function", "function": {"name": "grep", "parameters": {"type": "object"}}}
ARGUMENTS = [{"pattern": f"disable_cuda_graph_{number}", "path": "é" * 20} for number in range(3)]
TURN = ScriptTurn(
    text="I look at the launch line and at the source that reads it.",
    reasoning="Graphs may be off; the power is low.",
    tool_calls=[ScriptCall(name="grep", arguments=arguments) for arguments in ARGUMENTS],
)


class Pauses:
    """Record how long was waited between tries, without waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def settings_for(url: str, **more: Any) -> Settings:
    """Return settings that name an endpoint, which may be silent for a moment only."""
    return Settings(**{"model": MODEL, "base_url": url, "model_stall_s": 0.2, **more})


async def take(url: str, said: list[str] | None = None, **more: Any) -> tuple[AssistantTurn, list[float]]:
    """Take one turn; return it with the pauses between its tries."""
    pauses = Pauses()
    model = OpenAIModel(settings_for(url, **more), sleep=pauses, jitter=lambda: 0.5)
    on_text = said.append if said is not None else lambda text: None
    return await model.next_turn(ASK, [TOOL], on_text), pauses.seconds


@asynccontextmanager
async def scripted(*faults: FaultKind) -> AsyncIterator[tuple[ScriptedServer, str]]:
    """Serve `TURN`, with a fault in each of the first requests."""
    server = ScriptedServer(from_turns([TURN]), dict(enumerate(faults, 1)))
    async with serving(server) as url:
        yield server, url


def check_whole(turn: AssistantTurn) -> None:
    """Hold a turn against `TURN`."""
    assert turn.text == TURN.text
    assert turn.reasoning == TURN.reasoning
    assert [call.name for call in turn.tool_calls] == ["grep"] * 3
    assert [json.loads(call.arguments) for call in turn.tool_calls] == ARGUMENTS


HABITS: list[FaultKind] = [
    "parallel",
    "one-chunk",
    "no-index",
    "same-index",
    "no-ids",
    "same-ids",
    "no-usage",
]

Handler = Callable[[Reply], Awaitable[None]]


@asynccontextmanager
async def odd_server(handler: Handler) -> AsyncIterator[str]:
    """Serve one kind of answer to every request."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await handler(Reply(writer))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
