"""Keep what a model is sent under a bound: older tool results become one line that says how to page them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.messages import NOTE
from agent.state import Message

KEEP_TURNS = 3
"""Latest turns whose results stay whole; only the very last one when these alone are too long."""

AIM = 0.6
"""Share of the bound that is left after cutting, so that the beginning of what is sent, which servers keep
computed, changes once in a while instead of with every turn."""

NEVER_CUT = frozenset({"hypothesis", "propose_change", "conclude"})
"""Tools whose results hold the ids that the rest of an investigation refers to (H1, E1, C1)."""

_CUT = NOTE + "cut to save room: "
_HANDLE = re.compile(r'"(t\d+\.\d+)"')
_IS_HANDLE = re.compile(r"t\d+\.\d+")
_HANDLES_SHOWN = 24
_LABEL_SHOWN = 120
_ARGUMENTS_SHOWN = 160


def tokens_of(messages: Iterable[Mapping[str, Any]]) -> int:
    """Estimate tokens as a quarter of the bytes in UTF-8."""
    return -(-sum(map(_size, messages)) // 4)


def compact(messages: Sequence[Message], limit: int) -> list[Message]:
    """Return the messages with as many older tool results cut as ``limit`` tokens ask for.

    Pure, and the same again for what it returns. Whatever stands in a message besides tool results stays,
    so calls and results keep their pairs; when all that may be cut is not enough, the rest stays as it is.
    """
    calls = _asked(messages)
    turns = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    kept = list(messages)
    bound, total, cut_to = limit * 4, 0, 0
    done = 0
    for number, place in enumerate([*turns[1:], len(messages)], start=1):
        total += sum(map(_size, messages[done:place]))
        done = place
        for keep in (KEEP_TURNS, 1):
            goal = bound * AIM if total > bound and keep == KEEP_TURNS else bound
            last = turns[max(number - keep, 0)] if turns else 0
            while total > goal and cut_to < last:
                total -= _cut(kept, cut_to, calls)
                cut_to += 1
    return kept


def folded(messages: Sequence[Message], calls: frozenset[str]) -> list[Message]:
    """Return the messages with the results of these calls cut to a line each, where that saves room."""
    asked = _asked(messages)
    kept = list(messages)
    for place, message in enumerate(messages):
        if message["role"] == "tool" and message["tool_call_id"] in calls:
            _cut(kept, place, asked)
    return kept


def foldable(messages: Sequence[Message], keep_turns: int = 1) -> list[str]:
    """Return the calls whose results can be folded now: all that save room, but those of the latest turns."""
    turns = [place for place, message in enumerate(messages) if message.get("tool_calls")]
    last = turns[-keep_turns] if len(turns) >= keep_turns else 0
    asked, kept = _asked(messages), list(messages)
    return [
        str(messages[place]["tool_call_id"])
        for place in range(last)
        if messages[place]["role"] == "tool" and _cut(kept, place, asked) > 0
    ]


def is_folded(message: Message) -> bool:
    """Tell whether a result has been cut to its line."""
    return message["role"] == "tool" and str(message["content"]).startswith(_CUT)


def _asked(messages: Sequence[Message]) -> dict[str, Mapping[str, Any]]:
    return {call["id"]: call["function"] for message in messages for call in message.get("tool_calls") or ()}


def _cut(messages: list[Message], place: int, calls: Mapping[str, Mapping[str, Any]]) -> int:
    """Replace one message by a line when that saves room; return the bytes saved."""
    message = messages[place]
    if message["role"] != "tool":
        return 0
    call = calls.get(message["tool_call_id"], {})
    content = str(message["content"])
    if call.get("name") in NEVER_CUT or content.startswith(_CUT):
        return 0
    short = {**message, "content": _line(call, content)}
    saved = _size(message) - _size(short)
    if saved <= 0:
        return 0
    messages[place] = short
    return saved


def _line(call: Mapping[str, Any], content: str) -> str:
    """Name the call, what it returned in bytes, and the artifacts behind it."""
    arguments = str(call.get("arguments", ""))
    if len(arguments) > _ARGUMENTS_SHOWN:
        arguments = arguments[:_ARGUMENTS_SHOWN] + "..."
    handles = _handles(content)
    shown = ", ".join(
        f"{name} ({what})" if what else name for name, what in [*handles.items()][:_HANDLES_SHOWN]
    )
    more = f" and {len(handles) - _HANDLES_SHOWN} more" if len(handles) > _HANDLES_SHOWN else ""
    first = next(iter(handles), "")
    kept = f"; artifacts {shown}{more}: read_file artifact={first} pages it" if handles else ""
    return f"{_CUT}{call.get('name', 'a call')} {arguments} returned {_bytes(content):,} bytes{kept}"


def _handles(content: str) -> dict[str, str]:
    """Return the artifact handles in a result, each with the path or label that stands beside it."""
    try:
        view = json.loads(content)
    except (ValueError, RecursionError):
        return dict.fromkeys(_HANDLE.findall(content), "")
    found: dict[str, str] = {}
    todo = [view]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += reversed(value)
        elif isinstance(value, dict):
            todo += reversed(value.values())
            for key, item in value.items():
                if isinstance(item, str) and _IS_HANDLE.fullmatch(item):
                    label = str(value.get("path", "")) if key == "artifact" else key
                    found.setdefault(item, " ".join(label.split())[:_LABEL_SHOWN])
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0][1:].split(".")]))


def _size(message: Mapping[str, Any]) -> int:
    content = message.get("content")
    size = _bytes(content) if isinstance(content, str) else 0
    rest = {key: value for key, value in message.items() if key not in ("role", "content", "tool_call_id")}
    return size + (len(json.dumps(rest)) if rest else 0) + 16


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
