"""Take a kept change back: a thread of its own, with one plan, one approval, and one transaction.

The thread goes through the same graph as every change, so review, approval, lock, records and the rollback
timer are the same ones. Nothing is measured: a person wants the old state, and gets it when it runs.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agent import threads
from agent.errors import ExitCode, TranscriptError
from agent.events import ChangeMoved, Started, UndoAsked
from agent.investigation import Investigation
from agent.models import ToolSchema
from agent.state import AssistantTurn, Change, Message, Outcome, ToolCall
from agent.transcript import peek_events
from tools.contract import ToolError
from tools.service_types import ChangePlan

if TYPE_CHECKING:
    from agent.config import Settings
    from agent.kept import Kept

ID = "C1"
"""The one change of such a thread."""


class UndoModel:
    """Take the one turn of a thread that takes a kept change back."""

    name = "undo"

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        """Ask for the change; what it is stands in the thread's record."""
        call = ToolCall(id="undo", name="propose_change", arguments=json.dumps({"undo": True}))
        return AssistantTurn(text="", tool_calls=[call])


def thread_for(settings: Settings, kept: Kept) -> tuple[str, bool]:
    """Return the thread that takes a kept change back, and whether it was begun before and has no end.

    One that cannot be read any more is left as it is and another begun: whether its change is still under way
    is asked of the host, by the execution ledger, before anything is changed.
    """
    for number in itertools.count(1):
        name = f"undo-{kept.plan.id}" + (f"-{number}" if number > 1 else "")
        folder = threads.folder_of(settings, name)
        if not folder.exists():
            return name, False
        if _has_no_end(folder / "transcript.jsonl"):
            return name, True
    raise AssertionError("numbers have no end")


def _has_no_end(path: Path) -> bool:
    """Tell whether a thread can be read, was begun, and has not come to its end."""
    try:
        events = peek_events(path)
    except (TranscriptError, FileNotFoundError):
        return False
    begun = bool(events) and isinstance(events[0], Started)
    return begun and not any(event.type == "ended" for event in events)


def asked(work: Investigation) -> UndoAsked:
    """Return which kept change the thread is to take back."""
    assert work.trials.undo is not None  # callers have looked
    return work.trials.undo


async def plan_undo(work: Investigation) -> tuple[Change, list[ChangeMoved], ChangePlan]:
    """Return the change that takes a kept one back, its event where it is new, and its plan."""
    wanted = asked(work)
    kept = ChangePlan.model_validate(wanted.plan)
    host = work.hosts.get(kept.host)
    if host is None:
        raise ToolError(f"{kept.host} is not a host of this thread")
    plan = await work.ports.make_undo(host, kept, _now())
    before = work.ledger.changes.get(ID)
    change = _change(wanted, kept, plan)
    if before is not None and before == change.model_copy(update={"status": before.status}):
        return before, [], plan
    return change, [ChangeMoved(turn=work.history.last_turn, change=change)], plan


def proposed(work: Investigation) -> Change:
    """Return the change as it was asked for, for an answer where no plan could be made."""
    wanted = asked(work)
    kept = ChangePlan.model_validate(wanted.plan)
    return work.ledger.changes.get(ID) or _change(wanted, kept, None)


def _change(wanted: UndoAsked, kept: ChangePlan, plan: ChangePlan | None) -> Change:
    return Change(
        id=ID,
        host=kept.host,
        unit=kept.unit,
        setting=kept.setting,
        from_value=kept.to_value,
        to_value=plan.to_value if plan is not None else kept.from_value,
        reason=f"{wanted.by} takes {wanted.change} of {wanted.thread} back, kept by the plan {kept.id}.",
        hypotheses=[],
        predicted_effect="The state before that change; its effect goes with it.",
        mechanism="That of the change, the other way.",
        rollback=f"{kept.dropin_path} is put back as it is.",
    )


def _now() -> datetime:
    return datetime.now(UTC)


def end_of_undo(work: Investigation) -> bool:
    """End a thread that takes a change back, once its one call has its answer; tell whether it has."""
    if work.trials.undo is None or "undo" not in work.history.finished:
        return False
    view = json.loads(work.history.finished["undo"].view)
    result = view.get("result", "not_applied")
    outcome: Outcome = {"kept": "fixed", "needs_person": "needs_person"}.get(result, "inconclusive")  # type: ignore[assignment]
    wanted = work.trials.undo
    words = {
        "kept": "was taken back",
        "rolled_back": "could not be taken back and stands as before",
        "denied": "was not taken back",
        "needs_person": "may or may not have been taken back; look at the host",
    }.get(result, "was not taken back")
    said = view.get("why") or view.get("error") or ""
    work.end(
        outcome,
        f"{wanted.change} of {wanted.thread} {words}: {said}",
        work.history.last_turn,
        ExitCode.DONE if result == "kept" else ExitCode.ERROR,
    )
    return True
