"""The built-in method: from facts to hypotheses, probes, source, evidence, proposals and conclusion.

It knows no case. What it knows of causes stands in the playbooks; how a value comes about it takes from the
judged source; launch flags that switch something off become hypotheses even when no playbook names them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import re2

from agent.models.explain import Explanation, explain
from agent.models.reading import definition_grep, readers_grep, writes_grep
from agent.models.views import Facts, Quote, View, find_quote, rows
from agent.models.weighing import Weighed, weigh
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
        return self.weighed is not None and self.weighed.holds(self.book.needs_any)

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

    def views(self, lead: Lead, probe: str) -> list[View]:
        """Return the views in which a prediction of the lead looks for its quote."""
        if probe == "source":
            return self.source
        view = self.probes.get(probe if probe in COMMON else f"{lead.book.name}.{probe}")
        return [view] if view is not None else []


COMMON = ("server_info",)
"""Probes that every playbook shares."""


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
    from agent.models.weighing import compare

    value = facts.flags.get(condition.name)
    if condition.op == "present":
        return value is not None
    try:
        return compare(float(str(value)), condition.op, condition.value)
    except ValueError:
        return False


SWITCHES_OFF = re2.compile(r"^(disable|no|skip|enforce)_|_(off|disabled)$|eager")
"""Launch flags whose name says that they switch something off."""


def odd_settings(facts: Facts, covered: set[str]) -> Iterator[Playbook]:
    """Make a lead of every launch flag that switches something off and that no playbook covers."""
    for place, (name, value) in enumerate(sorted(facts.flags.items())):
        if value is True and SWITCHES_OFF.search(name) and name not in covered:
            yield _odd(name, 100 + place, str(facts.engine.get("engine")))


def _odd(name: str, rank: int, engine: str) -> Playbook:
    def prediction(number: int, favours: str, says: str, find: str, where: str, kind: str) -> dict[str, Any]:
        check = {"kind": "text", "pattern": find}
        fields = {"id": f"P{number}", "favours": favours, "says": says, "check": check, "find": find}
        return fields | {"probe": where, "kind": kind}

    return Playbook.model_validate(
        {
            "name": f"flag-{name.replace('_', '-')}"[:64],
            "description": f"The launch flag for {name} switches something off.",
            "role": "odd",
            "rank": rank,
            "applies_when": {"engines": [engine]},
            "statement": f"The launch flag --{name.replace('_', '-')} switches something off that the "
            "installed version has on by default.",
            "settings": [name],
            "bad_value": "true",
            "effective": [name],
            "probes": {},
            "predictions": [
                prediction(
                    1,
                    "for",
                    "the server reports it as set",
                    f'"{name}": ?true',
                    "server_info",
                    "configuration",
                ),
                prediction(
                    2, "for", "the installed source branches on it", rf"\bif .*\.{name}\b", "source", "source"
                ),
                prediction(
                    3,
                    "against",
                    "the server reports it as not set",
                    f'"{name}": ?false',
                    "server_info",
                    "configuration",
                ),
            ],
        }
    )


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


def probe(case: Case) -> Steps:
    """Run every lead's probes in waves: load first and alone, then what waited for it; equal calls once."""
    pending = {
        f"{lead.book.name}.{name}": (lead, probe)
        for lead in case.leads
        for name, probe in lead.book.probes.items()
    }
    done: set[str] = set()
    common = True
    while pending:
        ready = {key: item for key, item in pending.items() if _ready(key, item[1], done)}
        load = {key: item for key, item in ready.items() if item[1].tool == "benchmark"}
        wave: dict[str, Call] = {
            key: (item[1].tool, _filled(item[1].args, case)) for key, item in (load or ready).items()
        }
        wave = {key: call for key, call in wave.items() if not _in_vain(key, pending[key][1].after, case)}
        done |= set(load or ready)
        pending = {key: item for key, item in pending.items() if key not in done}
        if common and not load:
            wave |= common_probes(case)
            common = False
        if wave:
            yield from _run(case, wave)
    if common:
        yield from _run(case, common_probes(case))


def _ready(key: str, probe: Any, done: set[str]) -> bool:
    book = key.partition(".")[0]
    return all(f"{book}.{other}" in done for other in (probe.after, probe.wait_for) if other)


def _in_vain(key: str, after: str | None, case: Case) -> bool:
    """Tell whether the probe this one builds on gave nothing."""
    before = case.probes.get(f"{key.partition('.')[0]}.{after}", {"error": "not run"})
    return after is not None and "error" in before


def common_probes(case: Case) -> dict[str, Call]:
    """Return the probes that do not belong to one playbook: effective settings and the unit's text."""
    names = sorted({name for lead in case.leads for name in lead.book.effective} | set(case.facts.flags))
    port, unit = case.facts.values()["port"], case.facts.unit
    quoted = "|".join(re2.escape(name) for name in names)
    command = f"curl -s -m 5 http://127.0.0.1:{port}/server_info | tr ',' '\\n' | grep -E '\"({quoted})\"'"
    calls: dict[str, Call] = {"server_info": ("run", {"command": command})}
    if unit:
        calls["unit"] = ("run", {"command": f"systemctl cat {unit} --no-pager"})
    return calls


def _run(case: Case, wave: dict[str, Call]) -> Steps:
    unique: dict[str, Call] = {}
    for call in wave.values():
        unique.setdefault(repr(call), call)
    says = (
        "I put load on the server and watch it."
        if "benchmark" in repr(list(unique))
        else "I look at what runs."
    )
    results = yield Step(says, list(unique.values()))
    by_call = dict(zip(unique, results, strict=False))
    for key, call in wave.items():
        case.probes[key] = by_call.get(repr(call), {"error": "no answer"})
    case.unit_text = case.probes.get("unit", case.unit_text)


def _filled(value: Any, case: Case) -> Any:
    """Fill braces in a probe's arguments; a text that is one number becomes a number."""
    if isinstance(value, dict):
        return {key: _filled(item, case) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, case) for item in value]
    return fill(value, case.facts) if isinstance(value, str) else value


def fill(text: str, facts: Facts) -> Any:
    """Replace ``{name}`` by what the facts say; braces of regular expressions stay."""
    filled = text
    for name, value in facts.values().items():
        filled = filled.replace("{" + name + "}", value)
    return int(filled) if filled != text and filled.isdigit() else filled


def read_source(case: Case) -> Steps:
    """Read the installed source for the leads that are not refuted yet: definitions, writes, readers."""
    open_leads = [lead for lead in case.leads if not _weigh(case, lead).against]
    settings = list(dict.fromkeys(name for lead in open_leads for name in lead.book.settings))
    if not settings or not case.facts.pid:
        return
    says = "Now I read the source that this process runs, for: " + ", ".join(settings)
    definitions = yield Step(says, [("grep", definition_grep(settings, case.facts.pid))])
    case.source += definitions
    paths = list(dict.fromkeys(str(row.get("path")) for view in definitions for row in rows(view, "results")))
    calls: list[Call] = [("grep", writes_grep(name, case.facts.pid, paths)) for name in settings]
    for lead in open_leads:
        pattern = readers_grep(lead.book, case.facts.pid)
        if pattern is not None:
            calls.append(("grep", pattern))
    case.source += yield Step(
        "I follow who sets these values, who reads them, and under which conditions.", calls
    )


def _weigh(case: Case, lead: Lead) -> Weighed:
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
        lead.weighed = _weigh(case, lead)
        evidence = lead.weighed.evidence()
        if evidence:
            calls.append(("hypothesis", {"update": [{"id": lead.id, "evidence": evidence}]}))
        if lead.holds and lead.book.settings and lead.book.bad_value is not None:
            lead.explanation = explain(lead.book.settings[0], lead.book.bad_value, case.facts, case.source)
    if calls:
        results = yield Step("I hold what I found against what each hypothesis predicted.", calls)
        for view in results:
            for row in rows(view, "hypotheses"):
                case.statuses[str(row.get("id"))] = str(row.get("status"))
