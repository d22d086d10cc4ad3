"""Put one turn together from what a chat completions endpoint sends, whatever its habits. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.compaction import tokens_of
from agent.models import ToolSchema
from agent.state import AssistantTurn, Message, ToolCall, Usage

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""What SGLang and DeepSeek, and what vLLM, call the thoughts before the answer."""

MAX_TURN_BYTES = 2_000_000
"""Longest answer that is listened to: a model caught in a loop never ends by itself."""

HTML = "it answered with an HTML page"

Piece = Mapping[str, Any]


class BrokenAnswer(Exception):
    """Say what is wrong with an answer that cannot be used; the turn may be asked for again."""


@dataclass(slots=True)
class _Call:
    """Hold one tool call while it arrives."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: str = ""

    @property
    def whole(self) -> bool:
        """Tell whether the arguments are a JSON object already."""
        try:
            return isinstance(json.loads(self.arguments), dict)
        except ValueError:
            return False


class TurnBuilder:
    """Take in the pieces of one answer and give the whole turn."""

    def __init__(self, on_text: Callable[[str], None] = lambda text: None) -> None:
        self._on_text = on_text
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._usage: Piece = {}
        self._size = 0
        self.finish: str | None = None

    @property
    def started(self) -> bool:
        """Tell whether anything of the answer has come."""
        return self._size > 0

    @property
    def shown(self) -> bool:
        """Tell whether a person has seen some of its text."""
        return bool(self._text)

    def feed(self, chunk: Any) -> None:
        """Take in one chunk of a stream; raise `BrokenAnswer` for what is none."""
        if not isinstance(chunk, Mapping):
            raise BrokenAnswer(f"it sent {str(chunk)[:80]!r} where a chunk was due")
        choice = self._choice(chunk)
        self._take(_part(choice, "delta"))
        pieces = _parts(_part(choice, "delta"), "tool_calls")
        for position, piece in enumerate(pieces):
            self._take_call(piece, position, len(pieces))

    def feed_whole(self, completion: Any) -> None:
        """Take in an answer that came in one piece."""
        if isinstance(completion, str) and completion.lstrip().startswith("<"):
            raise BrokenAnswer(HTML)
        if not isinstance(completion, Mapping):
            raise BrokenAnswer(f"it sent {str(completion)[:80]!r} where an answer was due")
        message = _part(self._choice(completion), "message")
        self._take(message)
        for piece in _parts(message, "tool_calls"):
            self._calls.append(self._fill(_Call(None), piece))

    def turn(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], prices: tuple[float, float]
    ) -> AssistantTurn:
        """Return the turn; raise `BrokenAnswer` when the answer broke off or says nothing.

        ``prices`` are US dollars for a million tokens in and out.
        """
        if self.finish is None:
            raise BrokenAnswer("the answer broke off in the middle" if self.started else "no answer came")
        text, reasoning = _without_thoughts("".join(self._text), "".join(self._reasoning))
        calls = [
            ToolCall(id=call.id, name=call.name, arguments=call.arguments or "{}") for call in self._calls
        ]
        if not (text.strip() or reasoning.strip() or calls):
            raise BrokenAnswer("the answer was empty")
        usage = self.usage(messages, tools, prices)
        return AssistantTurn(text=text, reasoning=reasoning, tool_calls=calls, usage=usage)

    def usage(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], prices: tuple[float, float]
    ) -> Usage:
        """Return what the answer used as the server counted it, else an estimate that is marked as one."""
        said_in, said_out = _count(self._usage, "prompt_tokens"), _count(self._usage, "completion_tokens")
        tokens_in = said_in if said_in is not None else tokens_of([*messages, *tools])
        tokens_out = said_out if said_out is not None else -(-self._size // 4)
        return Usage(
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cost_usd=round((tokens_in * prices[0] + tokens_out * prices[1]) / 1e6, 8),
            estimated=said_in is None or said_out is None,
        )

    def _choice(self, chunk: Piece) -> Piece:
        if isinstance(usage := chunk.get("usage"), Mapping):
            self._usage = usage
        choice = next(iter(_parts(chunk, "choices")), {})
        if reason := choice.get("finish_reason"):
            self.finish = str(reason)
        return choice

    def _take(self, piece: Piece) -> None:
        if text := _string(piece.get("content")):
            self._grow(text)
            self._text.append(text)
            self._on_text(text)
        thought = next((text for name in REASONING_FIELDS if (text := _string(piece.get(name)))), "")
        self._grow(thought)
        self._reasoning.append(thought)

    def _take_call(self, piece: Piece, position: int, together: int) -> None:
        index = piece.get("index")
        if isinstance(index, int):
            call = next((call for call in reversed(self._calls) if call.index == index), None)
        else:
            call = self._without_index(piece, position, together)
        if call is None or _begins_another(call, piece):
            call = _Call(index if isinstance(index, int) else None)
            self._calls.append(call)
        self._fill(call, piece)

    def _without_index(self, piece: Piece, position: int, together: int) -> _Call | None:
        """Return the call that a piece without an index goes on with: by its id, else by its place."""
        id_, name = _string(piece.get("id")), _name(piece)
        last = self._calls[-1] if self._calls else None
        same = next((call for call in reversed(self._calls) if id_ and call.id == id_), None)
        if same is not None or last is None:
            return same
        if id_ and name:
            # Some servers invent an id for every piece; then only the unfinished arguments tell.
            return last if last.name == name and last.arguments and not last.whole else None
        if not name and 1 < together <= len(self._calls):
            return self._calls[position - together]
        return last

    def _fill(self, call: _Call, piece: Piece) -> _Call:
        arguments = _part(piece, "function").get("arguments")
        text = json.dumps(arguments) if isinstance(arguments, dict | list) else _string(arguments)
        name = call.name or _name(piece)
        self._grow(text if call.name else text + name)
        call.id = call.id or _string(piece.get("id"))
        call.name = name
        call.arguments += text
        return call

    def _grow(self, text: str) -> None:
        self._size += len(text.encode("utf-8", "replace"))
        if self._size > MAX_TURN_BYTES:
            raise BrokenAnswer(f"the answer did not end within {MAX_TURN_BYTES:,} bytes")


def _begins_another(call: _Call, piece: Piece) -> bool:
    """Tell a further call from more of ``call``, for servers that give all of them the same index or id."""
    name, id_ = _name(piece), _string(piece.get("id"))
    if not name or not call.name:
        return False
    if call.whole:
        return bool(_part(piece, "function").get("arguments")) or bool(id_ and id_ != call.id)
    return not call.arguments and name != call.name


def _without_thoughts(text: str, reasoning: str) -> tuple[str, str]:
    """Move a leading ``<think>`` block, left in the text by a server without a parser, where it belongs."""
    head, end, tail = text.lstrip().partition("</think>")
    if not end or not head.startswith("<think>"):
        return text, reasoning
    return tail.lstrip(), reasoning + head.removeprefix("<think>").strip()


def _name(piece: Piece) -> str:
    return _string(_part(piece, "function").get("name"))


def _part(piece: Piece, key: str) -> Piece:
    value = piece.get(key)
    return value if isinstance(value, Mapping) else {}


def _parts(piece: Piece, key: str) -> list[Piece]:
    value = piece.get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(usage: Piece, key: str) -> int | None:
    value = usage.get(key)
    return value if isinstance(value, int) and value >= 0 else None
