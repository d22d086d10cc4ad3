"""What takes the next turn: one protocol, several models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agent.state import AssistantTurn, Message

ToolSchema = dict[str, Any]
"""One tool in the form of the chat completions API: ``{"type": "function", "function": {...}}``."""

TOOL_PREFIX = "tool:"
"""Marks the digest of a tool's schema among the digests that a transcript begins with."""


def schema_digest(schema: ToolSchema) -> str:
    """Return the sha256 of a tool as a model sees it, for the transcript."""
    return hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()


class Model(Protocol):
    """Take the next turn from what a language model would see: messages and tool schemas, nothing else."""

    name: str

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        """Return one turn; ``on_text`` receives text as it streams. Raise `ModelEndpointError` when down."""
        ...
