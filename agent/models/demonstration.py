"""The model that a person is: every turn is asked for, by hand or from a script of turns.

Guards, ledger, verifier and transcript are those of any other model, so a demonstration is rated like one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.errors import LeadlineError, UsageError
from agent.models import ToolSchema
from agent.state import AssistantTurn, Message, ToolCall
from tools.wrong_fields import first_wrong

NAME = "demonstration"

Ask = Callable[[Sequence[Message], Sequence[ToolSchema]], Awaitable[AssistantTurn]]
"""Returns the turn that follows on what was said and shown so far."""


class DemonstrationStopped(LeadlineError):
    """Report that nobody takes the next turn: the script is at its end, or the person left."""


class DemonstrationModel:
    """Take the turns that somebody else decides on."""

    name = NAME

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        """Return the turn that was asked for."""
        turn = await self._ask(messages, tools)
        on_text(turn.text)
        return turn


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DemonstratedCall(_Closed):
    """One tool call of a script."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class DemonstratedTurn(_Closed):
    """One turn of a script: what is said, and the calls that are made side by side."""

    say: str = ""
    calls: list[DemonstratedCall] = Field(default_factory=list)


def read_script(path: Path) -> list[DemonstratedTurn]:
    """Read a script: a JSON object a line, one turn each; raise `UsageError` naming line and field.

    A line is ``{"say": ..., "calls": [{"tool": ..., "arguments": {...}}]}``, or a single call by itself.
    Empty lines and those that begin with ``#`` are left out.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}", do="name a file of JSON lines") from error
    turns = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            turns.append(_turn(line, f"{path}:{number}"))
    return turns


def _turn(line: str, where: str) -> DemonstratedTurn:
    try:
        raw = json.loads(line)
        if isinstance(raw, dict) and "tool" in raw:
            call = {name: value for name, value in raw.items() if name != "say"}
            raw = {"say": raw.get("say", ""), "calls": [call]}
        return DemonstratedTurn.model_validate(raw)
    except ValidationError as error:
        found = first_wrong(error, "line", DemonstratedTurn)
        raise UsageError(f"{where}: {found.text}", do=found.do) from error
    except ValueError as error:
        raise UsageError(f"{where}: line: not JSON: {error}") from error


def from_script(turns: Sequence[DemonstratedTurn]) -> Ask:
    """Return what takes the turns of a script in order; how far it has come, the messages alone tell."""

    async def ask(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantTurn:
        number = sum(message["role"] == "assistant" for message in messages)
        number -= any(_calls(message)[:1] == ["orient-1"] for message in messages)
        if number >= len(turns):
            raise DemonstrationStopped(
                f"the script has no turn {number + 1}, and nothing was concluded", do="add the turns to it"
            )
        views = _views(messages)
        turn = turns[number]
        calls = [
            ToolCall(
                id=f"d{number + 1}-{place}",
                name=call.tool,
                arguments=json.dumps(_filled(call.arguments, views), ensure_ascii=False),
            )
            for place, call in enumerate(turn.calls, 1)
        ]
        return AssistantTurn(text=turn.say, tool_calls=calls)

    return ask


def _calls(message: Message) -> list[str]:
    return [str(call.get("id")) for call in message.get("tool_calls") or []]


def _views(messages: Sequence[Message]) -> dict[str, str]:
    """Return what each call returned, under its short name (t1, t2, ...)."""
    results = {
        str(message["tool_call_id"]): str(message["content"])
        for message in messages
        if message["role"] == "tool"
    }
    ids = [ident for message in messages for ident in _calls(message)]
    return {f"t{number}": results.get(ident, "") for number, ident in enumerate(ids, 1)}


def _filled(value: Any, views: Mapping[str, str]) -> Any:
    """Fill in what differs from run to run: ``{"$view": "t3", "match": PATTERN}`` is what its group finds."""
    if isinstance(value, list):
        return [_filled(item, views) for item in value]
    if not isinstance(value, dict):
        return value
    if "$view" not in value:
        return {name: _filled(item, views) for name, item in value.items()}
    view, pattern = views.get(str(value["$view"]), ""), str(value.get("match", ""))
    found = re.search(pattern, view)
    if found is None:
        raise DemonstrationStopped(
            f"nothing in the result of {value['$view']} matches {pattern!r}", do="adapt the script"
        )
    text = found[1] if found.re.groups else found[0]
    return float(text) if value.get("number") else text
