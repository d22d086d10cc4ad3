"""Turn what is known of settings into JSON: what it is, why, and which line says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tools.definitions import HIDDEN, is_secret
from tools.launch_line import mask
from tools.settings import problems
from tools.settings import subject as subjects
from tools.settings.difference import Difference, log_line, same
from tools.settings.judging import Judging
from tools.settings.lint import lint
from tools.settings.locate import Location
from tools.settings.overwrites import Overwrite, overwrites, overwrites_of
from tools.settings.readers import readers
from tools.settings.remote import RemoteTree
from tools.settings.requested import Asked
from tools.settings.static_judge import static_fallback
from tools.settings.subject import Subject
from tools.settings.suspects import Suspect, suspects
from tools.settings.types import Cite, Condition, Definition, DerivationStep, Effective, Origin

_MOST_EXPLAINED = 24
"""Settings that a table looks for in the whole package."""


def plain(value: Any) -> Any:
    """Return a value in JSON types; what has no JSON form becomes text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, set | frozenset):
        return [plain(part) for part in sorted(value, key=repr)]
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    return repr(value)[:300]


def _shown(name: str, value: Any) -> Any:
    return HIDDEN if is_secret(name) and isinstance(value, str) and value else plain(value)


def source_head(subject: Subject) -> dict[str, Any]:
    """Return what holds for a launch line as a whole."""
    evaluation = subject.evaluation
    view: dict[str, Any] = {
        "engine": subject.tree.engine,
        "version": subject.tree.version,
        "accepted": evaluation.accepted,
        "refusal": evaluation.refusal,
    }
    if evaluation.refused_at is not None:
        view["refused_at"] = str(evaluation.refused_at)
    return view | {"partial": evaluation.partial}


def host_head(subject: Subject) -> dict[str, Any]:
    """Return which process it is, and where its source lies."""
    location = subject.location
    assert location is not None
    facts = location.process
    return {
        "host": facts.host,
        "pid": facts.pid,
        "unit": subject.evidence.unit or None,
        **source_head(subject),
        "source": _place(subject, location),
        "notes": subject.notes,
        "not_permitted": list(facts.not_permitted),
    }


def _place(subject: Subject, location: Location) -> dict[str, Any]:
    place: dict[str, Any] = {
        "package": subject.stand_in or location.package,
        "interpreter": location.process.interpreter,
        "environment": location.environment,
        "started_as": location.started_as,
    }
    if location.editable:
        place["editable_by"] = location.editable
    if location.checkout is not None:
        place["checkout"] = {
            "folder": location.checkout.folder,
            "head": location.checkout.head,
            "sha": location.checkout.sha or None,
        }
    if subject.patched is not None:
        place["record"] = subject.patched.problem or f"{subject.patched.checked} files compared with RECORD"
        if subject.patched.differs:
            place["changed"] = list(subject.patched.changed)
            place["added"] = list(subject.patched.added)
            place["missing"] = list(subject.patched.missing)
    if isinstance(subject.tree, RemoteTree):
        place |= {"commands": subject.tree.trips, "bytes_received": subject.tree.received}
    return place


def settings_view(subject: Subject, names: Iterable[str] = ()) -> dict[str, Any]:
    """Return the settings of a launch line: all of them, or those named with everything known of each."""
    chosen = list(names)
    every = chosen or [row.name for row in subject.rows]
    settings = {name: setting_view(subject, name, whole=bool(chosen)) for name in every}
    if not chosen:
        _explain_all(subject, settings)
    return settings


def setting_view(subject: Subject, name: str, *, whole: bool) -> dict[str, Any]:
    """Return one setting; ``whole`` adds its overwrites and readers."""
    row = subject.row(name)
    effective = subject.evaluation.settings.get(name) or Effective(name, known=False)
    definition = subject.definitions.get(name)
    steps = [_step(name, step, decides=step is row.step) for step in effective.steps]
    view: dict[str, Any] = {
        "known": row.known,
        "value": _shown(name, row.value) if row.known else None,
        "needs": list(effective.needs) if not row.known else [],
        "alternatives": [_shown(name, one) for one in effective.alternatives],
        "origin": _origin(row),
        "class": row.kind,
        "steps": [*_first_steps(name, row, effective, definition), *steps],
    }
    view |= _told(subject, name, row)
    view["definition"] = _definition(definition) if definition is not None else None
    if whole:
        view["overwrites"] = _overwrites(subject, name)
        _explain(view, view["overwrites"], subject.evidence.log)
        view["readers"] = _readers(subject, name)
    return view


def _told(subject: Subject, name: str, row: Difference) -> dict[str, Any]:
    """Return what a host adds: what was asked for, what the engine says, what shows."""
    view: dict[str, Any] = {}
    if row.asked:
        view["requested"] = [_asked(one) for one in row.asked]
    if subject.location is None:
        return view
    view["source_of_value"] = row.source
    if row.log:
        view["log"] = row.log
    if row.seen:
        view["observed"] = [{"text": one.text, "source": one.source} for one in row.seen]
    if row.disagrees and row.evaluated is not None:
        view["disagrees"] = {
            "engine": _shown(name, row.value),
            "evaluated": _shown(name, row.evaluated.value),
            "note": "the engine's own word stands; the source, as it was evaluated, gives another value",
        }
    if row.contradicted:
        view["contradicted"] = True
    return view


def _asked(one: Asked) -> dict[str, Any]:
    view: dict[str, Any] = {"word": one.word, "value": one.value, "way": one.way, "where": one.where}
    if one.remark:
        view["remark"] = one.remark
    if not one.in_force:
        view["in_force"] = False
    return view


def _cite(cite: Cite | None) -> str | None:
    return str(cite) if cite is not None else None


def _origin(row: Difference) -> str | None:
    if row.step is not None:
        return row.step.origin
    kinds = {"default": "default", "launch flag": "flag", "drop-in": "flag", "environment": "environment"}
    return kinds.get(row.kind)


def _first_steps(
    name: str, row: Difference, effective: Effective, definition: Definition | None
) -> list[dict[str, Any]]:
    """Return the default and the option given, where the evaluation tells of overwrites alone."""
    if any(step.origin != "overwrite" for step in effective.steps):
        return []
    found = []
    if definition is not None and definition.cite.line:
        known, default = definition.default_known, definition.default
        text = f"{name}: {definition.type or 'Any'} = {repr(default) if known else definition.default_text}"
        base = DerivationStep("default", default, known, definition.cite, text)
        found.append(_step(name, base, decides=row.kind == "default"))
    for asked in [one for one in row.asked if one.in_force]:
        text = asked.word if asked.value is None else f"{asked.word} {asked.value}"
        given = row.kind in ("launch flag", "drop-in", "environment")
        origin: Origin = "environment" if asked.way.startswith("environment") else "flag"
        step = DerivationStep(origin, row.value if given else asked.value, given, None, text)
        found.append(_step(name, step, decides=given))
    return found


def _step(name: str, step: DerivationStep, *, decides: bool) -> dict[str, Any]:
    view: dict[str, Any] = {
        "origin": step.origin,
        "value": _shown(name, step.value) if step.known else None,
        "known": step.known,
        "cite": _cite(step.cite),
        "text": HIDDEN if is_secret(name) and step.origin in ("flag", "environment") else step.text,
        "conditions": [_condition(one) for one in step.conditions],
        "logged": step.logged,
    }
    if decides:
        view["decides"] = True
    if step.calls:
        view["calls"] = [str(call) for call in step.calls]
    return view


def _condition(one: Condition) -> dict[str, Any]:
    view: dict[str, Any] = {
        "text": one.text,
        "verdict": one.verdict,
        "because": one.because,
        "cite": str(one.cite),
    }
    return view | ({"needs": list(one.needs)} if one.needs else {})


def _definition(one: Definition) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "owner": one.owner,
        "cite": str(one.cite),
        "type": one.type,
        "default": plain(one.default) if one.default_known else None,
        "default_known": one.default_known,
        "default_text": one.default_text,
        "choices": [plain(choice) for choice in one.choices] if one.choices is not None else None,
        "help": one.help,
        "flags": list(one.flags),
        "negative_flags": list(one.negative_flags),
        "deprecated_flags": list(one.deprecated_flags),
        "deprecated": one.deprecated,
        "shallow": one.shallow,
    }


def _judging(subject: Subject) -> Judging:
    location = subject.location
    told = location.process.effective if location is not None else None
    return Judging(subject.tree, subject.evaluation, static_fallback(subject.tree, subject.argv, told))


def _overwrites(subject: Subject, name: str) -> list[dict[str, Any]]:
    judging = _judging(subject)
    return [_overwrite(one, judging) for one in overwrites(subject.tree, name)]


def _explain_all(subject: Subject, settings: dict[str, dict[str, Any]]) -> None:
    """Look for the assignments of those values that no step of the evaluation gives."""
    names = [name for name, one in settings.items() if one["class"] == "not explained"][:_MOST_EXPLAINED]
    if not names:
        return
    judging = _judging(subject)
    for name, found in overwrites_of(subject.tree, names).items():
        _explain(settings[name], [_overwrite(one, judging) for one in found], subject.evidence.log)


def _explain(view: dict[str, Any], rows: list[dict[str, Any]], log: str) -> None:
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


def _overwrite(one: Overwrite, judging: Judging) -> dict[str, Any]:
    outcome = judging.outcome(one)
    view: dict[str, Any] = {
        "result": outcome.result,
        "value": plain(one.value) if one.known else None,
        "known": one.known,
        "text": one.text,
        "on": one.on,
        "cite": str(one.cite),
        "symbol": one.symbol,
        "because": outcome.because,
        "decided_at": _cite(outcome.cite),
        "needs": list(outcome.needs),
        "conditions": [_condition(condition) for condition in outcome.conditions],
        "logged": one.logged,
    }
    if one.pair is not None:
        view["pair"] = {"role": one.pair.role, "saved": one.pair.saved, "restored": one.pair.restored}
    return view


def _readers(subject: Subject, name: str) -> list[dict[str, Any]]:
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


def suspects_view(subject: Subject) -> dict[str, Any]:
    """Return the settings that leave an optimisation unused, the one most worth a look first."""
    found = suspects(subject.tree, subject.definitions.fields(), subject.evaluation)
    return {"suspects": [_suspect(subject, one) for one in found]}


def _suspect(subject: Subject, one: Suspect) -> dict[str, Any]:
    row = subject.row(one.name)
    view: dict[str, Any] = {
        "name": one.name,
        "kind": one.kind,
        "value": _shown(one.name, one.value),
        "default": plain(one.default),
        "class": row.kind,
        "score": round(one.score, 1),
        "reasons": [{"text": reason.text, "cite": _cite(reason.cite)} for reason in one.reasons],
    }
    if row.disagrees:
        view["engine_says"] = _shown(one.name, row.value)
    if row.asked:
        view["requested"] = [_asked(asked) for asked in row.asked]
    return view


def lint_view(subject: Subject, line: str | None = None) -> dict[str, Any]:
    """Return what is to be said of a launch line: a proposed one, or that of the process."""
    argv = subjects.words_of(line) if line is not None else list(subject.argv)
    # What was worked out holds for the line of the process alone.
    evaluation = subject.evaluation if line is None else subjects.evaluated(subject, argv)
    found = lint(
        subject.tree,
        subject.definitions,
        argv,
        subject.environment,
        evaluation,
        subject.facts.read_file,
    )
    return {
        "launch_line": mask(argv),
        "problems": problems.shown(found),
    }
