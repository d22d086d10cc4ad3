"""A log that the person who asks gives along: kept like any output, shown to the model with its handle.

It stands in the orientation beside the facts of the hosts, as a reading of standard input. Nobody has read it
from a host, and the record says so: its host is ``stdin``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from agent.calls import finish, tool_context
from agent.events import ORIENTATION, STDIN, Event, Started, ToolFinished, ToolStarted, TurnTaken
from agent.state import ToolCall
from tools.contract import ArtifactRef, Capture
from tools.run import fit, whole_lines

if TYPE_CHECKING:
    from agent.investigation import Investigation

LABEL: Final = "the log on standard input"
CALL_ID: Final = "orient-log"
_FRAME: Final = 600


def facts_calls(hosts: Iterable[str]) -> list[ToolCall]:
    """Return the calls of the orientation: the facts of every host."""
    return [
        ToolCall(id=f"orient-{number}", name="facts", arguments=json.dumps({"host": host}))
        for number, host in enumerate(hosts, 1)
    ]


def give(work: Investigation, log: Capture, why_cut: str = "") -> ArtifactRef:
    """Record a log before the first turn; the facts of the hosts are gathered beside it as always."""
    call = ToolCall(id=CALL_ID, name="read_file", arguments=json.dumps({"path": "/dev/stdin"}))
    calls = [*facts_calls(work.hosts), call]
    work.transcript.append(TurnTaken(turn=0, model=ORIENTATION, tool_calls=calls))
    name = work.history.names[CALL_ID]
    work.transcript.append(
        ToolStarted(
            call=name,
            tool_call_id=CALL_ID,
            tool=call.name,
            describe=LABEL,
            arguments={"path": "/dev/stdin"},
        )
    )
    kept: list[ArtifactRef] = []
    whole = log.complete and not why_cut
    context = tool_context(work, call, kept)
    ref = context.keep(whole_lines(log), host=STDIN, label=LABEL, taken_at=datetime.now(UTC), complete=whole)
    shown = fit(work.store.get(ref.sha256), work.settings.tools.view_chars - _FRAME, ref.handle)
    view = {
        "host": STDIN,
        "path": LABEL,
        "note": "given by the person who asks; which machine and which time it is of, only its text can say",
        "artifact": ref.handle,
        "lines": shown.lines,
        "bytes": log.total,
        "complete": whole,
        "text": shown.text,
    }
    view |= {"left_out": why_cut or "the middle was too long to keep"} if not whole else {}
    view |= {"cut": shown.cut} if shown.cut else {}
    finish(work, 0, call, view, artifacts=kept)
    return ref


def lost(events: Sequence[Event]) -> bool:
    """Tell whether a thread that was killed had a log which it does not hold: its bytes came once.

    Its first line says that one is given. Of one written before that was said, the turn that gives it tells,
    or that there is no host.
    """
    if any(isinstance(one, ToolFinished) and one.tool_call_id == CALL_ID for one in events):
        return False
    asked = [call.id for one in events if isinstance(one, TurnTaken) for call in one.tool_calls]
    begun = next((one for one in events if isinstance(one, Started)), None)
    return CALL_ID in asked or (begun is not None and (begun.log or not begun.hosts))


def repeat(work: Investigation, events: Sequence[Event]) -> list[ArtifactRef]:
    """Give a replay the log that its recording was given; return the outputs that stand behind it."""
    turn = next((one for one in events if isinstance(one, TurnTaken)), None)
    if turn is None or all(call.id != CALL_ID for call in turn.tool_calls):
        return []
    mine = [
        one for one in events if isinstance(one, ToolStarted | ToolFinished) and one.tool_call_id == CALL_ID
    ]
    work.transcript.append_all([turn, *mine])
    return [ref for one in mine if isinstance(one, ToolFinished) for ref in one.artifacts]
