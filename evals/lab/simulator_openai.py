"""Read and answer OpenAI-compatible requests for the simulated engine. Standard library only."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evals.lab.simulator_text import count_tokens

Kind = Literal["completion", "chat"]


class BadRequest(Exception):
    """Report a request the server answers with 400 (or another ``status``) and one message."""

    def __init__(self, message: str, status: int = 400, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Ask:
    """Hold what one request asks for."""

    kind: Kind
    model: str
    prompt: str
    prompt_tokens: int
    max_tokens: int
    stream: bool
    usage_in_stream: bool
    ignore_eos: bool
    greedy: bool
    seed: str
    paired: bool = False
    """Did a router pair it with a server that decodes?"""


def read(kind: Kind, raw: bytes, *, served: str, context: int) -> Ask:
    """Parse a request body; raise `BadRequest` for what the real server refuses."""
    try:
        body = json.loads(raw)
    except ValueError:
        raise BadRequest("request body is not valid JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("request body must be a JSON object")
    prompt, tokens = _chat(body) if kind == "chat" else _completion(body)
    if tokens >= context:
        raise BadRequest(
            f"The input ({tokens} tokens) is longer than the model's context length ({context} tokens)."
        )
    if _number(body, "n", 1, 1, 128) != 1:
        raise BadRequest("n above 1 is not simulated")
    room = context - tokens - 1
    default = 16 if kind == "completion" else room
    asked = body.get("max_completion_tokens") if kind == "chat" else None
    key = "max_completion_tokens" if asked is not None else "max_tokens"
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise BadRequest("stream_options must be an object")
    return Ask(
        kind=kind,
        model=_text(body, "model", served),
        prompt=prompt,
        prompt_tokens=tokens,
        max_tokens=int(min(room, _number(body, key, default, 1, 1 << 30))),
        stream=_flag(body, "stream"),
        usage_in_stream=bool(options.get("include_usage")),
        ignore_eos=_flag(body, "ignore_eos"),
        greedy=_number(body, "temperature", 1.0, 0.0, 10.0) == 0 or body.get("top_k") == 1,
        seed=str(body.get("seed") if body.get("seed") is not None else uuid.uuid4()),
        paired=body.get("bootstrap_room") is not None,
    )


def _completion(body: Mapping[str, Any]) -> tuple[str, int]:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return json.dumps(prompt), len(prompt)
    if not isinstance(prompt, str) or not prompt:
        raise BadRequest("prompt must be a non-empty string or list of token ids (batches are not simulated)")
    return prompt, count_tokens(prompt)


def _chat(body: Mapping[str, Any]) -> tuple[str, int]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a non-empty list")
    parts = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRequest("each message must be an object with a role")
        parts.append(f"<{message['role']}>{_content(message.get('content'))}")
    text = "\n".join(parts)
    return text, count_tokens(text) + 4 * len(parts)


def _content(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if content is not None and not isinstance(content, str):
        raise BadRequest("content must be a string or a list of parts")
    return content or ""


def _number(body: Mapping[str, Any], key: str, default: float, low: float, high: float) -> float:
    value = body.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadRequest(f"{key} must be a number from {low:g} to {high:g}, got {value!r}")
    return value


def _flag(body: Mapping[str, Any], key: str) -> bool:
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{key} must be true or false, got {value!r}")
    return bool(value)


def _text(body: Mapping[str, Any], key: str, default: str) -> str:
    value = body.get(key, default)
    if not isinstance(value, str):
        raise BadRequest(f"{key} must be a string, got {value!r}")
    return value


class Answer:
    """Render one answer, whole or as server-sent events."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._id = ("chatcmpl-" if ask.kind == "chat" else "cmpl-") + uuid.uuid4().hex
        self._created = int(time.time())
        self._first = True

    def usage(self, made: int) -> dict[str, Any]:
        """Return the token counts."""
        asked = self._ask.prompt_tokens
        return {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made}

    def whole(self, text: str, made: int, finish: str) -> dict[str, Any]:
        """Return the answer of a request that did not stream."""
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish, "matched_stop": None}
        if self._ask.kind == "chat":
            choice["message"] = {"role": "assistant", "content": text, "tool_calls": None}
        else:
            choice["text"] = text
        return {**self._head(False), "choices": [choice], "usage": self.usage(made)}

    def token(self, text: str) -> bytes:
        """Return the event of one token."""
        return self._event([self._choice(text, None)], None)

    def end(self, finish: str, made: int) -> bytes:
        """Return the last events: finish reason, usage when asked for, and the end mark."""
        events = self._event([self._choice("", finish)], None)
        if self._ask.usage_in_stream:
            events += self._event([], self.usage(made))
        return events + b"data: [DONE]\n\n"

    def _choice(self, text: str, finish: str | None) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
        if self._ask.kind == "completion":
            return {**choice, "text": text}
        delta: dict[str, Any] = {"content": text} if text else {}
        if self._first:
            delta["role"] = "assistant"
            self._first = False
        return {**choice, "delta": delta}

    def _head(self, stream: bool) -> dict[str, Any]:
        name = "chat.completion" if self._ask.kind == "chat" else "text_completion"
        if stream and self._ask.kind == "chat":
            name += ".chunk"
        return {"id": self._id, "object": name, "created": self._created, "model": self._ask.model}

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> bytes:
        body = {**self._head(True), "choices": choices, "usage": usage}
        return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
