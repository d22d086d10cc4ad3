"""Answer HTTP requests of one or many clients, OpenAI's routes among them. Standard library only."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from evals.lab.simulator_batches import Finish, Request
from evals.lab.simulator_connection import Call, Connection
from evals.lab.simulator_log import EngineLog
from evals.lab.simulator_openai import Answer, Ask, BadRequest, Kind, read
from evals.lab.simulator_text import TokenStream

OPEN_PATHS = ("/health", "/health_generate", "/metrics")
"""Paths that need no key."""


Handler = Callable[[Connection, Call], Awaitable[int]]


class OpenAiServer(ABC):
    """Route requests; what makes the tokens, and what the server says of itself, its heirs tell."""

    def __init__(self, log: EngineLog, key: object = None) -> None:
        self._log = log
        self._key = key
        self._open: set[asyncio.Task[None]] = set()
        self._routes: dict[tuple[str, str], Handler] = {
            ("POST", "/v1/completions"): self._completion,
            ("POST", "/v1/chat/completions"): self._chat,
            ("GET", "/health"): self._health,
        }

    @property
    @abstractmethod
    def served_name(self) -> str:
        """Return the name requests call the model by."""

    @property
    @abstractmethod
    def context_length(self) -> int:
        """Return how many tokens a request may have."""

    def accepted(self, ask: Ask) -> Ask:
        """Return what will be done of a request; raise `BadRequest` for one that is not served."""
        return ask

    @abstractmethod
    def tokens(self, ask: Ask) -> TokenStream:
        """Return the text that answers a request."""

    @abstractmethod
    def submit(self, request: Request) -> bool:
        """Hand over a request; return False when no more are taken."""

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends."""
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        connection = Connection(reader, writer)
        try:
            await self._converse(connection)
            await connection.close()
        except asyncio.CancelledError:
            pass  # only `cancel` ends these tasks, at the end of the process
        finally:
            connection.abort()

    async def _converse(self, connection: Connection) -> None:
        try:
            while (call := await connection.next_call()) is not None:
                status = await self._answer(connection, call)
                request = f"{call.method} {call.target} HTTP/1.1"
                self._log.access(call.client, request, status, _reason(status))
                await connection.flush()
                if connection.close_after:
                    break
        except BadRequest as error:
            connection.close_after = True
            connection.send(error.status, str(error).encode(), "text/plain")
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self._log.line(f"WARNING:  connection of {connection.client} broke off")

    def cancel(self) -> None:
        """End all connections."""
        for task in self._open:
            task.cancel()

    async def _answer(self, connection: Connection, call: Call) -> int:
        if (
            self._key
            and call.path not in OPEN_PATHS
            and call.headers.get("authorization") != f"Bearer {self._key}"
        ):
            return send(connection, 401, {"error": "Unauthorized"})
        handler = self._routes.get((call.method, call.path))
        if handler is not None:
            return await handler(connection, call)
        if any(path == call.path for _, path in self._routes):
            return send(connection, 405, {"detail": "Method Not Allowed"})
        return send(connection, 404, {"detail": "Not Found"})

    async def _health(self, connection: Connection, call: Call) -> int:
        connection.send(200, b"", "text/plain")
        return 200

    async def _completion(self, connection: Connection, call: Call) -> int:
        return await self._openai(connection, call, "completion")

    async def _chat(self, connection: Connection, call: Call) -> int:
        return await self._openai(connection, call, "chat")

    async def _openai(self, connection: Connection, call: Call, kind: Kind) -> int:
        try:
            ask = read(kind, call.body, served=self.served_name, context=self.context_length)
            ask = self.accepted(ask)
            return await (self._stream if ask.stream else self._whole)(connection, ask)
        except BadRequest as error:
            body = {
                "object": "error",
                "message": str(error),
                "type": error.kind,
                "param": None,
                "code": error.status,
            }
            return send(connection, error.status, body)

    async def _whole(self, connection: Connection, ask: Ask) -> int:
        parts: list[str] = []
        finish = await self._generate(connection, ask, parts.append)
        if finish == "abort":
            return 499
        return send(connection, 200, Answer(ask).whole("".join(parts), len(parts), finish))

    async def _stream(self, connection: Connection, ask: Ask) -> int:
        answer = Answer(ask)
        made = 0

        def on_token(text: str) -> None:
            nonlocal made
            if not made:
                connection.begin("text/event-stream; charset=utf-8")
            made += 1
            connection.piece(answer.token(text))

        finish = await self._generate(connection, ask, on_token)
        if finish == "abort":
            return 499
        connection.piece(answer.end(finish, made))
        connection.end()
        return 200

    async def _generate(
        self,
        connection: Connection,
        ask: Ask,
        on_token: Callable[[str], None],
        body: Mapping[str, Any] | None = None,
    ) -> Finish:
        done: asyncio.Future[Finish] = asyncio.get_running_loop().create_future()

        def on_end(finish: Finish) -> None:
            if not done.done():
                done.set_result(finish)

        request = Request(
            prompt=ask.prompt,
            prompt_tokens=ask.prompt_tokens,
            max_tokens=ask.max_tokens,
            stream=self.tokens(ask),
            on_token=on_token,
            on_end=on_end,
            gone=connection.gone,
            ignore_eos=ask.ignore_eos,
            body=body or {},
        )
        if not self.submit(request):
            raise BadRequest("The request queue is full.", 503, "ServiceUnavailableError")
        return await done


def send(connection: Connection, status: int, body: dict[str, Any]) -> int:
    """Answer with a JSON object and return the status."""
    connection.send(status, json.dumps(body).encode(), "application/json")
    return status


def _reason(status: int) -> str:
    return "Client Closed Request" if status == 499 else HTTPStatus(status).phrase
