"""Tell the audit what a transcript says of plans, steps and refused calls; decisions are told elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.events import (
    ActionFinished,
    ApprovalAsked,
    ApprovalVoided,
    Event,
    PlanMade,
    ToolFinished,
)

if TYPE_CHECKING:
    from agent.investigation import Investigation


class Recorder:
    """Follow the transcript of an investigation; what was asked before it was opened is not told again."""

    def __init__(self, work: Investigation) -> None:
        self._work = work

    def feed(self, event: Event) -> None:
        """Record one event, where a person would want to know of it later."""
        audit, thread = self._work.audit, self._work.thread
        match event:
            case PlanMade():
                host, unit = event.plan.get("host"), event.plan.get("unit")
                shown = f"{event.plan.get('setting')} of {unit}"
                audit.record(
                    "plan_made",
                    thread=thread,
                    host=host,
                    change=event.change,
                    digest=event.digest,
                    what=shown,
                )
            case ApprovalAsked():
                until = f"until {event.expires_at:%Y-%m-%dT%H:%M:%SZ}"
                audit.record(
                    "approval_asked", thread=thread, change=event.change, digest=event.digest, detail=until
                )
            case ApprovalVoided():
                audit.record(
                    "approval_voided",
                    thread=thread,
                    change=event.change,
                    digest=event.digest,
                    detail=event.why,
                )
            case ActionFinished():
                audit.record(
                    "step_ended",
                    thread=thread,
                    change=event.change,
                    what=f"{event.step} {event.action}",
                    outcome=event.outcome,
                    detail=event.detail,
                )
            case ToolFinished() if event.status == "tool_error" and event.tool in self._work.tools:
                audit.record(
                    "call_refused", thread=thread, host=event.host, what=event.tool, detail=event.view
                )
            case _:
                pass
