"""Serve the routes of the real server that tools use. Standard library only."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from evals.lab.simulator_batches import Finish, Request
from evals.lab.simulator_connection import Call, Connection
from evals.lab.simulator_engine import Engine
from evals.lab.simulator_log import EngineLog
from evals.lab.simulator_openai import Answer, Ask, BadRequest, Kind, read
from evals.lab.simulator_text import TokenStream
from evals.lab.simulator_views import Views

OPEN_PATHS = ("/health", "/health_generate", "/metrics")
"""Paths that need no key."""


Handler = Callable[[Connection, Call], Awaitable[int]]


class Server:
    """Route requests to the engine and its views."""

    def __init__(self, engine: Engine, views: Views, log: EngineLog, text_seed: int) -> None:
        self._engine = engine
        self._views = views
        self._log = log
        self._text_seed = text_seed
        self._key = engine.launch.fields.get("api_key")
        self._open: set[asyncio.Task[None]] = set()
        self._routes: dict[tuple[str, str], Handler] = {
            ("POST", "/v1/completions"): self._completion,
            ("POST", "/v1/chat/completions"): self._chat,
            ("GET", "/v1/models"): self._json(views.models),
            ("GET", "/model_info"): self._json(views.model_info),
            ("GET", "/get_model_info"): self._json(views.model_info, "model_info"),
            ("GET", "/server_info"): self._json(views.server_info),
            ("GET", "/get_server_info"): self._json(views.server_info, "server_info"),
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health_generate,
        }
        if engine.launch.fields["enable_metrics"]:
            self._routes["GET", "/metrics"] = self._metrics

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
            return _send(connection, 401, {"error": "Unauthorized"})
        handler = self._routes.get((call.method, call.path))
        if handler is not None:
            return await handler(connection, call)
        if any(path == call.path for _, path in self._routes):
            return _send(connection, 405, {"detail": "Method Not Allowed"})
        return _send(connection, 404, {"detail": "Not Found"})

    def _json(self, view: Callable[[], dict[str, Any]], instead: str = "") -> Handler:
        async def handle(connection: Connection, call: Call) -> int:
            if instead:
                self._log.line(
                    f"Endpoint '{call.path}' is deprecated and will be removed in a future version. "
                    f"Please use '/{instead}' instead."
                )
            return _send(connection, 200, view())

        return handle

    async def _metrics(self, connection: Connection, call: Call) -> int:
        connection.send(200, self._views.metrics().encode(), "text/plain; version=0.0.4; charset=utf-8")
        return 200

    async def _health(self, connection: Connection, call: Call) -> int:
        connection.send(200, b"", "text/plain")
        return 200

    async def _health_generate(self, connection: Connection, call: Call) -> int:
        ask = Ask("completion", "", "health", 1, 1, False, False, True, True, "")
        await self._generate(connection, ask, lambda text: None)
        return await self._health(connection, call)

    async def _completion(self, connection: Connection, call: Call) -> int:
        return await self._openai(connection, call, "completion")

    async def _chat(self, connection: Connection, call: Call) -> int:
        return await self._openai(connection, call, "chat")

    async def _openai(self, connection: Connection, call: Call, kind: Kind) -> int:
        context = self._engine.launch.context_length
        try:
            ask = read(kind, call.body, served=self._views.served_name, context=context)
            self._refuse_without_room(ask)
            return await (self._stream if ask.stream else self._whole)(connection, ask)
        except BadRequest as error:
            body = {
                "object": "error",
                "message": str(error),
                "type": error.kind,
                "param": None,
                "code": error.status,
            }
            return _send(connection, error.status, body)

    def _refuse_without_room(self, ask: Ask) -> None:
        """Refuse what no router sent: prefill and decode servers only take requests paired by one."""
        if self._engine.launch.fields["disaggregation_mode"] != "null" and not ask.paired:
            said = "Invalid request: Disaggregated request received without bootstrap room id."
            self._log.line(said, self._engine.launch.rank)
            raise BadRequest(said)

    async def _whole(self, connection: Connection, ask: Ask) -> int:
        parts: list[str] = []
        finish = await self._generate(connection, ask, parts.append)
        if finish == "abort":
            return 499
        return _send(connection, 200, Answer(ask).whole("".join(parts), len(parts), finish))

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

    async def _generate(self, connection: Connection, ask: Ask, on_token: Callable[[str], None]) -> Finish:
        done: asyncio.Future[Finish] = asyncio.get_running_loop().create_future()

        def on_end(finish: Finish) -> None:
            if not done.done():
                done.set_result(finish)

        changed = self._engine.launch.output_changed and ask.greedy
        salt = "" if ask.greedy else ask.seed
        request = Request(
            prompt=ask.prompt,
            prompt_tokens=ask.prompt_tokens,
            max_tokens=1 if self._engine.launch.prefill_only else ask.max_tokens,
            stream=TokenStream(self._text_seed, ask.prompt, salt=salt, changed=changed, strays=self._strays),
            on_token=on_token,
            on_end=on_end,
            gone=connection.gone,
            ignore_eos=ask.ignore_eos,
        )
        if not self._engine.submit(request):
            raise BadRequest("The request queue is full.", 503, "ServiceUnavailableError")
        return await done

    def _strays(self) -> bool:
        """Draw whether an answer leaves its course: only beside others, whose work is summed with its own."""
        share = self._engine.launch.irreproducible
        return self._engine.running > 1 and random.random() < share


def _send(connection: Connection, status: int, body: dict[str, Any]) -> int:
    connection.send(status, json.dumps(body).encode(), "application/json")
    return status


def _reason(status: int) -> str:
    return "Client Closed Request" if status == 499 else HTTPStatus(status).phrase
