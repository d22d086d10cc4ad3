"""From causes to the smallest changes that undo them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import re2

from agent.models import effect
from agent.models.claims import deciding_guard
from agent.models.explain import Reason, writes
from agent.models.launch import places, standing, written_reason
from agent.models.method import Case, Lead, Step, fill
from agent.models.views import View, rows, view_quotes
from prompts.playbooks import ChangeTemplate

ROLLBACK = "Restore the unit and its drop-ins as they are now, reload, and restart once."
BY_HAND = "Stop the process and start it again with the command line that it has now."
Plan = dict[str, Any]


def is_cause(case: Case, lead: Lead) -> bool:
    """Tell whether a lead is a cause that the ledger agrees to."""
    return (
        lead.book.role == "cause" and lead.holds and case.statuses.get(lead.id) in ("supported", "confirmed")
    )


def ordered_causes(case: Case) -> list[Lead]:
    """Return the causes in the order of their changes: what is expected to fail last, to hold nothing up."""
    causes = [lead for lead in case.leads if is_cause(case, lead)]
    return sorted(causes, key=lambda lead: bool(warned(case, lead)))


def propose(case: Case) -> Generator[Step, list[View], None]:
    """Propose each cause's change, the likeliest first, and keep what became of it."""
    plans: list[Plan] = []
    causes = ordered_causes(case)
    for lead in causes:
        # A promise is made on what was measured: not with a likelier cause still in force.
        likeliest = lead.book.rank == min(other.book.rank for other in causes)
        plans += plans_of(case, lead, first=likeliest and not plans)
    if not plans:
        return
    listed = "\n".join(f"{number}. {_diff(plan)}" for number, plan in enumerate(plans, start=1))
    case.changes = yield Step(
        f"These are the smallest changes that follow, in this order:\n{listed}",
        [("propose_change", plan) for plan in plans],
    )


def warned(case: Case, lead: Lead) -> list[Lead]:
    """Return what holds on this host and speaks against the change of a cause."""
    return [other for other in case.leads if other.book.concerns == lead.book.name and other.holds]


def _diff(plan: Plan) -> str:
    before, after = plan["from_value"], plan["to_value"]
    if after is None:
        return f"take out {plan['setting']}{'' if before == 'true' else f' {before}'}"
    return f"set {plan['setting']} {after}" + (f" instead of {before}" if before else "")


def plans_of(case: Case, lead: Lead, *, first: bool) -> Iterator[Plan]:
    """Yield the changes that undo a cause: each flag that brings the value about, or the playbook's own."""
    template = lead.book.change
    if template is None:
        return
    if not template.setting.startswith("--") and template.to_value is None:
        yield from _assignment_plan(case, lead, template, first=first)
        return
    if template.to_value is not None:
        name = template.setting.removeprefix("--").replace("-", "_")
        present = case.facts.flags.get(name)
        value = None if present is None else str(present)
        wanted = str(fill(template.to_value, case.facts)).replace("{fullest}", str(fullest(case)))
        wanted = wanted.replace("{demand}", str(demand(case)))
        if value != wanted:
            why = template.reason
            if value is not None:
                why += " " + standing(template.setting, case.facts, case.unit_file_text)
            yield _plan(case, lead, (template.setting, value, wanted), why, first=first)
        return
    reasons = lead.explanation.reasons if lead.explanation else []
    for reason in reasons:
        if reason.flag not in lead.book.keep:
            change = (reason.option, reason.value, None)
            yield _plan(case, lead, change, _why(case, lead, reason), first=first)
            first = False


def _assignment_plan(case: Case, lead: Lead, template: ChangeTemplate, *, first: bool) -> Iterator[Plan]:
    """Yield the end of a variable or limit of the unit; the last assignment in its files counts."""
    held = {**(case.facts.engine.get("environ") or {}), **(case.facts.service.get("limits") or {})}
    value, found = held.get(template.setting), places(template.setting, case.unit_file_text)
    if value is None or not found:
        return
    last = found[-1]
    why = f"{template.reason} It is last set in {last.path} line {last.line}, which wins over any before it."
    yield _plan(case, lead, (template.setting, str(value), template.to_value), why, first=first)


def fullest(case: Case) -> int:
    """Return the fullest batch that a decode line counts, rounded up to a power of two."""
    counts = [
        int(row.get("running_req") or 0) for view in case.probes.values() for row in rows(view, "decode")
    ]
    return _power_of_two(max([1, *counts]))


def demand(case: Case) -> int:
    """Return the most requests that a decode line counts, running and waiting, over all workers."""
    shown = [quote.text for view in case.probes.values() for quote in view_quotes(view)]
    counts = [
        int(found.group(1)) + int(found.group(2))
        for text in shown
        if (found := re2.search(r"Decode batch.*#running-req: ?(\d+).*#queue-req: ?(\d+)", text))
    ]
    workers = str(case.facts.flags.get("dp_size", "1"))
    return _power_of_two(max([1, *counts]) * (int(workers) if workers.isdigit() else 1))


def _power_of_two(number: int) -> int:
    return int(1 << (number - 1).bit_length())


def _why(case: Case, lead: Lead, reason: Reason) -> str:
    setting = lead.book.settings[0]
    text = lead.book.change.reason if lead.book.change else ""
    if reason.override is None:
        text += f" {reason.option} is what sets {setting}."
    else:
        place = f"{reason.path.rpartition('/')[2]}:{reason.override.get('line')}"
        means = "the only assignment left that may run" if reason.eliminated else "which runs here"
        text += f" {reason.given} is what sets {setting}, at {place}, {means}."
    if reason.beside:
        also = ", ".join("--" + name.replace("_", "-") for name in reason.beside)
        text += f" It needs {also} as well, which can stay."
    return f"{text} {standing(reason.option, case.facts, case.unit_file_text)}".strip()


def _plan(
    case: Case, lead: Lead, change: tuple[str, str | None, str | None], reason: str, *, first: bool
) -> Plan:
    template = lead.book.change
    assert template is not None
    setting, from_value, to_value = change
    return {
        "unit": case.facts.unit or f"process {case.facts.pid} (started by hand)",
        "setting": setting,
        "from_value": from_value,
        "to_value": to_value,
        "reason": reason,
        "hypotheses": [lead.id],
        "predicted_effect": _predicted(case, lead, template, first=first),
        "mechanism": str(fill(template.mechanism, case.facts)),
        "rollback": ROLLBACK if case.facts.unit else BY_HAND,
        "cautions": list(_cautions(case, lead, setting)),
    }


def _predicted(case: Case, lead: Lead, template: ChangeTemplate, *, first: bool) -> str:
    text = " ".join(str(fill(template.predicted_effect, case.facts)).split())
    if warned(case, lead):
        return f"None: the change is likely to fail here, see the first caution. If it does not: {text}"
    limits = [one for other in case.leads if other.holds for one in other.book.inherent]
    limits = effect.applicable(limits, case.facts)
    values = effect.measured(case.load, case.facts)
    return text + effect.promise(template, values, limits, first=first)


def _cautions(case: Case, lead: Lead, setting: str) -> Iterator[str]:
    for other in case.leads:
        if other.book.concerns == lead.book.name:
            if other.holds:
                yield from other.book.cautions
            elif not other.refuted and other.book.if_open:
                yield other.book.if_open
    named = lead.book.settings[0] if lead.book.settings else setting
    comment = written_reason(setting, named, case.unit_file_text)
    if comment is not None and lead.book.bad_value == "true":
        now = case.facts.view.get("driver") or {}
        cuda = (
            f" Now the driver is {now.get('nvidia')}, its CUDA {now.get('cuda')}." if now.get("cuda") else ""
        )
        words = comment.text.lstrip("#; ")
        yield (
            f"Find out whether it is still needed. {comment.path} line {comment.line} has the comment "
            f'"{words}"; that is its author\'s word, not checked.{cuda}'
        )
    elif lead.book.bad_value == "true":
        where = "no comment in the unit's files says why" if case.facts.unit else "ask who started it"
        yield f"Find out why it was set before it goes; {where}."
    yield from (" ".join(text.split()) for text in lead.book.cautions)
    yield from _staying(case, lead)


def _staying(case: Case, lead: Lead) -> Iterator[str]:
    """Name the cause's other settings that keep their value, and the assignment that runs."""
    for name in lead.book.settings[1:]:
        for result, match in writes(name, case.source):
            if match.get("verdict") == "true" and not match.get("restores"):
                place = f"{str(result.get('path', '')).rpartition('/')[2]}:{match.get('line')}"
                because = (deciding_guard(match) or {}).get("because", "nothing guards it")
                yield f"{name} stays as it is: {place} sets it here, since {because}."
                break
