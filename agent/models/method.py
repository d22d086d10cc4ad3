"""The built-in method: from facts to hypotheses, probes, source, evidence, proposals and conclusion.

It knows no case. What it knows of causes stands in the playbooks; how a value comes about it takes from the
judged source; launch flags that switch something off become hypotheses even when no playbook names them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import re2

from agent.models.explain import Explanation, explain
from agent.models.views import Facts, Quote, View, find_quote, rows
from agent.models.weighing import Weighed, compare, weigh
from prompts.playbooks import FlagCondition, Playbook, Prediction

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """Hold what the method says and calls in one turn."""

    text: str
    calls: list[Call] = field(default_factory=list)


Steps = Generator[Step, list[View], None]


@dataclass(slots=True)
class Lead:
    """Follow one playbook through an investigation: its id in the ledger and what was found for it."""

    book: Playbook
    id: str = ""
    weighed: Weighed | None = None
    explanation: Explanation | None = None

    @property
    def holds(self) -> bool:
        """Tell whether the evidence supports it, and one of the predictions that it needs matched."""
        return self.weighed is not None and self.weighed.holds(self.book.needs_any, self.book.needs_all)

    @property
    def refuted(self) -> bool:
        """Tell whether a prediction against it matched."""
        return self.weighed is not None and bool(self.weighed.against)


@dataclass(slots=True)
class Case:
    """Collect what one investigation has seen so far."""

    symptom: str
    facts: Facts
    leads: list[Lead]
    probes: dict[str, View] = field(default_factory=dict)
    source: list[View] = field(default_factory=list)
    unit_text: View = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    changes: list[View] = field(default_factory=list)
    """What `propose_change` answered, in the order of the proposals."""
    explains: bool = False
    """Whether the tool `settings` may be asked; without it the source is searched."""
    log: View | None = None
    """The log that the person gave, as it is on view."""

    def views(self, lead: Lead, probe: str) -> list[View]:
        """Return the views in which a prediction of the lead looks for its quote."""
        if probe == "source":
            return self.source
        if probe == "server_info":
            # Where the server does not answer, its command line is what is left of its settings.
            return [self.probes[name] for name in COMMON if name in self.probes]
        view = self.probes.get(f"{lead.book.name}.{probe}")
        return [view] if view is not None else []

    @property
    def load(self) -> list[View]:
        """Return what load was measured."""
        return [view for key, view in self.probes.items() if key.endswith(".load") and "error" not in view]

    @property
    def unit_file_text(self) -> str:
        """Return what ``systemctl cat`` printed, or an empty text."""
        return str(self.unit_text.get("stdout") or "")


COMMON = ("server_info", "cmdline")
"""Probes that every playbook shares, the better source of settings first."""


def select(books: Sequence[Playbook], facts: Facts, symptom: str) -> list[Playbook]:
    """Return the playbooks whose conditions the engine, its flags and the symptom meet."""
    return [book for book in books if _applies(book, facts, symptom)]


def _applies(book: Playbook, facts: Facts, symptom: str) -> bool:
    when = book.applies_when
    return (
        str(facts.engine.get("engine")) in when.engines
        and (not when.symptom or re2.search(f"(?i){when.symptom}", symptom) is not None)
        and all(_flag_holds(condition, facts) for condition in when.flags)
    )


def _flag_holds(condition: FlagCondition, facts: Facts) -> bool:
    value = facts.flags.get(condition.name)
    match condition.op:
        case "present" | "absent":
            return (value is not None) == (condition.op == "present")
        case "is" | "is_not":
            return (str(value) == condition.text) == (condition.op == "is")
    try:
        number = condition.default if value is None else float(str(value))
    except ValueError:
        return False
    wanted = condition.value if not condition.value_from else facts.processors
    return None not in (number, wanted) and compare(number or 0, condition.op, wanted or 0)


def hypothesise(case: Case) -> Steps:
    """State every lead as a hypothesis, before anything but the facts was read."""
    adds = []
    for rank, lead in enumerate(case.leads, start=1):
        predictions = [_stated(prediction) for prediction in lead.book.predictions]
        adds.append({"statement": lead.book.statement, "rank": rank, "predictions": predictions})
    says = "Before I read any source I state what could cause it, likeliest first, and what each predicts."
    results = yield Step(says, [("hypothesis", {"add": adds})])
    by_rank = (
        {row.get("rank"): str(row.get("id")) for row in rows(results[0], "hypotheses")} if results else {}
    )
    for rank, lead in enumerate(case.leads, start=1):
        lead.id = by_rank.get(rank, f"H{rank}")


def _stated(prediction: Prediction) -> dict[str, Any]:
    return prediction.model_dump(include={"id", "favours", "says", "check"})


def fill(text: str, facts: Facts) -> Any:
    """Replace ``{name}`` by what the facts say; braces of regular expressions stay."""
    filled = text
    for name, value in facts.values().items():
        filled = filled.replace("{" + name + "}", value)
    return int(filled) if filled != text and filled.isdigit() else filled


def weighed(case: Case, lead: Lead) -> Weighed:
    """Hold what was found so far against the predictions of a lead."""
    found: dict[str, Quote] = {}
    for prediction in lead.book.predictions:
        quote = find_quote(case.views(lead, prediction.probe), prediction.find)
        if quote is not None:
            found[prediction.id] = quote
    return weigh(lead.book.predictions, found)


def cite(case: Case) -> Steps:
    """Cite what was found for each lead; what speaks against it is cited alone, since it decides."""
    calls: list[Call] = []
    for lead in case.leads:
        lead.weighed = weighed(case, lead)
        evidence = lead.weighed.evidence(lead.book.needs_any, lead.book.needs_all)
        if evidence:
            calls.append(("hypothesis", {"update": [{"id": lead.id, "evidence": evidence}]}))
        if lead.holds and lead.book.settings and lead.book.bad_value is not None:
            lead.explanation = explain(
                lead.book.settings[0], lead.book.bad_value, case.facts, case.source, lead.book.keep
            )
    if calls:
        results = yield Step("I hold what I found against what each hypothesis predicted.", calls)
        for view in results:
            for row in rows(view, "hypotheses"):
                case.statuses[str(row.get("id"))] = str(row.get("status"))
