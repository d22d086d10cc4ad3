"""The one object that a script reads of an investigation, also where it stopped or could not begin."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from agent.errors import ExitCode
from agent.events import ConclusionChecked, Event, TurnTaken
from tools.display import visible_json

if TYPE_CHECKING:
    from agent.session import Session
    from agent.state import Conclusion

Stopped = Literal["approval_needed", "stopped", "error"]
"""Subtypes beside the outcomes of an investigation."""

WELL = (ExitCode.DONE, ExitCode.PROBLEM_FOUND)


def conclusion_of(session: Session) -> Conclusion | None:
    """Return the last conclusion that the verifier let pass."""
    found = [event for event in session.events if isinstance(event, ConclusionChecked) and event.accepted]
    return found[-1].conclusion if found else None


def result_of(
    session: Session, code: ExitCode, files: Sequence[str], *, stopped: Stopped = "stopped", why: str = ""
) -> dict[str, Any]:
    """Return the object for a session as it stands; ``why`` is what to say where it has no end."""
    events, ended = session.events, session.ended
    conclusion = conclusion_of(session) if ended is not None else None
    return {
        "schema_version": 1,
        "type": "result",
        "subtype": ended.outcome if ended is not None else stopped,
        "is_error": code not in WELL,
        "result": ended.summary if ended is not None else why,
        "session_id": session.thread,
        "num_turns": max(event.turn for event in events),
        "duration_ms": round(((ended or events[-1]).at - events[0].at).total_seconds() * 1000),
        "usage": _usage(events),
        "total_cost_usd": round(sum(_turns(events, "cost_usd")), 6),
        "exit_code": int(code),
        "conclusion": conclusion.model_dump(mode="json") if conclusion else None,
        "files": list(files),
    }


def nothing_began(code: ExitCode, why: str) -> dict[str, Any]:
    """Return the object for what could not begin: the same fields, with nothing in them."""
    return {
        "schema_version": 1,
        "type": "result",
        "subtype": "error",
        "is_error": True,
        "result": why,
        "session_id": None,
        "num_turns": 0,
        "duration_ms": 0,
        "usage": {"input_tokens": 0, "output_tokens": 0, "estimated": False},
        "total_cost_usd": 0.0,
        "exit_code": int(code),
        "conclusion": None,
        "files": [],
    }


def print_result(row: dict[str, Any]) -> None:
    """Print the object on one line of stdout."""
    sys.stdout.write(visible_json(json.dumps(row, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def _usage(events: Sequence[Event]) -> dict[str, int | bool]:
    return {
        "input_tokens": int(sum(_turns(events, "input_tokens"))),
        "output_tokens": int(sum(_turns(events, "output_tokens"))),
        "estimated": any(isinstance(event, TurnTaken) and event.usage.estimated for event in events),
    }


def _turns(events: Sequence[Event], name: str) -> list[float]:
    return [float(getattr(event.usage, name)) for event in events if isinstance(event, TurnTaken)]
