"""From weighed leads to a conclusion whose claims carry their quotes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import re2

from agent.models import claims
from agent.models.explain import comments_about
from agent.models.method import Case, Lead, Step, fill
from agent.models.proposing import is_cause
from agent.models.views import Quote, View, find_quote, matches, view_quotes
from prompts.playbooks import SourceClaim

ATTACH = "Attach a language model: leadline ask HOST SYMPTOM --base-url URL --model NAME."


def conclude(case: Case, changes: list[str]) -> Generator[Step, list[View], None]:
    """Conclude; claims that come back are stated as opinion, a refused outcome becomes inconclusive."""
    conclusion = build(case, changes)
    results = yield Step(str(conclusion["summary"]), [("conclude", conclusion)])
    for _ in range(2):
        answer = results[0] if results else {}
        if answer.get("accepted") is True or not answer:
            return
        failed = set(_failing(answer))
        if failed:
            kept = [claim for place, claim in enumerate(conclusion["claims"]) if place not in failed]
            lost = [claim for place, claim in enumerate(conclusion["claims"]) if place in failed]
            conclusion["claims"] = kept + [claims.opinion(f"Not verified: {claim['says']}") for claim in lost]
        else:
            conclusion |= {
                "outcome": "inconclusive",
                "causes": [],
                "next_step": str(answer.get("error", ATTACH)),
            }
        results = yield Step("I conclude again without what did not hold.", [("conclude", conclusion)])


def _failing(answer: View) -> Iterator[int]:
    """Yield the places of the claims that came back; a line reads ``claim 3: why``."""
    for line in answer.get("failing") or []:
        place = str(line).removeprefix("claim ").partition(":")[0]
        if place.isdigit():
            yield int(place)


def build(case: Case, changes: list[str]) -> dict[str, Any]:
    """Return the arguments of ``conclude`` for what was found."""
    causes = [lead for lead in case.leads if is_cause(case, lead)]
    refuted = [lead for lead in case.leads if case.statuses.get(lead.id) == "refuted"]
    outcome = outcome_of(case, causes, changes)
    inherent = [
        text
        for lead in case.leads
        if lead.book.role == "inherent" and lead.holds
        for text in lead.book.inherent
    ]
    return {
        "outcome": outcome,
        "summary": summary(case, outcome, causes),
        "causes": [lead.id for lead in causes],
        "claims": list(all_claims(case, causes, refuted)),
        "ruled_out": [{"hypothesis": lead.id, "because": because(lead)} for lead in refuted],
        "changes": changes,
        "inherent": [" ".join(str(fill(text, case.facts)).split()) for text in inherent],
        "next_step": next_step(case, outcome, causes),
    }


def outcome_of(case: Case, causes: list[Lead], changes: list[str]) -> str:
    """Choose the outcome that the leads allow."""
    if causes:
        return "diagnosed" if changes else "needs_person"
    suspects = [lead for lead in case.leads if lead.book.role in ("cause", "odd")]
    looked = [lead for lead in suspects if lead.book.role == "cause"]
    fine = bool(looked) and all(case.statuses.get(lead.id) == "refuted" for lead in suspects)
    return "configuration_fine" if fine else "inconclusive"


def because(lead: Lead) -> str:
    """Say in a sentence what refuted a lead."""
    found = lead.weighed.against if lead.weighed else []
    return "; ".join(f"{prediction.says}: {quote.text[:160]}" for prediction, quote in found)


def summary(case: Case, outcome: str, causes: list[Lead]) -> str:
    """Say the outcome in a few sentences."""
    if outcome == "diagnosed":
        parts = [f"{number}. {_cause(lead)}" for number, lead in enumerate(causes, start=1)]
        return "\n".join(parts) + _context(case) + _part_inherent(case)
    if outcome == "configuration_fine":
        return (
            "None of the causes I know holds here: every one is refuted by what the host shows."
            + _part_inherent(case)
        )
    if outcome == "needs_person":
        flags = [
            reason.option
            for lead in causes
            for reason in (lead.explanation.reasons if lead.explanation else [])
        ]
        asked = (
            f" It follows from {', '.join(flags)}, which is wanted, so I propose no change." if flags else ""
        )
        return causes[0].book.statement + asked
    odd = [lead.book.settings[0] for lead in case.leads if lead.book.role == "odd" and not lead.refuted]
    untested = [lead for lead in case.leads if lead.book.role == "cause" and lead.id not in case.statuses]
    text = "No cause that I know is established."
    if untested:
        text += " Untested here: " + " ".join(lead.book.statement for lead in untested)
    if odd:
        text += (
            f" Settings that switch something off, their effect on the symptom not shown: {', '.join(odd)}."
        )
    return text


def _cause(lead: Lead) -> str:
    """State a cause with the flags that bring it about."""
    flags = [reason.option for reason in lead.explanation.reasons] if lead.explanation else []
    return f"{lead.book.statement} Here that is {', '.join(flags)}." if flags else lead.book.statement


def _context(case: Case) -> str:
    holding = [lead.book.statement for lead in case.leads if lead.book.role == "context" and lead.holds]
    return "".join(f"\nBut: {statement}" for statement in holding)


def _part_inherent(case: Case) -> str:
    holds = any(lead.book.role == "inherent" and lead.holds for lead in case.leads)
    return (
        "\nPart of the symptom is inherent to how the model is split; see the limits below." if holds else ""
    )


def next_step(case: Case, outcome: str, causes: list[Lead]) -> str:
    """Say what to do next, and who."""
    if outcome == "diagnosed":
        first = causes[0].book.change
        return (
            "Apply the first change alone in a quiet minute, measure at concurrency 1 and "
            f"{case.facts.slots} and check its mechanism ({first.mechanism if first else ''}); then the next."
        )
    if outcome == "configuration_fine":
        return "Measure again under the load that is really served; compare with the limits below."
    if outcome == "needs_person":
        return "Decide whether the settings named are still wanted; then ask again."
    no_load = any("error" in view for key, view in case.probes.items() if key.endswith(".load"))
    load = "Allow load to tell the open hypotheses apart (--allow-load). " if no_load else ""
    return load + ATTACH


def all_claims(case: Case, causes: list[Lead], refuted: list[Lead]) -> Iterator[dict[str, Any]]:
    """Yield the claims, each once: layers and guards of the causes, measurements, what refutes the rivals."""
    seen: set[str] = set()
    for claim in _claims(case, causes, refuted):
        if (key := repr(sorted(claim.items(), key=lambda item: item[0]))) not in seen:
            seen.add(key)
            yield claim


def _claims(case: Case, causes: list[Lead], refuted: list[Lead]) -> Iterator[dict[str, Any]]:
    for lead in [*causes, *(lead for lead in case.leads if lead.book.role == "odd" and lead.holds)]:
        yield from _cause_claims(case, lead)
    for lead in [*refuted, *(lead for lead in case.leads if lead.book.role == "context" and lead.holds)]:
        for prediction, quote in _decisive(lead):
            yield claims.observed(f"{_sentence(prediction.says)}.", quote)
    load = [view for key, view in case.probes.items() if key.endswith(".load") and "error" not in view]
    yield from claims.measurements(load, case.facts.slots)
    if any(lead.book.role == "inherent" and lead.holds for lead in case.leads):
        yield from claims.duty(case.views(case.leads[0], "server_info"))


def _decisive(lead: Lead) -> list[Any]:
    return (lead.weighed.against or lead.weighed.supporting) if lead.weighed else []


def _cause_claims(case: Case, lead: Lead) -> Iterator[dict[str, Any]]:
    server_info = case.views(lead, "server_info")
    for name in lead.book.settings:
        yield from claims.requested(case.facts, name)
        yield from claims.default(case.source, name)
        yield from claims.effective(server_info, name)
        # All assignments of the setting in question; of the others only those that hold.
        secondary = name != lead.book.settings[0]
        yield from claims.guards(case.facts, name, case.source, server_info, holding_only=secondary)
    for reason in lead.explanation.reasons if lead.explanation else []:
        yield from claims.requested(case.facts, reason.flag)
    for prediction, quote in _decisive(lead):
        if prediction.kind in ("log", "measurement", "source"):
            yield claims.observed(f"{_sentence(prediction.says)}.", quote)
    for source in lead.book.source:
        yield from _source_claims(case, source)
    for row in lead.book.observed:
        quote = find_quote(case.views(lead, row.probe), row.find)
        value = re2.search(row.value, quote.text) if quote else None
        if quote is not None and value is not None:
            yield claims.seen(f"{_sentence(row.says)}.", row.name, value.group(1), quote)
    for missing in lead.book.absences:
        for view in case.views(lead, missing.probe):
            yield from claims.absence(f"{_sentence(missing.says)}.", view)
    yield from _written_reasons(case, lead)


def _source_claims(case: Case, source: SourceClaim) -> Iterator[dict[str, Any]]:
    quote = find_quote(case.source, source.pattern)
    if quote is None:
        return
    for view in case.source:
        for result, match in matches(view):
            if result.get("artifact") == quote.artifact and (match.get("line"),) * 2 == quote.lines:
                place = f"{str(result.get('path', '')).rpartition('/')[2]}:{match.get('line')}"
                says = f"{_sentence(source.says)} ({place})."
                guard = claims.deciding_guard(match) if source.judged else None
                if guard is not None:
                    info = case.views(case.leads[0], "server_info")
                    yield claims.guard_claim(says, result, match, guard, case.facts, info)
                else:
                    yield claims.observed(says, quote)
                return


def _written_reasons(case: Case, lead: Lead) -> Iterator[dict[str, Any]]:
    text = str(case.unit_text.get("stdout", ""))
    for comment in comments_about(lead.book.settings[0], text) if lead.book.settings else []:
        for quote in view_quotes(case.unit_text):
            if quote.text == comment:
                yield claims.observed(
                    "The unit's own file says why it was set.", Quote(quote.artifact, comment)
                )
                return


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
