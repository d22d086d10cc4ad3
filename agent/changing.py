"""The nodes that change a host in mode ``apply``: review waits for a person, experiment tries one change.

`plan_change` belongs to the node `act`: it only reads. Review holds nothing but the interrupt, since a node
runs from its first line again when a decision comes. Experiment looks in the transcript how far it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from agent.actions import ProposeChangeArgs
from agent.approvals import problem, void, withdraw
from agent.audit_scope import acting
from agent.calls import finish, start, validated
from agent.events import ChangeMoved, Event, PlanMade
from agent.experiment import Experiment, Undo
from agent.hand_over import WHY, engines_of, instructions
from agent.investigation import Investigation
from agent.leases import leased
from agent.measuring import MEASURE
from agent.spoken import UNHEARD
from agent.state import Change, GraphState, ToolCall
from agent.transcript import mask
from agent.trial_view import Result, trial_view
from agent.trials import Trial
from agent.undoing import ID as UNDO
from agent.undoing import plan_undo
from agent.undoing import proposed as to_undo
from agent.unsettled import settle_open
from tools.contract import ToolContext, ToolError
from tools.display import printable
from tools.lease import Overtaken
from tools.process import load_process
from tools.service_types import ChangePlan, ChangeRequest
from tools.service_types import ChangeStatus as Standing

PLANS_A_CHANGE = 3
"""How often a change is planned anew because nobody decided, or acted, in time."""


async def review(state: GraphState, runtime: Runtime[Investigation]) -> GraphState:
    """Wait for a person; hold no side effect."""
    trial = runtime.context.trials.open
    if trial is None:
        return {"route": "act"}
    decision = interrupt({"change": trial.made.change, "digest": trial.made.digest})
    if decision["decision"] == "void":
        return {"route": "act"}
    return {"route": "experiment", "approved": str(decision["digest"])}


async def experiment(state: GraphState, runtime: Runtime[Investigation]) -> GraphState:
    """Carry out what was decided; the turn's other calls come after it."""
    work = runtime.context
    trial = work.trials.open
    if trial is not None and trial.void is None:
        await _carry_out(work, trial, state.get("approved", ""))
    return {"route": "act"}


async def _carry_out(work: Investigation, trial: Trial, approved: str) -> None:
    call = _call_of(work, trial)
    change = work.ledger.changes[trial.made.change]
    given = trial.given
    if given is not None and given.decision == "denied" and not trial.actions:
        said = f"{given.by} denied it{': ' + given.reason if given.reason else ''}"
        _close(work, call, change, trial, "denied", said)
        return
    host = work.hosts.get(change.host)
    if not trial.actions:
        why = problem(work, trial, change, host.key_fingerprint if host else None, approved)
        if why is not None:
            void(work, trial, why)
            return
    held = work.hosts[trial.plan.host]
    with acting(work.thread, f"try {change.id}", change=change.id, digest=trial.made.digest):
        try:
            async with leased(work, held, trial.plan, begun=bool(trial.actions)):
                busy = None if trial.actions else await settle_open(work, held, trial.plan)
                if busy is not None:
                    _close(work, call, change, trial, "not_applied", busy)
                    return
                kind = Undo if trial.plan.undoes is not None else Experiment
                await kind(work, trial, call).run(approved)
        except Overtaken as error:
            # Waiting would not help: what was approved was read before somebody else's change.
            void(work, trial, str(error))


async def plan_change(work: Investigation, call: ToolCall) -> Literal["review", "act"]:
    """Take a `propose_change` call as far as a plan that a person can approve; else answer it."""
    number = work.history.last_turn
    trial = work.trials.open
    if trial is not None and trial.void is None:
        return "review"
    start(work, number, call)
    if work.history.unheard:
        return _unheard(work, call)
    if work.trials.undo is not None:
        return await _plan_undo(work, call, trial)
    try:
        change, proposed = _proposed(work, call, trial)
    except ToolError as error:
        finish(work, number, call, {"error": str(error)}, status="tool_error")
        return "act"
    if steps := instructions(work, change):
        change = change.model_copy(update={"instructions": steps})
        moved: list[Event] = [ChangeMoved(turn=number, change=change)]
        _close(work, call, change, trial, "not_applied", WHY, moved)
        return "act"
    try:
        plan = await _plan(work, change)
    except ToolError as error:
        _close(work, call, change, trial, "not_applied", str(error), proposed)
        return "act"
    if work.history.unheard:
        return _unheard(work, call)
    return _made(work, call, change, plan, proposed)


def _made(
    work: Investigation, call: ToolCall, change: Change, plan: ChangePlan, proposed: Sequence[Event]
) -> Literal["review"]:
    """Record a plan, and in one piece with it the change that it is of."""
    made = PlanMade(
        turn=work.history.last_turn,
        change=change.id,
        tool_call_id=call.id,
        plan=plan.model_dump(mode="json"),
        digest=plan.digest(),
    )
    work.transcript.append_all([*proposed, made], durable=True)
    return "review"


async def _plan_undo(work: Investigation, call: ToolCall, trial: Trial | None) -> Literal["review", "act"]:
    """Take the one call of a thread that takes a kept change back as far as a plan; else answer it."""
    try:
        if work.trials.plans.get(UNDO, 0) >= PLANS_A_CHANGE:
            raise ToolError("nobody decided in time, however often it was planned anew")
        change, moved, plan = await plan_undo(work)
        _refuse_to_disturb(work, plan)
        _refuse_hidden(work, plan)
    except ToolError as error:
        change = to_undo(work)
        moved = [] if change.id in work.ledger.changes else [ChangeMoved(change=change)]
        _close(work, call, change, trial, "not_applied", str(error), list(moved))
        return "act"
    if work.history.unheard:
        return _unheard(work, call)
    return _made(work, call, change, plan, moved)


def _unheard(work: Investigation, call: ToolCall) -> Literal["act"]:
    """Answer a proposed change that a person spoke before: nobody is asked to approve it."""
    finish(work, work.history.last_turn, call, {"error": UNHEARD}, status="tool_error")
    return "act"


def _proposed(work: Investigation, call: ToolCall, trial: Trial | None) -> tuple[Change, list[Event]]:
    """Return the change of a call, and the event that records it when it is new."""
    if work.is_last(work.history.last_turn):
        raise ToolError("all turns are used: only `conclude` is accepted now")
    if trial is not None:
        return work.ledger.changes[trial.made.change], []
    step = work.ledger.propose_change(validated(ProposeChangeArgs, call))
    moved = step.events[0]
    assert isinstance(moved, ChangeMoved)  # what the ledger returns for a change
    return moved.change, [moved.model_copy(update={"turn": work.history.last_turn})]


async def _plan(work: Investigation, change: Change) -> ChangePlan:
    """Read the host and return the plan; raise `ToolError` when the change may not be tried."""
    host = work.hosts[change.host]
    if work.trials.plans.get(change.id, 0) >= PLANS_A_CHANGE:
        raise ToolError("nobody decided in time, however often it was planned anew")
    if change.host in work.trials.unsettled:
        raise ToolError(
            f"how {change.host} stands after {work.trials.unsettled[change.host]} is not known; a person has "
            "to look before anything else is changed there"
        )
    if not work.settings.tools.allow_load or MEASURE not in work.tools:
        raise ToolError(
            "a change is kept only when it is measured, and this site does not allow load (--allow-load, or "
            "`allow_load = true` under [tools])"
        )
    request = ChangeRequest(
        unit=change.unit, setting=change.setting, from_value=change.from_value, to_value=change.to_value
    )
    plan = await work.ports.service.make_plan(
        host, request, port=await _port(work, change), now=datetime.now(UTC)
    )
    _refuse_to_disturb(work, plan)
    told = await work.ports.check_line(_context(work), host, plan)
    plan = plan.model_copy(update={"blast_radius": [*told, *plan.blast_radius]})
    _refuse_hidden(work, plan)
    return plan


def _refuse_hidden(work: Investigation, plan: ChangePlan) -> None:
    """Refuse a plan that cannot be shown exactly as it runs: with secrets, or with what a terminal hides."""
    shown = plan.model_dump(mode="json")
    texts = [plan.setting, plan.dropin_path, *plan.exec_start_before, *plan.exec_start_after]
    texts += [line for text in (plan.diff, plan.dropin_text) for line in text.splitlines()]
    if any(printable(text) != text for text in texts):
        raise ToolError(
            "the unit holds characters that a terminal does not show as they are; a person has to change it"
        )
    if mask(shown, work.redact, keep=frozenset({"id", "preimage_sha256", "host_key"})) is not shown:
        raise ToolError(
            "the launch line holds what looks like a secret, so the change cannot be shown whole for "
            "approval; a person has to make it"
        )


def _refuse_to_disturb(work: Investigation, plan: ChangePlan) -> None:
    busy = (plan.running_requests or 0) + (plan.queued_requests or 0)
    if busy and not work.settings.tools.allow_in_flight:
        raise ToolError(
            f"{busy} requests are running or queued, and a restart would end them; wait until they are "
            "done, or allow it (--allow-in-flight)"
        )


async def _port(work: Investigation, change: Change) -> int:
    """Return where the unit's engine listens: as the facts had it, else as its process says."""
    units: set[str] = set()
    for engine in engines_of(work, change.host):
        if engine.get("unit") == change.unit and isinstance(engine.get("port"), int):
            return int(engine["port"])
        units.add(str(engine.get("unit")))
    if units:
        raise ToolError(
            f"no engine of {change.host} runs in {change.unit}; facts saw: {', '.join(sorted(units))}"
        )
    port = (await load_process(_context(work), work.hosts[change.host])).port
    if port is None:
        raise ToolError(f"on which port {change.unit} serves is not known, so it cannot be tried safely")
    return port


def _context(work: Investigation) -> ToolContext:
    return ToolContext(
        call_id="",
        hosts=work.hosts,
        store=work.store,
        redact=work.redact,
        settings=work.settings.tools,
        cache=work.cache,
        cache_dir=work.settings.cache_dir,
    )


def _call_of(work: Investigation, trial: Trial) -> ToolCall:
    calls = work.history.turns[work.history.last_turn].tool_calls
    return next(call for call in calls if call.id == trial.made.tool_call_id)


def _close(
    work: Investigation,
    call: ToolCall,
    change: Change,
    trial: Trial | None,
    result: Result,
    why: str,
    proposed: list[Event] | None = None,
) -> None:
    """Answer the call of a change that was not tried; what was approved of it is taken back."""
    if trial is not None:
        withdraw(work, trial, why)
    view = trial_view(change, trial, result, Standing(state="none", detail=why), "", [])
    finish(work, work.history.last_turn, call, view, events=proposed)
