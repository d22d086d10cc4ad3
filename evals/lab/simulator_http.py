"""Serve the routes of the real server that tools use. Standard library only."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

from evals.lab.simulator_batches import Request
from evals.lab.simulator_connection import Call, Connection
from evals.lab.simulator_engine import Engine
from evals.lab.simulator_log import EngineLog
from evals.lab.simulator_openai import Ask, BadRequest
from evals.lab.simulator_server import Handler, OpenAiServer, send
from evals.lab.simulator_text import TokenStream
from evals.lab.simulator_views import Views


class Server(OpenAiServer):
    """Route requests to the engine and its views."""

    def __init__(self, engine: Engine, views: Views, log: EngineLog, text_seed: int) -> None:
        super().__init__(log, engine.launch.fields.get("api_key"))
        self._engine = engine
        self._views = views
        self._text_seed = text_seed
        self._routes |= {
            ("GET", "/v1/models"): self._json(views.models),
            ("GET", "/model_info"): self._json(views.model_info),
            ("GET", "/get_model_info"): self._json(views.model_info, "model_info"),
            ("GET", "/server_info"): self._json(views.server_info),
            ("GET", "/get_server_info"): self._json(views.server_info, "server_info"),
            ("GET", "/health_generate"): self._health_generate,
        }
        if engine.launch.fields["enable_metrics"]:
            self._routes["GET", "/metrics"] = self._metrics

    @property
    def served_name(self) -> str:
        """Return the name requests call the model by."""
        return self._views.served_name

    @property
    def context_length(self) -> int:
        """Return how many tokens a request may have."""
        return self._engine.launch.context_length

    def accepted(self, ask: Ask) -> Ask:
        """Refuse what no router sent: prefill and decode servers only take requests paired by one."""
        launch = self._engine.launch
        if launch.fields["disaggregation_mode"] != "null" and not ask.paired:
            said = "Invalid request: Disaggregated request received without bootstrap room id."
            self._log.line(said, launch.rank)
            raise BadRequest(said)
        return dataclasses.replace(ask, max_tokens=1) if launch.prefill_only else ask

    def tokens(self, ask: Ask) -> TokenStream:
        """Return the text that answers a request."""
        changed = self._engine.launch.output_changed and ask.greedy
        salt = "" if ask.greedy else ask.seed
        return TokenStream(self._text_seed, ask.prompt, salt=salt, changed=changed, strays=self._strays)

    def submit(self, request: Request) -> bool:
        """Hand over a request; return False when no more are taken."""
        return self._engine.submit(request)

    def _json(self, view: Callable[[], dict[str, Any]], instead: str = "") -> Handler:
        async def handle(connection: Connection, call: Call) -> int:
            if instead:
                self._log.line(
                    f"Endpoint '{call.path}' is deprecated and will be removed in a future version. "
                    f"Please use '/{instead}' instead."
                )
            return send(connection, 200, view())

        return handle

    async def _metrics(self, connection: Connection, call: Call) -> int:
        connection.send(200, self._views.metrics().encode(), "text/plain; version=0.0.4; charset=utf-8")
        return 200

    async def _health_generate(self, connection: Connection, call: Call) -> int:
        ask = Ask("completion", "", "health", 1, 1, False, False, True, True, "")
        await self._generate(connection, ask, lambda text: None)
        return await self._health(connection, call)

    def _strays(self) -> bool:
        """Draw whether an answer leaves its course: only beside others, whose work is summed with its own."""
        share = self._engine.launch.irreproducible
        return self._engine.running > 1 and random.random() < share
