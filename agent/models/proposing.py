"""From causes to the smallest changes that undo them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from agent.models.explain import Reason, where_it_stands
from agent.models.method import Case, Lead, Step, fill
from agent.models.views import View

ROLLBACK = "Restore the unit and its drop-ins as they are now, reload, and restart once."
Plan = dict[str, Any]


def is_cause(case: Case, lead: Lead) -> bool:
    """Tell whether a lead is a cause that the ledger agrees to."""
    return (
        lead.book.role == "cause" and lead.holds and case.statuses.get(lead.id) in ("supported", "confirmed")
    )


def propose(case: Case) -> Generator[Step, list[View], list[str]]:
    """Propose each cause's change, the likeliest first; return the ids of the changes."""
    plans = [plan for lead in case.leads if is_cause(case, lead) for plan in plans_of(case, lead)]
    if not plans:
        return []
    listed = "\n".join(f"- {_diff(plan)}: {plan['predicted_effect']}" for plan in plans)
    results = yield Step(
        f"These are the smallest changes that follow, in this order:\n{listed}",
        [("propose_change", plan) for plan in plans],
    )
    return [str(result["change"]) for result in results if result.get("change")]


def _diff(plan: Plan) -> str:
    return f"{plan['setting']} {plan['from_value'] or '(not set)'} -> {plan['to_value'] or '(left out)'}"


def plans_of(case: Case, lead: Lead) -> Iterator[Plan]:
    """Yield the changes that undo a cause: each flag that brings the value about, or the playbook's own."""
    template = lead.book.change
    if template is None:
        return
    reasons = lead.explanation.reasons if lead.explanation else []
    reasons = [reason for reason in reasons if reason.flag not in lead.book.keep]
    if template.to_value is not None:
        name = template.setting.removeprefix("--").replace("-", "_")
        present = case.facts.flags.get(name)
        value = None if present is None else str(present)
        yield _plan(case, lead, template.setting, value, str(template.to_value), template.reason)
        return
    for reason in reasons:
        yield _plan(case, lead, reason.option, reason.value, None, _why(case, lead, reason))


def _why(case: Case, lead: Lead, reason: Reason) -> str:
    setting = lead.book.settings[0]
    text = f"{setting} has its value from {reason.option}"
    if reason.override is not None:
        text += f", through the assignment at {reason.path.rpartition('/')[2]}:{reason.override.get('line')}"
        text += ", the only one left that may run" if reason.eliminated else ""
    place = where_it_stands(reason.option, str(case.unit_text.get("stdout", "")))
    if place is not None:
        text += f"; it stands in {place[0]}"
    return f"{text}. {lead.book.change.reason}" if lead.book.change else text


def _plan(
    case: Case, lead: Lead, setting: str, from_value: str | None, to_value: str | None, reason: str
) -> Plan:
    template = lead.book.change
    assert template is not None
    cautions = list(lead.book.cautions)
    for other in case.leads:
        if other.book.concerns == lead.book.name and other.holds:
            cautions = [*other.book.cautions, *cautions]
    return {
        "unit": case.facts.unit or f"process {case.facts.pid} (started by hand)",
        "setting": setting,
        "from_value": from_value,
        "to_value": to_value,
        "reason": reason,
        "hypotheses": [lead.id],
        "predicted_effect": str(fill(template.predicted_effect, case.facts)),
        "mechanism": str(fill(template.mechanism, case.facts)),
        "rollback": ROLLBACK,
        "cautions": cautions,
    }
