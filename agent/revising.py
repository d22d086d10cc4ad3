"""Let a person change the value of a plan that waits: a new plan comes of it, with an approval of its own."""

from __future__ import annotations

from agent.approvals import ApprovalRefused, void
from agent.events import ChangeMoved
from agent.investigation import Investigation
from tools.display import printable

LONGEST = 500
"""Characters of a value; no setting of an engine takes more."""


def revise(work: Investigation, change: str, digest: str, value: str | None, by: str) -> None:
    """Void the plan with this digest, and let the same change be planned anew for another value.

    None leaves the setting out. Raises `ApprovalRefused` when that plan does not wait any more, or the value
    is none that can be shown as it runs. Nothing is approved by it.
    """
    trial = work.trials.by_change.get(change)
    if trial is None or trial.asked is None or trial.given or trial.void is not None or trial.closed:
        raise ApprovalRefused(f"{change} does not wait for an approval", do="look at the plan that waits now")
    if digest != trial.made.digest:
        raise ApprovalRefused(f"{change} was planned anew meanwhile", do="look at the plan that waits now")
    if trial.plan.undoes is not None:
        raise ApprovalRefused(f"{change} puts back what was; it takes no other value", do="deny it instead")
    before = work.ledger.changes[change]
    if value == before.to_value:
        raise ApprovalRefused(f"{change} sets that value already; the plan stands as it is")
    if value is not None and _unfit(value):
        raise ApprovalRefused("a value is one line of characters that a terminal shows", do="edit it again")
    moves = (event.change for event in work.transcript.events if isinstance(event, ChangeMoved))
    first = next(one for one in moves if one.id == change)
    cautions = list(first.cautions)
    if value != first.to_value:
        cautions.append(
            f"{by} edited the value: {_said(first.to_value)} was proposed by the model, and the effect "
            f"predicted for that; {by} made it {_said(value)}"
        )
    edited = before.model_copy(update={"to_value": value, "cautions": cautions})
    moved = ChangeMoved(turn=work.history.last_turn, change=edited)
    void(work, trial, f"{by} edited it: another value has a plan of its own", [moved])


def _unfit(value: str) -> bool:
    whole = value == value.strip() and value != "" and "\n" not in value
    return not whole or printable(value) != value or len(value) > LONGEST


def _said(value: str | None) -> str:
    return "leaving it out" if value is None else value
