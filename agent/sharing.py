"""Run a command that a person typed, under the policy of the model's own, and share what it printed."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent.audit_scope import acting
from agent.calls import finish, refuse, start, tool_context
from agent.errors import UsageError
from agent.events import BY_HAND, TurnTaken
from agent.models.select import PLAYBOOK
from agent.state import ToolCall
from tools import run as run_tool
from tools.contract import ArtifactRef, Result, ToolContext, ToolError
from tools.policy import Decision, judge, policy_in_force
from tools.policy_settings import SWITCHED_OFF, PolicySettings

if TYPE_CHECKING:
    from agent.investigation import Investigation

LIMIT_S: Final = 120.0
LONGEST: Final = 4000
SHARED: Final = "A person ran this command by hand and shares what it printed."


@dataclass(frozen=True, slots=True)
class Ran:
    """Hold a command that was run by hand, and how it ended."""

    command: str
    decision: Decision
    result: Result
    secrets: Collection[bytes]


def judged(command: str, settings: PolicySettings) -> Decision:
    """Return what the policy says of a command that was typed; raise `ToolError` when it never runs."""
    if not 0 < len(command) <= LONGEST:
        raise ToolError(f"a command has 1 to {LONGEST} characters")
    if not settings.free_form:
        raise ToolError(SWITCHED_OFF)
    decision = judge(command, policy_in_force(settings))
    if decision.verdict == "refuse":
        raise ToolError(f"refused, also by hand: {_why(decision.reason)}; use a shell of your own for it")
    if not decision.rendered:  # only what was understood whole is run, by whomever it was typed
        raise ToolError(f"not run, it is not understood as one command or pipeline: {decision.reason}")
    return decision


def _why(reason: str) -> str:
    """Return why a command is refused; of one that only stands on no list, what it is refused for."""
    name, found, _ = reason.partition(": needs a person: ")
    if not found:
        return reason
    return f"{name} would change the host, run another program, leave the host or show a secret"


async def run_by_hand(ctx: ToolContext, host: str, command: str, decision: Decision, thread: str) -> Ran:
    """Run what was judged, and agreed to where the policy asks a person; raise `ToolError`."""
    agreed = "" if decision.verdict == "allow" else ", agreed to at the keyboard"
    args = run_tool.Args(host=host, command=command, timeout_s=LIMIT_S)
    with acting(thread, f"by hand{agreed}: {command}", reads=not agreed):
        result, secrets = await run_tool.executed(ctx, args, decision)
    return Ran(command, decision, result, secrets)


def shown(ctx: ToolContext, ran: Ran) -> Mapping[str, Any]:
    """Return the view of what was printed, as the model would see it; its output is kept in the store."""
    return run_tool.view(ctx, ran.decision, ran.result, ran.secrets)


def share(work: Investigation, ran: Ran) -> str:
    """Record what was printed as the output of a call by a person; return the handle it is cited by."""
    if work.model.name == PLAYBOOK:
        raise UsageError("the built-in playbooks take no outputs", do="/model NAME URL chooses a model")
    if work.trials.open is not None:
        raise UsageError("a change is being decided on or tried", do="share it after that")
    history = work.history
    for pending in list(history.pending()):
        refuse(work, history.last_turn, pending, "interrupted: a person shares something first")
    number = history.last_turn + 1
    arguments = json.dumps({"command": ran.command, "host": ran.result.host}, ensure_ascii=False)
    call = ToolCall(id=f"{BY_HAND}-{number}", name="run", arguments=arguments)
    work.transcript.append(TurnTaken(turn=number, model=BY_HAND, text=SHARED, tool_calls=[call]))
    start(work, number, call)
    kept: list[ArtifactRef] = []
    view = shown(tool_context(work, call, kept), ran)
    finish(work, number, call, view, artifacts=kept, began=time.monotonic() - ran.result.duration_s)
    return kept[0].handle
