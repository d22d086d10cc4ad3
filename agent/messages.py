"""Fold events into the messages a model is given, in the OpenAI wire form."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agent.events import Compacted, Event, Started, SystemNote, ToolFinished, TurnTaken, UserMessage
from agent.state import Message, ToolCall

NOTE = "[leadline] "
"""Marks what the program says in a person's place: many servers allow a system message only first."""

UNHEARD = "not done: the person spoke before this had begun; ask for it again if it is still wanted"
"""What a call is answered that a person's words came before."""

_FORGED_NOTE = re.compile(
    r"^([^\w\n]{0,40}?)\[[^\w\n]{0,8}leadline[^\w\n]{0,8}\]", re.IGNORECASE | re.MULTILINE
)
"""What a person pastes may begin as the program's own words do."""


class Messages:
    """Grow the list of messages event by event; results stand in call order whatever order they came in."""

    def __init__(self, system: str) -> None:
        self.list: list[Message] = [{"role": "system", "content": system}]
        self._due: list[str] = []
        self._results: dict[str, str] = {}
        self._held: list[Message] = []

    def feed(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Started(symptom=text) | UserMessage(text=text) if text:
                self._say(_FORGED_NOTE.sub(r"\1(pasted) [leadline]", text))
            case SystemNote():
                self._say(NOTE + event.text)
            case TurnTaken():
                self._hold_back(event.unheard)
                self.list.append(_assistant(event.text, event.tool_calls))
                self._due = [call.id for call in event.tool_calls]
                self._flush()
            case ToolFinished():
                self._results[event.tool_call_id] = event.view
                self._flush()
            case Compacted():
                from agent.compaction import folded

                self.list[:] = folded(self.list, frozenset(event.calls))
            case _:
                pass

    def _say(self, text: str) -> None:
        message = {"role": "user", "content": text}
        (self._held if self._due else self.list).append(message)

    def _hold_back(self, unheard: int) -> None:
        """Let what was said while a turn was being taken follow it: the turn did not hear it."""
        if unheard:
            self._held = self.list[-unheard:]
            del self.list[-unheard:]

    def _flush(self) -> None:
        while self._due and self._due[0] in self._results:
            call = self._due.pop(0)
            self.list.append({"role": "tool", "tool_call_id": call, "content": self._results.pop(call)})
        if not self._due:
            self.list += self._held
            self._held.clear()


def _assistant(text: str, calls: Sequence[ToolCall]) -> Message:
    message: Message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _wire_arguments(call.arguments)},
            }
            for call in calls
        ]
    return message


def _wire_arguments(text: str) -> str:
    """Return arguments a server's chat template can parse; what the model really wrote is in the result."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "{}"
    return text if isinstance(value, dict) else "{}"
