"""The model that repeats a recording: its turns in order, as long as everything before them is the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agent.errors import LeadlineError, TranscriptError
from agent.events import (
    BudgetUsed,
    Ended,
    Event,
    Failed,
    Resumed,
    Started,
    SystemNote,
    ToolFinished,
    ToolStarted,
    TurnTaken,
    UserMessage,
)
from agent.messages import Messages
from agent.models import TOOL_PREFIX, ToolSchema, schema_digest
from agent.state import AssistantTurn, Message
from agent.transcript import check_order, read_events
from tools.artifacts import ArtifactStore

CUT_NOTE = " [cut: about "
"""Begins what stands at the end of a view that was too long."""


_BETWEEN = (Resumed, Failed, BudgetUsed, UserMessage, SystemNote)
"""What may stand between the events of one change without being part of it."""


class ReplayDiverged(LeadlineError):
    """Report where a replay does not go as its recording did."""


class RecordingOver(LeadlineError):
    """Report that a replay has come to where its recording ends."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Hold the events of a transcript as far as they can be repeated, and the outputs behind them."""

    started: Started
    events: Sequence[Event]
    store: ArtifactStore
    cut: str = ""
    """Why what follows is not repeated, empty when all is."""

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read a transcript with its ``artifacts`` folder beside it."""
        return cls.of(read_events(path), ArtifactStore(path.parent / "artifacts"), path)

    @classmethod
    def of(cls, events: Sequence[Event], store: ArtifactStore, path: Path) -> Recording:
        """Take events that were read from ``path`` already, and where their outputs lie."""
        check_order(events, path)
        if not events or not isinstance(events[0], Started):
            raise TranscriptError(f"{path} is empty", do="name a transcript file")
        place = _interruption(events)
        cut = f"a person spoke in the middle of turn {events[place].turn}" if place < len(events) else ""
        return cls(events[0], events[:place], store, cut)

    @property
    def turns(self) -> dict[int, TurnTaken]:
        """Return the turns of the model by number."""
        return {event.turn: event for event in self.events if isinstance(event, TurnTaken) and event.turn}

    @property
    def finished(self) -> dict[str, ToolFinished]:
        """Return what each call returned, by its short name (t1, t2, ...)."""
        return {event.call: event for event in self.events if isinstance(event, ToolFinished)}

    def trial(self, tool_call_id: str) -> list[Event]:
        """Return all that was recorded of a proposed change, from its start to its result."""
        told: list[Event] = []
        for event in self.events:
            mine = isinstance(event, ToolStarted) and event.tool_call_id == tool_call_id
            if (told or mine) and not isinstance(event, _BETWEEN):
                told.append(event)
            if isinstance(event, ToolFinished) and event.tool_call_id == tool_call_id:
                return told
        raise RecordingOver(f"the recording has no result of {tool_call_id}")

    @property
    def said(self) -> list[str]:
        """Return what a person said after an end, in order."""
        said = [event for event in self.events if isinstance(event, UserMessage)]
        return [event.text for event in said if not event.steers]

    @property
    def steered(self) -> dict[int, list[str]]:
        """Return what a person said while work went on, by the turn that was the first to hear it."""
        heard: dict[int, list[str]] = {}
        due: list[UserMessage] = []
        for event in self.events:
            if isinstance(event, UserMessage):
                due.append(event)
            elif isinstance(event, TurnTaken) and event.turn:
                split = len(due) - event.unheard
                heard[event.turn] = [one.text for one in due[:split] if one.steers]
                due = due[split:]
        return heard


def view_of(recorded: str) -> dict[str, Any]:
    """Return a recorded view as a tool returns it; one that was cut, and is no JSON, as a text in one."""
    try:
        view = json.loads(recorded)
    except ValueError:
        return {"recorded": recorded}
    return view if isinstance(view, dict) else {"recorded": recorded}


class ReplayModel:
    """Return recorded turns; raise `ReplayDiverged` with the first difference in what led to them.

    With ``same_tools`` a tool whose schema has changed since counts as a difference, too.
    """

    def __init__(self, recording: Recording, *, same_tools: bool = True) -> None:
        self.name = next((turn.model for turn in recording.turns.values()), "replay")
        self._turns = recording.turns
        self._schemas = {
            name.removeprefix(TOOL_PREFIX): digest
            for name, digest in recording.started.prompts.items()
            if name.startswith(TOOL_PREFIX) and same_tools
        }
        fold = Messages("")
        self._lengths: dict[int, int] = {}
        for event in recording.events:
            if isinstance(event, TurnTaken):
                self._lengths[event.turn] = len(fold.list) - event.unheard
            fold.feed(event)
        self._messages = fold.list

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        """Return the recorded turn that follows on ``messages``."""
        number = sum(message["role"] == "assistant" for message in messages)
        taken = self._turns.get(number)
        if taken is None:
            raise RecordingOver(f"the recording has no turn {number}")
        self._compare(number, messages, tools)
        on_text(taken.text)
        return AssistantTurn(
            text=taken.text, reasoning=taken.reasoning, tool_calls=taken.tool_calls, usage=taken.usage
        )

    def _compare(self, number: int, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> None:
        changed = [name for tool in tools if self._is_changed(name := tool["function"]["name"], tool)]
        if changed:
            raise ReplayDiverged(f"before turn {number}: the schema of tool {changed[0]} has changed")
        recorded = self._messages[1 : self._lengths[number]]
        if recorded == list(messages[1:]):
            return  # to look for a difference takes a hundred times as long as to see that there is none
        nothing: Message = {}
        now = [
            _comparable(before if before and _only_cut(before, message) else message)
            for before, message in zip_longest(recorded, messages[1:], fillvalue=nothing)
        ]
        difference = first_difference([_comparable(message) for message in recorded], now)
        if difference:
            raise ReplayDiverged(f"before turn {number}: message {difference}")

    def _is_changed(self, name: str, tool: ToolSchema) -> bool:
        return name in self._schemas and self._schemas[name] != schema_digest(tool)


def first_difference(recorded: Any, now: Any, path: str = "") -> str:
    """Return where two JSON values first differ and how, in a line; empty when they do not."""
    if recorded == now:
        return ""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*recorded, *now]):
            if found := first_difference(recorded.get(key), now.get(key), f"{path}.{key}".lstrip(".")):
                return found
        return ""
    if isinstance(recorded, list) and isinstance(now, list):
        for place in range(max(len(recorded), len(now))):
            before, after = (values[place] if place < len(values) else None for values in (recorded, now))
            if found := first_difference(before, after, f"{path}[{place}]"):
                return found
        return ""
    return f"{path}: recorded {_short(recorded)}, now {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:160]}... ({len(text)} characters)"


def _only_cut(recorded: Message, now: Message) -> bool:
    """Tell whether a recorded result, cut to fit and no JSON any more, is the beginning of what came now."""
    text, whole = str(recorded.get("content")), str(now.get("content"))
    kept, cut, _ = text.rpartition(CUT_NOTE)
    same_call = recorded.get("tool_call_id") == now.get("tool_call_id")
    return bool(cut) and same_call and (view_of(whole) == {"recorded": text} or whole.startswith(kept))


def _comparable(message: Message) -> Message:
    """Return a message with its result parsed, so that a difference is named by its field."""
    if message.get("role") != "tool":
        return message
    return {**message, "content": view_of(str(message["content"]))}


def _interruption(events: Sequence[Event]) -> int:
    """Return the place of the first words of a person that interrupted the work; all places when none did."""
    at_work = False
    for place, event in enumerate(events):
        if isinstance(event, UserMessage) and at_work and not event.steers:
            return place
        if isinstance(event, TurnTaken | Ended):
            at_work = isinstance(event, TurnTaken)
    return len(events)
