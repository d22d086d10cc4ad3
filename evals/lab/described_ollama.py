"""Serve Ollama's own routes beside the OpenAI-compatible ones. Standard library only."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

from evals.lab.described_engine import Engine
from evals.lab.described_server import DescribedServer
from evals.lab.simulator_connection import Call, Connection
from evals.lab.simulator_log import EngineLog
from evals.lab.simulator_openai import Ask, BadRequest
from evals.lab.simulator_server import send
from evals.lab.simulator_text import count_tokens


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 10**9:09d}Z"


class OllamaServer(DescribedServer):
    """Answer as Ollama does; what the rules give for a path goes before."""

    def __init__(self, service: Mapping[str, Any], engine: Engine, log: EngineLog) -> None:
        super().__init__(service, engine, log)
        del self._routes["GET", "/health"]
        version = engine.machine.fill("{version}")
        self._routes |= {
            ("GET", "/"): self._running,
            ("HEAD", "/"): self._running,
            ("GET", "/api/version"): self._view(lambda: {"version": version}),
            ("GET", "/api/tags"): self._view(lambda: {"models": [self.card()]}),
            ("GET", "/api/ps"): self._view(lambda: {"models": self.loaded()}),
            ("POST", "/api/generate"): self._native_generate,
            ("POST", "/api/chat"): self._native_chat,
        }

    def card(self) -> dict[str, Any]:
        """Return a model as ``/api/tags`` lists it."""
        name = self.served_name
        digest = hashlib.sha256(name.encode()).hexdigest()
        details = {"format": "gguf", "family": name.partition(":")[0], "quantization_level": "Q4_K_M"}
        return {"name": name, "model": name, "digest": digest, "details": details}

    def loaded(self) -> list[dict[str, Any]]:
        """Return the models in memory: the one there is, once it was asked for."""
        if not self._engine.counts.prompted:
            return []
        spec = self._engine.effect.get("gpu") or {}
        held = int(float(self._engine.machine.number(spec.get("memory_mib")) or 0) * (1 << 20))
        return [{**self.card(), "size_vram": held, "context_length": self.context_length}]

    async def _running(self, connection: Connection, call: Call) -> int:
        connection.send(200, b"Ollama is running" if call.method == "GET" else b"", "text/plain")
        return 200

    async def _native_generate(self, connection: Connection, call: Call) -> int:
        return await self._native(connection, call, chat=False)

    async def _native_chat(self, connection: Connection, call: Call) -> int:
        return await self._native(connection, call, chat=True)

    async def _native(self, connection: Connection, call: Call, *, chat: bool) -> int:
        try:
            body = json.loads(call.body)
            ask = self._ask(body, chat)
            return await self._lines(connection, ask, body, chat)
        except BadRequest as error:
            return send(connection, error.status, {"error": str(error)})
        except (ValueError, TypeError, AttributeError):
            return send(connection, 400, {"error": "invalid request body"})

    def _ask(self, body: dict[str, Any], chat: bool) -> Ask:
        if body.get("model") != self.served_name:
            raise BadRequest(f"model '{body.get('model')}' not found", 404)
        messages = body.get("messages") or []
        prompt = "\n".join(str(m.get("content")) for m in messages) if chat else str(body.get("prompt") or "")
        options = body.get("options") or {}
        tokens = count_tokens(prompt)
        room = self.context_length - tokens - 1
        if room <= 0:
            raise BadRequest("the input is longer than the context")
        wanted = int(options.get("num_predict", -1))
        return Ask(
            kind="chat" if chat else "completion",
            model=self.served_name,
            prompt=prompt or " ",
            prompt_tokens=tokens,
            max_tokens=min(room, wanted) if wanted > 0 else room,
            stream=body.get("stream") is not False,
            usage_in_stream=False,
            ignore_eos=False,
            greedy=options.get("temperature") == 0,
            seed=str(options.get("seed", _now())),
        )

    async def _lines(self, connection: Connection, ask: Ask, body: dict[str, Any], chat: bool) -> int:
        """Answer line by line, or with one line that holds it all."""
        asked = time.monotonic_ns()
        first = 0
        parts: list[str] = []

        def part(text: str, done: bool, more: Mapping[str, Any]) -> bytes:
            said = {"message": {"role": "assistant", "content": text}} if chat else {"response": text}
            head = {"model": ask.model, "created_at": _now()}
            return json.dumps({**head, **said, "done": done, **more}).encode() + b"\n"

        def on_token(text: str) -> None:
            nonlocal first
            if not first:
                first = time.monotonic_ns()
                if ask.stream:
                    connection.begin("application/x-ndjson")
            parts.append(text)
            if ask.stream:
                connection.piece(part(text, False, {}))

        finish = await self._generate(connection, ask, on_token, body)
        if finish == "abort":
            return 499
        end = time.monotonic_ns()
        last = {
            "done_reason": finish,
            "total_duration": end - asked,
            "load_duration": 0,
            "prompt_eval_count": ask.prompt_tokens,
            "prompt_eval_duration": first - asked,
            "eval_count": len(parts),
            "eval_duration": max(end - first, 1),
        }
        if ask.stream:
            connection.piece(part("", True, last))
            connection.end()
        else:
            connection.send(200, part("".join(parts), True, last), "application/json; charset=utf-8")
        return 200
