"""Carry out the tool calls of a turn: each once, results kept as they come, problems told to the model."""

from __future__ import annotations

import asyncio
import difflib
import json
import time
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final, Literal, TypeVar

from pydantic import ValidationError

from agent.actions import ACTION_ARGS, HypothesisArgs, ProposeChangeArgs
from agent.audit_scope import acting
from agent.events import Event, Progress, ToolFinished, ToolStarted, TurnTaken
from agent.hand_over import handed_over
from agent.history import CONCLUDE
from agent.investigation import Investigation
from agent.measuring import MEASURE
from agent.spoken import UNHEARD
from agent.state import ToolCall
from tools.contract import Args, ArtifactRef, ToolContext, ToolError
from tools.display import printable
from tools.policy_settings import SWITCHED_OFF
from tools.wrong_fields import bare

PROPOSE_CHANGE: Final = "propose_change"
"""The call that leads to review and experiment in mode ``apply``."""

AT_ONCE = 6
"""Calls that run side by side; a connection carries about 8 channels."""

DEEPEST = 40
"""Levels of lists and objects in the arguments of a call; no tool takes more than a few."""

M = TypeVar("M", bound=Args)
Status = Literal["ok", "tool_error"]


async def run_calls(work: Investigation, turn: TurnTaken) -> ToolCall | None:
    """Do every call of a turn that has no result yet, except the conclusion.

    Reads that stand next to each other run side by side; what writes (the ledger) runs alone, in order.
    In mode ``apply`` a proposed change is not done here: it is returned, and what follows it waits.
    """
    due = [call for call in turn.tool_calls if call.name != CONCLUDE and call.id not in work.history.finished]
    for side_by_side, group in groupby(due, key=lambda call: _is_read(work, call)):
        calls = list(group)
        if side_by_side and len(calls) > 1:
            await _side_by_side(work, turn.turn, calls)
            continue
        for call in calls:
            if call.name == PROPOSE_CHANGE and work.mode == "apply":
                if not (told := work.ports.told(call.id)):
                    return call
                work.transcript.append_all(told)
                continue
            await _do(work, turn.turn, call)
    return None


def start(work: Investigation, number: int, call: ToolCall) -> dict[str, Any]:
    """Record the intent of a call, once; return its arguments, empty when they cannot be read."""
    try:
        raw = _parsed(call)
    except ToolError:
        raw = {}
    if call.id not in work.history.begun:
        tool = work.tools.get(call.name)
        event = ToolStarted(
            turn=number,
            call=work.history.names[call.id],
            tool_call_id=call.id,
            tool=call.name,
            host=_host(work, raw),
            describe=printable(tool.describe(raw) if tool else call.name),
            arguments=raw,
        )
        work.transcript.append(event, durable=tool is not None and not tool.read_only)
    return raw


def finish(
    work: Investigation,
    number: int,
    call: ToolCall,
    view: Mapping[str, Any],
    *,
    status: Status = "ok",
    events: list[Event] | None = None,
    artifacts: list[ArtifactRef] | None = None,
    began: float | None = None,
) -> None:
    """Record the result of a call, and in one piece with it the events that the call caused."""
    done = ToolFinished(
        turn=number,
        call=work.history.names[call.id],
        tool_call_id=call.id,
        tool=call.name,
        host=_host(work, view),
        status=status,
        view=_view_text(work, view),
        artifacts=artifacts or [],
        duration_s=round(time.monotonic() - began, 4) if began is not None else 0.0,
    )
    caused = [event.model_copy(update={"turn": number}) for event in events or []]
    work.transcript.append_all([*caused, done])


def refuse(work: Investigation, number: int, call: ToolCall, why: str) -> None:
    """Answer a call that is not carried out with the reason."""
    start(work, number, call)
    finish(work, number, call, {"error": why}, status="tool_error")


def validated(args: type[M], call: ToolCall) -> M:
    """Return the arguments of a call as its model; raise `ToolError` naming each field that is wrong."""
    raw = _parsed(call)
    try:
        return args.model_validate(raw)
    except ValidationError as error:
        wrong = [
            f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {bare(item['msg'])}"
            for item in error.errors()[:5]
        ]
        known = ", ".join(args.model_fields)
        raise ToolError(f"arguments of {call.name}: {'; '.join(wrong)} (fields: {known})") from error


async def _do(work: Investigation, number: int, call: ToolCall) -> None:
    began = time.monotonic()
    again = call.id in work.history.begun
    if not again:
        await work.gate.passed()
        if number and work.history.unheard and _weighs(work, call):
            refuse(work, number, call, UNHEARD)
            return
    raw = start(work, number, call)
    kept: list[ArtifactRef] = []
    try:
        if work.is_last(number):
            raise ToolError("all turns are used: only `conclude` is accepted now")
        if call.name in ACTION_ARGS:
            step = (
                work.ledger.hypothesis(validated(HypothesisArgs, call), work.store)
                if call.name == "hypothesis"
                else handed_over(work, work.ledger.propose_change(validated(ProposeChangeArgs, call)))
            )
            finish(work, number, call, step.view, events=step.events, began=began)
            return
        view = await _use_tool(work, call, raw, kept, again=again)
    except ToolError as error:
        problem = {"error": str(error)}
        finish(work, number, call, problem, status="tool_error", artifacts=kept, began=began)
    else:
        finish(work, number, call, view, artifacts=kept, began=began)


async def _use_tool(
    work: Investigation, call: ToolCall, raw: dict[str, Any], kept: list[ArtifactRef], *, again: bool
) -> dict[str, Any]:
    tool = work.tools.get(call.name)
    if tool is None:
        raise ToolError(_no_tool(work, call.name))
    if again and not tool.read_only:
        raise ToolError(
            "this was started before the program stopped, so whether it was done is unknown: read the host"
        )
    args = validated(tool.args, call)
    work.ledger.may_read_source(call.name, raw)
    with acting(work.thread, printable(tool.describe(raw)), reads=tool.read_only):
        return await tool.run(tool_context(work, call, kept), args)


def tool_context(work: Investigation, call: ToolCall, kept: list[ArtifactRef]) -> ToolContext:
    """Return what a tool works with in a call; what it keeps is added to ``kept``."""
    name = work.history.names[call.id]
    return ToolContext(
        call_id=name,
        hosts=work.hosts,
        store=work.store,
        redact=work.redact,
        settings=work.settings.tools,
        cache=work.cache,
        cache_dir=work.settings.cache_dir,
        progress=lambda text: work.emit(Progress(call=name, text=text)),
        artifacts=work.history.artifacts,
        kept=kept,
    )


def _is_read(work: Investigation, call: ToolCall) -> bool:
    tool = work.tools.get(call.name)
    return tool is not None and tool.read_only


def _weighs(work: Investigation, call: ToolCall) -> bool:
    """Tell whether a call writes, or puts load on a server: such a one is not begun over a person's words."""
    tool = work.tools.get(call.name)
    return tool is not None and (call.name == MEASURE or not tool.read_only)


def _parsed(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; `ToolError` for what is no object, or could not be stored and sent."""
    try:
        raw = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise ToolError(
            f"arguments are not JSON ({error}); they began {call.arguments[:120]!r}; send one JSON object"
        ) from error
    if not isinstance(raw, dict):
        raise ToolError(f"arguments must be one JSON object, not {call.arguments[:120]!r}")
    if _may_offend(call.arguments):
        _check_values(raw)
    return raw


def _may_offend(arguments: str) -> bool:
    """Tell from the text alone whether arguments may be nested too deep or hold half a surrogate pair."""
    return (
        arguments.count("{") + arguments.count("[") > DEEPEST or "\\u" in arguments or not arguments.isascii()
    )


def _check_values(raw: dict[str, Any]) -> None:
    """Refuse what neither a transcript nor a command can hold: endless nesting, half a surrogate pair."""
    level: list[Any] = [raw]
    for _ in range(DEEPEST):
        lists = [item if isinstance(item, list) else item.values() for item in level]
        level = [item for items in lists for item in items if isinstance(item, dict | list)]
    if level:
        raise ToolError(f"arguments are nested deeper than {DEEPEST} levels; send the fields of the schema")
    try:
        json.dumps(raw, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ToolError("arguments hold half a surrogate pair (\\ud800 to \\udfff); send text") from error


def _host(work: Investigation, fields: Mapping[str, Any]) -> str | None:
    named = fields.get("host")
    if isinstance(named, str):
        return named
    return next(iter(work.hosts)) if len(work.hosts) == 1 else None


def _no_tool(work: Investigation, name: str) -> str:
    if name == "run" and not work.settings.policy.free_form:
        return SWITCHED_OFF
    known = [*work.tools, *ACTION_ARGS]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"no tool named {name!r}; {hint}there are: {', '.join(known)}"


def _view_text(work: Investigation, view: Mapping[str, Any]) -> str:
    """Return a view as the model sees it: bounded, and nothing in it that a terminal would obey.

    The transcript redacts it on the way in; what has to be cut is redacted before, since half a secret
    is not known for one.
    """
    text = _json(view)
    if printable(text) != text:
        text = _json(_visible(view))
    limit = work.settings.tools.view_chars
    if len(text) <= limit:
        return text
    text = work.redact(text.encode("utf-8", "replace")).decode("utf-8", "replace")
    note = f" [cut: about {limit} of {len(text)} characters shown; page on with the artifact handles]"
    return text[: limit - len(note)] + note


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _visible(value: Any) -> Any:
    """Escape inside the strings, so that the whole stays JSON."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(str(key)): _visible(item) for key, item in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list | tuple) else value


async def _side_by_side(work: Investigation, number: int, calls: Iterable[ToolCall]) -> None:
    """Do calls at the same time; when one fails, stop the others before its error goes on."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(call: ToolCall) -> None:
        async with gate:
            await _do(work, number, call)

    tasks = [asyncio.create_task(one(call)) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
