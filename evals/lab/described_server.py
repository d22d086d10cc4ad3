"""Serve a described service's OpenAI-compatible routes as its engine does. Standard library only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from evals.lab import described_metrics
from evals.lab.described_engine import Engine
from evals.lab.simulator_batches import Request
from evals.lab.simulator_connection import Call, Connection
from evals.lab.simulator_log import EngineLog
from evals.lab.simulator_openai import Ask, BadRequest
from evals.lab.simulator_server import Handler, OpenAiServer, send
from evals.lab.simulator_text import TokenStream
from evals.lab.simulator_views import MARK

_OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "ollama": "library"}


class ServiceLog(EngineLog):
    """Write lines as the rules give them, and the web server's own about requests."""

    def __init__(self, api: str, access: bool) -> None:
        super().__init__()
        self._api = api
        self._access = access

    def line(self, text: str, rank: str = "") -> None:
        """Write one line as it is."""
        self.raw(text)

    def access(self, client: str, request: str, status: int, reason: str) -> None:
        """Write the web server's line about one request."""
        if not self._access:
            return
        method, path, _ = request.split(" ", 2)
        if self._api == "ollama":
            stamp = time.strftime("%Y/%m/%d - %H:%M:%S")
            self.raw(f'[GIN] {stamp} | {status} | {client.rpartition(":")[0]:>15} | {method:<7} "{path}"')
        elif self._api == "llamacpp":
            self.raw(f"srv  log_server_r: request: {method} {path} {client.rpartition(':')[0]} {status}")
        else:
            self.raw(f'INFO:     {client} - "{request}" {status} {reason}')


class DescribedServer(OpenAiServer):
    """Route requests to the engine; what the rules give for a path goes before everything else."""

    def __init__(self, service: Mapping[str, Any], engine: Engine, log: EngineLog) -> None:
        machine = engine.machine
        super().__init__(log, machine.of("--api-key") or machine.of("$VLLM_API_KEY"))
        self._service = service
        self._engine = engine
        self._api = str(service["api"])
        self._routes["GET", "/v1/models"] = self._view(self.models)
        if self._api == "vllm":
            self._routes["GET", "/version"] = self._view(lambda: {"version": machine.fill("{version}")})
            self._routes["GET", "/ping"] = self._health
        if self._api == "llamacpp":
            self._routes["GET", "/props"] = self._view(self._props)
            self._routes["GET", "/health"] = self._view(lambda: {"status": "ok"})
        asked = {"vllm": True, "sglang": machine.of("--enable-metrics"), "llamacpp": machine.of("--metrics")}
        if asked.get(self._api):
            self._routes["GET", "/metrics"] = self._metrics

    @property
    def served_name(self) -> str:
        """Return the name requests call the model by."""
        return self._engine.machine.fill(str(self._service["model"]))

    @property
    def context_length(self) -> int:
        """Return how many tokens a request may have."""
        return int(self._engine.machine.number(self._service["context"]))

    def tokens(self, ask: Ask) -> TokenStream:
        """Return the text that answers a request."""
        changed = bool(self._engine.effect.get("changed_text")) and ask.greedy
        salt = "" if ask.greedy else ask.seed
        return TokenStream(int(self._service["text_seed"]), ask.prompt, salt=salt, changed=changed)

    def submit(self, request: Request) -> bool:
        """Hand over a request, unless the rules have the service refuse it."""
        refuse = self._engine.refresh().get("refuse")
        if refuse:
            message = self._engine.machine.fill(refuse["message"])
            raise BadRequest(message, int(refuse["status"]), "InternalServerError")
        return self._engine.submit(request)

    async def _answer(self, connection: Connection, call: Call) -> int:
        answers = self._engine.refresh()["answers"] if call.method == "GET" else {}
        if call.path not in answers:
            return await super()._answer(connection, call)
        body = self._engine.machine.filled(answers[call.path])
        if isinstance(body, dict):
            return send(connection, 200, {**body, "simulated": MARK})
        connection.send(200, str(body).encode(), "text/plain; charset=utf-8")
        return 200

    def _view(self, view: Callable[[], dict[str, Any]]) -> Handler:
        async def handle(connection: Connection, call: Call) -> int:
            return send(connection, 200, view())

        return handle

    def models(self) -> dict[str, Any]:
        """Return ``/v1/models``."""
        card = {
            "id": self.served_name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": _OWNERS[self._api],
            "root": self.served_name,
            "parent": None,
            "max_model_len": self.context_length,
        }
        return {"object": "list", "data": [card]}

    def _props(self) -> dict[str, Any]:
        machine = self._engine.machine
        return {
            "default_generation_settings": {"n_ctx": self.context_length},
            "total_slots": int(machine.number(self._engine.effect.get("concurrency")) or 1),
            "model_path": str(machine.of("-m") or machine.of("--model") or ""),
            "build_info": machine.fill("{version}"),
            "simulated": MARK,
        }

    async def _metrics(self, connection: Connection, call: Call) -> int:
        text = described_metrics.render(self._api, self._engine, self.served_name)
        connection.send(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
        return 200
