"""Tell which assignments of a setting happen, which cannot, and which gave a value that the engine tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tools.settings.difference import log_line, same
from tools.settings.judging import Judging
from tools.settings.outcomes import Outcome
from tools.settings.overwrites import Overwrite, overwrites_of
from tools.settings.plain import cite_text, condition_view, plain
from tools.settings.readers import readers
from tools.settings.static_judge import static_fallback
from tools.settings.subject import Subject

_MOST_EXPLAINED: Final = 24
"""Settings that a table looks for in the whole package."""


def explain_all(subject: Subject, settings: dict[str, dict[str, Any]]) -> None:
    """Look for the assignments of those values that no step of the evaluation gives."""
    names = [name for name, one in settings.items() if one["class"] == "not explained"][:_MOST_EXPLAINED]
    if not names:
        return
    for name, found in judged_assignments(subject, names).items():
        explain(settings[name], [overwrite_view(*pair) for pair in found], subject.evidence.log)


def explain(view: dict[str, Any], rows: list[dict[str, Any]], log: str) -> None:
    """Class a value that only the engine tells by the assignments that happen, or name those that may."""
    if view["class"] != "not explained":
        return
    fitting = [
        row
        for row in rows
        if row["result"] != "cannot fire"
        and "pair" not in row
        and (not row["known"] or same(row["value"], view["value"]))
    ]
    giving = [row for row in fitting if row["result"] == "fires"]
    told = [(row, line) for row in fitting if (line := log_line(row["logged"] or "", log))]
    if len(told) == 1:  # the engine's log says which one it was
        view |= {"class": "logged override", "given_by": told[0][0]["cite"], "log": told[0][1]}
    elif giving:
        view["class"] = "logged override" if giving[-1]["logged"] else "silent override"
        view["given_by"] = giving[-1]["cite"]
    elif fitting:
        fitting.sort(key=lambda row: len([c for c in row["conditions"] if c["verdict"] == "unknown"]))
        view["perhaps_by"] = [row["cite"] for row in fitting[:3]]
    for step in view["steps"]:
        if step["cite"] == view.get("given_by", ""):
            step["decides"] = True


def overwrites_view(subject: Subject, name: str) -> list[dict[str, Any]]:
    """Return every assignment of a setting, with whether it happens and why."""
    return [overwrite_view(*pair) for pair in judged_assignments(subject, [name]).get(name, ())]


def judged_assignments(
    subject: Subject, names: Iterable[str]
) -> Mapping[str, list[tuple[Overwrite, Outcome]]]:
    """Return every assignment of several settings with what becomes of it; the package is read once."""
    found = overwrites_of(subject.tree, names)
    judging = _judging(subject)
    return {name: list(zip(rows, judging.outcomes(rows), strict=True)) for name, rows in found.items()}


def _judging(subject: Subject) -> Judging:
    location = subject.location
    told = location.process.effective if location is not None else None
    return Judging(subject.tree, subject.evaluation, static_fallback(subject.tree, subject.argv, told))


def overwrite_view(one: Overwrite, outcome: Outcome) -> dict[str, Any]:
    """Return one assignment with whether it happens and why."""
    view: dict[str, Any] = {
        "result": outcome.result,
        "value": plain(one.value) if one.known else None,
        "known": one.known,
        "text": one.text,
        "on": one.on,
        "cite": str(one.cite),
        "symbol": one.symbol,
        "because": outcome.because,
        "decided_at": cite_text(outcome.cite),
        "needs": list(outcome.needs),
        "conditions": [condition_view(condition) for condition in outcome.conditions],
        "logged": one.logged,
    }
    if one.pair is not None:
        view["pair"] = {"role": one.pair.role, "saved": one.pair.saved, "restored": one.pair.restored}
    return view


def readers_view(subject: Subject, name: str) -> list[dict[str, Any]]:
    """Return where a setting is used, those places first that decide most."""
    return [
        {
            "cite": str(one.cite),
            "symbol": one.symbol,
            "use": one.use,
            "text": one.text,
            "decides": one.decides,
            "weight": one.weight,
            "through": one.through,
            "serving": one.serving,
        }
        for one in readers(subject.tree, name)
    ]
