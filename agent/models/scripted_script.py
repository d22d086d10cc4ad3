"""What the scripted server answers, and which of its answers go wrong in which way. No network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agent.errors import UsageError
from agent.models import ToolSchema
from agent.models.playbook import PlaybookModel
from agent.state import AssistantTurn, Message, ToolCall
from tools.wrong_fields import first_wrong

FaultKind = Literal[
    "401",  # the key is refused
    "429",  # too many requests, come back after a moment
    "500",  # an error inside the server
    "no-tools",  # 400: this model takes no tools
    "no-stream",  # 400: answers cannot be streamed
    "too-long",  # 400: more than the context length
    "html",  # 200 with the page of some other server
    "error-chunk",  # an error in place of a chunk
    "garbage",  # a chunk that is not JSON
    "cut",  # the connection ends in the middle
    "stall",  # silence in the middle
    "broken-call",  # arguments that end in the middle
    "parallel",  # the pieces of all calls in turn, ids in the first ones only
    "one-chunk",  # all calls whole in one chunk
    "no-index",  # calls without an index
    "same-index",  # every call under index 0
    "no-ids",  # calls without ids
    "same-ids",  # every call under the same id
    "no-usage",  # no count of tokens
]
FAULTS: tuple[FaultKind, ...] = get_args(FaultKind)


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ScriptCall(_Closed):
    """One tool call of a script; arguments are an object, or text when they are to be broken."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    id: str | None = None


class ScriptTurn(_Closed):
    """One turn of a script."""

    text: str = ""
    reasoning: str = ""
    tool_calls: list[ScriptCall] = Field(default_factory=list)


class Answers(Protocol):
    """Say what a model would answer."""

    async def __call__(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantTurn:
        """Return the turn that follows on the messages."""
        ...


def from_file(path: Path) -> Answers:
    """Return the answers of a script: a YAML or JSON list of turns."""
    import yaml

    try:
        turns = TypeAdapter(list[ScriptTurn]).validate_python(yaml.safe_load(path.read_text()))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", do="name a script file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not YAML or JSON: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise UsageError(
            f"{path}: {first_wrong(error).text}", do="write a list of turns: text, reasoning, tool_calls"
        ) from error
    return from_turns(turns)


def from_turns(turns: Sequence[ScriptTurn]) -> Answers:
    """Return answers in the order of a script; how far it has come, the messages alone tell."""

    async def answer(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantTurn:
        number = sum(message.get("role") == "assistant" and not _oriented(message) for message in messages)
        if number >= len(turns):
            return AssistantTurn(text="The script has no further turn.")
        turn = turns[number]
        calls = [
            ToolCall(
                id=call.id or f"s{number + 1}-{place}",
                name=call.name,
                arguments=call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
            )
            for place, call in enumerate(turn.tool_calls, 1)
        ]
        return AssistantTurn(text=turn.text, reasoning=turn.reasoning, tool_calls=calls)

    return answer


def by_method() -> Answers:
    """Return answers of the built-in method: the investigation it would make here, made through the wire."""

    async def answer(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantTurn:
        return await PlaybookModel().next_turn(_without_broken_rounds(messages), tools)

    return answer


def parse_faults(specs: Sequence[str]) -> Mapping[int, FaultKind]:
    """Read ``N:KIND`` for the N-th request; raise `UsageError` that lists the kinds."""
    plan: dict[int, FaultKind] = {}
    for spec in specs:
        number, _, name = spec.partition(":")
        kind = next((kind for kind in FAULTS if kind == name), None)
        if kind is None or not number.isdecimal() or int(number) < 1:
            raise UsageError(f"not a fault: {spec!r}", do=f"write N:KIND; kinds: {', '.join(FAULTS)}")
        plan[int(number)] = kind
    return plan


def break_calls(turn: AssistantTurn) -> AssistantTurn:
    """Cut the arguments of every call in the middle, so that none of the turn is carried out."""
    calls = [
        call.model_copy(update={"arguments": call.arguments[: max(1, len(call.arguments) // 2)]})
        for call in turn.tool_calls
    ]
    return turn.model_copy(update={"tool_calls": calls})


def _oriented(message: Message) -> bool:
    """Tell whether a turn is the one in which the program itself asked for facts."""
    calls = message.get("tool_calls") or []
    return bool(calls) and all(str(call.get("id", "")).startswith("orient-") for call in calls)


def _without_broken_rounds(messages: Sequence[Message]) -> list[Message]:
    """Leave out turns whose calls came through broken, so that the method takes the same step again."""
    broken = {
        message.get("tool_call_id")
        for message in messages
        if message.get("role") == "tool" and "arguments are not JSON" in str(message.get("content"))[:80]
    }
    kept: list[Message] = []
    dropped: set[Any] = set()
    for message in messages:
        ids = {call.get("id") for call in message.get("tool_calls") or []}
        if ids & broken:
            dropped |= ids
        elif message.get("tool_call_id") not in dropped or message.get("role") != "tool":
            kept.append(message)
    return kept
