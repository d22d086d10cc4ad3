"""Say what a run asked of a lab host that its scenario does not tell: a gap of the lab, not of the run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agent.events import Event, ToolFinished
from agent.models.replay import view_of

_NOT_FOUND = 127
"""Exit code of a shell for a command that is not there."""

_COMMAND = re.compile(r"(?:^|[:\s])([\w.+/-]+): (?:command )?not found", re.MULTILINE)
_PATH = re.compile(r"(/[^\s:'\"‘’]+)['’]?: No such file or directory")
_MISSING = re.compile(r"^(/\S+)(?: on \S+)? does not exist")
_ABSENT = re.compile(r"^HTTP/\S+ 404\b|error: 404\b|^\{\"detail\": ?\"Not Found\"\}", re.MULTILINE)
_URL = re.compile(r"https?://[^/\s'\"]+(/[^\s'\"|]*)")


def not_recorded(events: Sequence[Event]) -> list[str]:
    """Return, each once, the commands, paths and addresses that a host of the lab could not answer."""
    found: dict[str, None] = {}
    for event in events:
        if isinstance(event, ToolFinished):
            found |= dict.fromkeys(_gaps(event.tool, view_of(event.view)))
    return list(found)


def _gaps(tool: str, view: dict[str, Any]) -> Iterator[str]:
    if missing := _MISSING.match(str(view.get("error", ""))):
        yield f"path {missing[1]}"
    if tool not in ("run", "bash"):
        return
    said = str(view.get("stderr", ""))
    yield from (f"path {path}" for path in _PATH.findall(said))
    yield from _commands(view, said)
    if _ABSENT.search(f"{view.get('stdout', '')}\n{said}"):
        yield from (f"address {path}" for path in _URL.findall(str(view.get("command", ""))))


def _commands(view: dict[str, Any], said: str) -> Iterator[str]:
    named = _COMMAND.findall(said)
    yield from (f"command {name}" for name in named)
    if view.get("exit_code") == _NOT_FOUND and not named:
        yield f"command {str(view.get('command', '')).split(' ', 1)[0]}"
