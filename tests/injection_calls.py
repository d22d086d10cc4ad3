"""A call that a model which obeys a hostile text would make."""

from __future__ import annotations

from typing import Any

Trick = tuple[str, dict[str, Any]]


def run_each(*commands: str) -> list[Trick]:
    """Return a call of `run` for each command."""
    return [("run", {"command": command}) for command in commands]
