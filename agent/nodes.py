"""The nodes of the graph that change no host: orient, reason, act, conclude.

A node may be entered again after a crash, so it first looks in the history whether its work is already done.
"""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from langgraph.runtime import Runtime

from agent.calls import refuse, run_calls
from agent.changing import plan_change
from agent.closing import checks_of, close
from agent.errors import ExitCode
from agent.events import ORIENTATION, SystemNote, TextDelta, TurnTaken
from agent.given_log import facts_calls
from agent.history import CONCLUDE
from agent.investigation import Investigation
from agent.spoken import UNHEARD, goes_first, hear_recorded
from agent.state import AssistantTurn, GraphState, ToolCall
from agent.toolless import without_tools
from agent.undoing import end_of_undo
from prompts.render import render


async def orient(state: GraphState, runtime: Runtime[Investigation]) -> GraphState:
    """Gather the facts of every host before the first turn, as calls that the model then sees."""
    work = runtime.context
    if 0 not in work.history.turns:
        calls = facts_calls(work.hosts)
        work.transcript.append(TurnTaken(turn=0, model=ORIENTATION, tool_calls=calls))
    await run_calls(work, work.history.turns[0])
    return {"route": "reason"}


async def reason(state: GraphState, runtime: Runtime[Investigation]) -> GraphState:
    """Take one turn of the model, if the budget allows one more."""
    work = runtime.context
    number = state["turn"] + 1
    if end_of_undo(work):
        return {"route": "end"}
    if number not in work.history.turns:
        spent = work.budget.spent()
        if spent is not None:
            work.end(
                "inconclusive", f"Budget used up: {spent}. {work.gathered()}", number - 1, ExitCode.BUDGET
            )
            return {"route": "end"}
        await _take_turn(work, number)
    calls = {call.name for call in work.history.turns[number].tool_calls}
    if not calls:
        return {"turn": number, "route": _without_call(work, number)}
    return {"turn": number, "route": "conclude" if calls == {CONCLUDE} else "act"}


async def act(state: GraphState, runtime: Runtime[Investigation]) -> GraphState:
    """Carry out the calls of the turn."""
    work = runtime.context
    turn = work.history.turns[state["turn"]]
    change = await run_calls(work, turn)
    if change is not None:
        return {"route": await plan_change(work, change)}
    concludes = any(call.name == CONCLUDE for call in turn.tool_calls)
    return {"route": "conclude" if concludes else "reason"}


async def conclude(state: GraphState, runtime: Runtime[Investigation]) -> GraphState:
    """Check the conclusion; failing claims go back once."""
    work = runtime.context
    turn = work.history.turns[state["turn"]]
    checks = await asyncio.to_thread(checks_of, work, turn)  # before it is asked what was said meanwhile
    hear_recorded(work, turn.turn + 1)
    if goes_first(work):
        for call in turn.tool_calls:
            if call.name == CONCLUDE and call.id not in work.history.finished:
                refuse(work, turn.turn, call, UNHEARD)
        return {"route": "reason", "sent_back": work.history.sent_back}
    ended = close(work, turn, checks)
    return {"route": "end" if ended else "reason", "sent_back": work.history.sent_back}


async def _take_turn(work: Investigation, number: int) -> None:
    schemas = work.schemas
    if work.is_last(number):
        schemas = [schema for schema in schemas if schema["function"]["name"] == CONCLUDE]
        _note(work, number, render("note_last_turn", turns=work.budget.limits.turns))
    hear_recorded(work, number)
    began, heard = 0.0, 0

    async def take() -> AssistantTurn:
        nonlocal began, heard
        began, heard = time.monotonic(), work.history.unheard
        # A copy: what is said meanwhile is not for this turn, however often its request is sent.
        return await work.model.next_turn(
            list(work.messages.list), schemas, lambda text: work.emit(TextDelta(text=text))
        )

    turn = await work.gate.take(take)
    taken = TurnTaken(
        turn=number,
        model=work.model.name,
        text=turn.text,
        reasoning=turn.reasoning,
        tool_calls=_unique(work, number, turn),
        usage=turn.usage,
        duration_s=round(time.monotonic() - began, 4),
        unheard=work.history.unheard - heard,
    )
    work.transcript.append_all([taken, work.budget.used(number, taken)])


def _unique(work: Investigation, number: int, turn: AssistantTurn) -> list[ToolCall]:
    """Return the calls under ids that no other call of the thread has: a call is done once per id."""
    calls: list[ToolCall] = []
    for place, call in enumerate(turn.tool_calls, 1):
        taken = call.id in work.history.names or any(call.id == other.id for other in calls)
        name = f"{call.id or 'call'}-{number}-{place}" if taken or not call.id else call.id
        calls.append(call.model_copy(update={"id": name}))
    return calls


def _without_call(work: Investigation, number: int) -> Literal["reason", "end"]:
    """Decide what a turn without a call means: an answer after the end, else a slip that may happen once."""
    hear_recorded(work, number + 1)
    if goes_first(work):
        return "reason"
    if work.history.ever_ended:
        return "end"
    if number in work.history.gave_up or work.is_last(number):
        said = without_tools(work) or work.history.turns[number].text
        work.end("inconclusive", said or f"The model stopped acting. {work.gathered()}", number)
        return "end"
    _note(work, number, render("note_act"))
    return "reason"


def _note(work: Investigation, number: int, text: str) -> None:
    if number not in work.history.noted:
        work.transcript.append(SystemNote(turn=number, text=text))
