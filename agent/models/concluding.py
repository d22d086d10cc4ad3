"""From weighed leads to a conclusion whose claims carry their quotes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import re2

from agent.messages import UNHEARD
from agent.models import claims, effect, results
from agent.models.launch import differences, written_reason
from agent.models.method import Case, Lead, Step, fill
from agent.models.proposing import is_cause, ordered_causes
from agent.models.telling import beside
from agent.models.views import View, find_quote, matches, rows, view_quotes
from prompts.playbooks import SourceClaim

ENOUGH = 2
"""That one known cause does not hold is no ground to call a configuration fine."""

ATTACH = "Attach a language model: leadline ask HOST SYMPTOM --base-url URL --model NAME."


def conclude(case: Case) -> Generator[Step, list[View], None]:
    """Conclude; claims that come back are stated as opinion, a refused outcome becomes inconclusive."""
    yield from settle(build(case))


def settle(
    conclusion: dict[str, Any],
    refused: str = "inconclusive",
    says: str = "I conclude; each claim is now held against the stored output.",
) -> Generator[Step, list[View], None]:
    """Put a conclusion forward, then at most twice without what did not hold, or as ``refused``."""
    answers = yield Step(says, [("conclude", conclusion)])
    for _ in range(2):
        answer = answers[0] if answers else {}
        if answer.get("accepted") is True or not answer:
            return
        failed = set(_failing(answer))
        if answer.get("error") == UNHEARD:
            pass  # what was said meanwhile changes nothing that was read
        elif failed:
            kept = [claim for place, claim in enumerate(conclusion["claims"]) if place not in failed]
            lost = [claim for place, claim in enumerate(conclusion["claims"]) if place in failed]
            conclusion["claims"] = kept + [claims.opinion(f"Not verified: {claim['says']}") for claim in lost]
        else:
            conclusion |= {
                "outcome": refused,
                "causes": [],
                "next_step": str(answer.get("error", ATTACH)),
            }
        answers = yield Step("I conclude again without what did not hold.", [("conclude", conclusion)])


def _failing(answer: View) -> Iterator[int]:
    """Yield the places of the claims that came back; a line reads ``claim 3: why``."""
    for line in answer.get("failing") or []:
        place = str(line).removeprefix("claim ").partition(":")[0]
        if place.isdigit():
            yield int(place)


def build(case: Case) -> dict[str, Any]:
    """Return the arguments of ``conclude`` for what was found."""
    causes = [lead for lead in case.leads if is_cause(case, lead)]
    refuted = [lead for lead in case.leads if case.statuses.get(lead.id) == "refuted"]
    changes = [str(view["change"]) for view in case.changes if view.get("change")]
    outcome = results.outcome_of(case.changes) or outcome_of(case, causes, changes)
    values = effect.measured(case.load, case.facts)
    limits = [
        one
        for lead in case.leads
        if lead.book.role == "inherent" and lead.holds
        for one in lead.book.inherent
    ]
    said = [effect.fill(one.says, values) for one in effect.applicable(limits, case.facts)]
    conclusion = {
        "outcome": outcome,
        "summary": summary(case, outcome, causes),
        "causes": [lead.id for lead in causes],
        "claims": list(all_claims(case, causes, refuted)),
        "ruled_out": [{"hypothesis": lead.id, "because": because(lead)} for lead in refuted],
        "changes": changes,
        "inherent": [" ".join(str(fill(text, case.facts)).split()) for text in said if text],
        "next_step": next_step(case, outcome, causes),
    }
    return beside(case.log, case.facts, conclusion) if case.log is not None else conclusion


def outcome_of(case: Case, causes: list[Lead], changes: list[str]) -> str:
    """Choose the outcome that the leads allow."""
    if causes:
        meant = all(lead.book.by_design for lead in causes)
        return "diagnosed" if changes or meant else "needs_person"
    suspects = [lead for lead in case.leads if lead.book.role in ("cause", "odd")]
    looked = [lead for lead in suspects if lead.book.role == "cause"]
    fine = len(looked) >= ENOUGH and all(case.statuses.get(lead.id) == "refuted" for lead in suspects)
    return "configuration_fine" if fine else "inconclusive"


def because(lead: Lead) -> str:
    """Say in a sentence what refuted a lead."""
    found = lead.weighed.against if lead.weighed else []
    return "; ".join(f"{prediction.says} ({_telling(quote.text)})" for prediction, quote in found)


def _telling(text: str) -> str:
    """Return the part of a line that tells: without what a log puts before it, and cut at a comma."""
    short = text[max(text.find("Decode batch"), 0) :]
    return short if len(short) <= 130 else short[:130].rpartition(",")[0] + ", ..."


def summary(case: Case, outcome: str, causes: list[Lead]) -> str:
    """Say the outcome in a few sentences, a line each."""
    lines = list(_outcome_lines(case, outcome, causes))
    if outcome in ("diagnosed", "fixed", "configuration_fine"):
        lines += [
            f"But: {lead.book.statement}" for lead in case.leads if lead.book.role == "context" and lead.holds
        ]
    lines += results.sentences(case.changes) or _measured(case)
    if any(lead.book.role == "inherent" and lead.holds for lead in case.leads):
        lines.append("Part of the symptom is inherent to how the model is split; see the limits.")
    if differs := differences(case.facts, case.unit_file_text):
        lines.append(f"What runs is not what the unit's files say: {'; '.join(differs[:4])}.")
    if others := case.facts.others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        where = f"{case.facts.unit or 'no unit'}{', in a container' if case.facts.in_container else ''}"
        lines.append(
            f"I looked at pid {case.facts.pid} ({where}) alone. "
            f"Also on this host: {', '.join(others[:3])}{more}; "
            f"name {case.facts.told_apart_by} in the symptom to ask about another."
        )
    return "\n".join(lines)


_KIND = {
    "cause": "not shown to be the cause",
    "inherent": "inherent, so no setting removes it",
    "context": "no cause by itself",
    "odd": "its effect on the symptom is not shown",
}
"""What a hypothesis that is true explains where no cause is named, by the role of its playbook."""


def _outcome_lines(case: Case, outcome: str, causes: list[Lead]) -> Iterator[str]:
    if outcome == "fixed":
        yield from results.in_part(case.changes)
    if outcome in ("diagnosed", "fixed"):
        for number, lead in enumerate(causes, start=1):
            yield f"{number}. {_cause(lead)}"
    elif outcome == "configuration_fine":
        yield "None of the causes I know holds here; what the host shows refutes each."
    elif outcome == "needs_person":
        flags = [reason.given for reason in causes[0].explanation.reasons] if causes[0].explanation else []
        wanted = (
            f" It follows from {', '.join(flags)}, which is wanted, so I propose no change." if flags else ""
        )
        yield causes[0].book.statement + wanted
    else:
        yield from _nothing_established(case)


def _nothing_established(case: Case) -> Iterator[str]:
    true = [lead for lead in case.leads if case.statuses.get(lead.id) in ("supported", "confirmed")]
    if true:
        told = (f"{lead.id} is {case.statuses[lead.id]}, and {_KIND[lead.book.role]}" for lead in true)
        yield f"No cause is established among what can be changed: {'; '.join(told)}."
    else:
        yield "No cause that I know is established."
    for lead in case.leads:
        if lead.book.role == "cause" and case.statuses.get(lead.id, "open") == "open":
            yield f"Not told apart here: {lead.book.statement}"
    odd = [lead.book.settings[0] for lead in case.leads if lead.book.role == "odd" and not lead.refuted]
    if odd:
        yield f"Settings that switch something off, their effect on the symptom not shown: {', '.join(odd)}."
    errors = [str(view["error"]) for view in case.source if "error" in view]
    if errors and not any(rows(view, "results") for view in case.source):
        yield f"None of its source was read: {errors[-1]}."
    hidden = [str(row) for row in case.facts.view.get("not_permitted") or []]
    if hidden:
        yield f"Not permitted to read: {'; '.join(hidden[:4])}."


def _measured(case: Case) -> Iterator[str]:
    values = effect.measured(case.load, case.facts)
    told = [
        f"{values['tok_' + name]} tok/s"
        + (f" and {values['watts_' + name]} W a GPU" if "watts_" + name in values else "")
        + f" at concurrency {level}"
        for name, level in (("one", 1), ("many", case.facts.slots))
        if "tok_" + name in values
    ]
    if not told:
        return
    said = re2.search(r"(\d+(?:\.\d+)?) ?(?:tok|tokens?)/s", case.symptom)
    near = [
        abs(float(values[key]) / float(said.group(1)) - 1) < 0.15
        for key in values
        if said and key.startswith("tok_")
    ]
    other = f" The {said.group(0)} of the symptom were not seen." if said and not any(near) else ""
    yield f"Measured here: {'; '.join(told)}.{other}"


def _cause(lead: Lead) -> str:
    """State a cause with the flags that bring it about."""
    flags = [reason.given for reason in (lead.explanation.reasons if lead.explanation else [])]
    return f"{lead.book.statement} Here that is {', '.join(flags)}." if flags else lead.book.statement


def next_step(case: Case, outcome: str, causes: list[Lead]) -> str:
    """Say what to do next, and who."""
    if results.tried(case.changes):
        return results.next_step(case.changes)
    if causes and all(lead.book.by_design for lead in causes):
        return " ".join(lead.book.by_design for lead in causes)
    if outcome == "diagnosed":
        first = next((lead.book.change for lead in ordered_causes(case) if lead.book.change), None)
        shown = f" What shows that it works: {fill(first.mechanism, case.facts)}." if first else ""
        more = " Then the next change, in the order above." if len(causes) > 1 else ""
        return (
            "Apply the first change alone, in a quiet minute. Measure at concurrency 1 and "
            f"{case.facts.slots} before and after.{shown}{more}"
        )
    if outcome == "configuration_fine":
        limits = any(lead.book.role == "inherent" and lead.holds for lead in case.leads)
        return "Measure under the load that is really served" + (
            ", and compare with the limits above."
            if limits
            else "; if it is still slow, " + ATTACH[:1].lower() + ATTACH[1:]
        )
    if outcome == "needs_person" and (told := [lead.book.person for lead in causes if lead.book.person]):
        return " ".join(str(fill(text, case.facts)) for text in told)
    if outcome == "needs_person":
        return "Decide whether the settings named are still wanted; then ask again."
    no_load = any("error" in view for key, view in case.probes.items() if key.endswith(".load"))
    load = "Allow load to tell the open hypotheses apart (--allow-load). " if no_load else ""
    return load + ATTACH


def all_claims(case: Case, causes: list[Lead], refuted: list[Lead]) -> Iterator[dict[str, Any]]:
    """Yield the claims, each once: layers and guards of the causes, measurements, what refutes the rivals."""
    seen: set[str] = set()
    for claim in _claims(case, causes, refuted):
        # Two hypotheses may rest on one line: it is claimed once, in the words of the likelier.
        told = {name: value for name, value in claim.items() if name != "says" or "cite" not in claim}
        if (key := repr(sorted(told.items(), key=lambda item: item[0]))) not in seen:
            seen.add(key)
            yield claim


def _claims(case: Case, causes: list[Lead], refuted: list[Lead]) -> Iterator[dict[str, Any]]:
    for lead in [*causes, *(lead for lead in case.leads if lead.book.role == "odd" and lead.holds)]:
        yield from _cause_claims(case, lead)
    for lead in [*refuted, *(lead for lead in case.leads if lead.book.role == "context" and lead.holds)]:
        for prediction, quote in _decisive(lead):
            yield claims.observed(f"{_sentence(prediction.says)}.", quote)
        yield from _absences(case, lead, "against")
    yield from claims.measurements(case.load, case.facts.slots)
    yield from results.claims_of(case.changes)
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
        # Where a value is to be explained, all its assignments; otherwise only those that run.
        explained = name == lead.book.settings[0] and lead.book.bad_value is not None
        verdicts = {"true", "false", "unknown"} if explained else {"true"}
        yield from claims.guards(case.facts, name, case.source, server_info, verdicts)
    for reason in lead.explanation.reasons if lead.explanation else []:
        yield from claims.requested(case.facts, reason.flag)
    for prediction, quote in _decisive(lead):
        if prediction.kind != "configuration" or not lead.book.settings:
            yield claims.observed(f"{_sentence(prediction.says)}.", quote)
    for source in lead.book.source:
        yield from _source_claims(case, source)
    for row in lead.book.observed:
        quote = find_quote(case.views(lead, row.probe), row.find)
        value = re2.search(row.value, quote.text) if quote else None
        if quote is not None and value is not None:
            yield claims.seen(f"{_sentence(row.says)}.", row.name, value.group(1), quote)
    yield from _absences(case, lead, "for")
    yield from _written_reasons(case, lead)


def _absences(case: Case, lead: Lead, favours: str) -> Iterator[dict[str, Any]]:
    for missing in lead.book.absences:
        if missing.favours == favours:
            for view in case.views(lead, missing.probe):
                yield from claims.absence(f"{_sentence(missing.says)}.", view)


def _source_claims(case: Case, source: SourceClaim) -> Iterator[dict[str, Any]]:
    quote = find_quote(case.source, source.pattern)
    if quote is None:
        return
    first = quote.lines[0] if quote.lines else None
    for view in case.source:
        for result, match in matches(view):
            if result.get("artifact") == quote.artifact and match.get("line") == first:
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
    for reason in lead.explanation.reasons if lead.explanation else []:
        comment = written_reason(reason.option, reason.flag, case.unit_file_text)
        for quote in view_quotes(case.unit_text):
            if comment is not None and quote.text == comment.text:
                place = f"{comment.path} line {comment.line}"
                says = f"{place} has a comment that may say why {reason.option} was set."
                yield claims.observed(says, quote)
                break


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
