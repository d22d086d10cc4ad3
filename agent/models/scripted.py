"""A server on loopback that speaks chat completions and answers by a script or by the built-in method.

It stands in a model's place for trying things out, for demonstrations without a key, and for tests: it can be
told which of its answers go wrong in which way.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.compaction import tokens_of
from agent.models.scripted_http import MAX_HEAD, BadRequest, Reply, Request, read_request
from agent.models.scripted_script import Answers, FaultKind, break_calls
from agent.state import AssistantTurn, ToolCall

MODEL = "scripted"
"""Name of the one model that is served."""

PIECE = 24
"""Characters of a streamed piece."""

_TOOLS_REFUSED = f"model {MODEL} does not support tools"
_PAGE = b"<!doctype html><html><body><h1>Welcome</h1></body></html>"


@dataclass(slots=True)
class ScriptedServer:
    """Answer requests; ``faults`` says what goes wrong with the N-th, counted from 1."""

    answers: Answers
    faults: Mapping[int, FaultKind] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    """Bodies of the chat requests so far."""
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self, port: int = 0) -> str:
        """Listen on loopback and return the base URL."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=MAX_HEAD)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # a callback of start_server always runs in one
        self._open.add(task)
        try:
            await self._serve(reader, Reply(writer))
        except (ConnectionError, TimeoutError):
            pass  # the client is gone, and nobody is left to be told
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._open.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, reply: Reply) -> None:
        try:
            request = await read_request(reader)
        except BadRequest as error:
            await reply.error(400, str(error))
            return
        match request.method, request.path:
            case "GET", "/v1/models":
                row = {"id": MODEL, "object": "model", "created": 0, "owned_by": "leadline"}
                await reply.json({"object": "list", "data": [row]})
            case "POST", "/v1/chat/completions":
                await self._chat(request, reader, reply)
            case _:
                await reply.error(404, f"no such path: {request.path}")

    async def _chat(self, request: Request, reader: asyncio.StreamReader, reply: Reply) -> None:
        self.requests.append(request.body)
        fault = self.faults.get(len(self.requests))
        body = request.body
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            await reply.error(400, "messages: a list is required")
        elif body.get("model") != MODEL:
            text = f"The model `{body.get('model')}` does not exist"
            await reply.error(404, text, "model_not_found")
        elif not await _refuse(fault, bool(body.get("stream")), reply):
            turn = await self.answers(body["messages"], body.get("tools") or [])
            if fault == "broken-call":
                turn = break_calls(turn)
            answer = _Answer(len(self.requests), turn, fault, tokens_of(body["messages"]))
            if body.get("stream"):
                counted = bool((body.get("stream_options") or {}).get("include_usage"))
                await answer.stream(reader, reply, counted=counted)
            else:
                await reply.json(answer.whole())


async def _refuse(fault: FaultKind | None, streamed: bool, reply: Reply) -> bool:
    """Send what a fault sends in an answer's place; False when the answer itself is due."""
    match fault:
        case "401":
            await reply.error(401, "the API key is not valid", "invalid_api_key")
        case "429":
            await reply.error(429, "too many requests", "rate_limit_exceeded", retry_after="0")
        case "500":
            await reply.error(500, "the server lost its way")
        case "no-tools":
            await reply.error(400, _TOOLS_REFUSED)
        case "no-stream" if streamed:
            await reply.error(400, "streaming is not supported by this server")
        case "too-long":
            await reply.error(
                400, "This model's maximum context length is exceeded", "context_length_exceeded"
            )
        case "html":
            await reply.whole(_PAGE, "text/html")
        case _:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Answer:
    """Put one turn into the form of the wire, with the habit or fault that is asked for."""

    number: int
    turn: AssistantTurn
    fault: FaultKind | None
    tokens_in: int

    def whole(self) -> dict[str, Any]:
        """Return the turn as one completion."""
        message: dict[str, Any] = {"role": "assistant", "content": self.turn.text or None}
        if self.turn.reasoning:
            message["reasoning_content"] = self.turn.reasoning
        if self.turn.tool_calls:
            message["tool_calls"] = [
                self._wire(place, call) for place, call in enumerate(self.turn.tool_calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._reason()}
        return self._frame("chat.completion", [choice]) | self._usage()

    async def stream(self, reader: asyncio.StreamReader, reply: Reply, *, counted: bool) -> None:
        """Send the turn in pieces, and let happen what is to go wrong in the middle."""
        reply.begin_stream()
        deltas = list(self._deltas())
        for place, delta in enumerate(deltas):
            if place == len(deltas) // 2 and not await self._middle(reader, reply):
                return
            await self._send(reply, [{"index": 0, "delta": delta, "finish_reason": None}])
        await self._send(reply, [{"index": 0, "delta": {}, "finish_reason": self._reason()}])
        if counted and self.fault != "no-usage":
            await self._send(reply, [], **self._usage())
        await reply.event("[DONE]")
        await reply.end_stream()

    async def _middle(self, reader: asyncio.StreamReader, reply: Reply) -> bool:
        """Do what goes wrong half way; False when nothing follows."""
        match self.fault:
            case "cut":
                reply.cut()
            case "stall":
                await reader.read()  # until the client gives up
            case "error-chunk":
                await reply.event(json.dumps({"error": {"message": "out of memory", "code": 500}}))
            case "garbage":
                await reply.event('{"choices": [{"del')
            case _:
                return True
        return False

    async def _send(self, reply: Reply, choices: list[dict[str, Any]], **more: Any) -> None:
        await reply.event(json.dumps(self._frame("chat.completion.chunk", choices) | more))

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        name = f"chatcmpl-{self.number}"
        return {"id": name, "object": kind, "created": 0, "model": MODEL, "choices": choices}

    def _usage(self) -> dict[str, Any]:
        if self.fault == "no-usage":
            return {}
        said = tokens_of([self.turn.model_dump(mode="json", exclude={"usage"})])
        total = self.tokens_in + said
        counts = {"prompt_tokens": self.tokens_in, "completion_tokens": said, "total_tokens": total}
        return {"usage": counts}

    def _reason(self) -> str:
        return "tool_calls" if self.turn.tool_calls else "stop"

    def _deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        yield from ({"reasoning_content": piece} for piece in _pieces(self.turn.reasoning))
        yield from ({"content": piece} for piece in _pieces(self.turn.text))
        calls = self.turn.tool_calls
        if self.fault == "one-chunk" and calls:
            yield {"tool_calls": [self._wire(place, call) for place, call in enumerate(calls)]}
            return
        streams = [self._call_deltas(place, call) for place, call in enumerate(calls)]
        if self.fault == "parallel":
            rounds = itertools.zip_longest(*streams)
            yield from ({"tool_calls": [piece]} for one in rounds for piece in one if piece is not None)
        else:
            yield from ({"tool_calls": [piece]} for pieces in streams for piece in pieces)

    def _call_deltas(self, place: int, call: ToolCall) -> Iterator[dict[str, Any]]:
        first = self._wire(place, call.model_copy(update={"arguments": ""}))
        yield first
        for piece in _pieces(call.arguments):
            rest = {key: first[key] for key in ("index",) if key in first}
            yield {**rest, "function": {"arguments": piece}}

    def _wire(self, place: int, call: ToolCall) -> dict[str, Any]:
        """Return a call as the wire has it, without what a fault leaves out."""
        function = {"name": call.name, "arguments": call.arguments}
        wire: dict[str, Any] = {"index": place, "id": call.id, "type": "function", "function": function}
        match self.fault:
            case "no-index":
                wire["index"] = None
            case "same-index":
                wire["index"] = 0
            case "no-ids":
                del wire["id"]
            case "same-ids":
                wire["id"] = "call"
            case _:
                pass
        return wire


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


@contextlib.asynccontextmanager
async def serving(server: ScriptedServer, port: int = 0) -> AsyncIterator[str]:
    """Serve for the time of the block; gives the base URL."""
    try:
        yield await server.start(port)
    finally:
        await server.close()
