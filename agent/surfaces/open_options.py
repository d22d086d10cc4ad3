"""The flags of every command that opens an investigation; light, so that help texts stay fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.state import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """Hold the flags that say where a session works, by which model, and what it may do."""

    host: str
    resume: str | None = None
    mode: Mode = "read-only"
    model: str | None = None
    base_url: str | None = None
    allow_load: bool | None = None
    allow_in_flight: bool = False
    send_rg: bool = False
    max_turns: int | None = None
    timeout_s: float | None = None
