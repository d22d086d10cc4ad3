"""Turn what is known of settings into JSON: what it is, why, and which line says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tools.definitions import HIDDEN, is_secret
from tools.launch_line import mask
from tools.settings import problems
from tools.settings import subject as subjects
from tools.settings.difference import Difference
from tools.settings.lint import lint
from tools.settings.locate import Location
from tools.settings.plain import cite_text, condition_view, plain
from tools.settings.remote import RemoteTree
from tools.settings.requested import Asked
from tools.settings.subject import Subject
from tools.settings.suspects import Suspect, suspects
from tools.settings.types import Definition, DerivationStep, Effective, Origin
from tools.settings.view_assignments import explain, explain_all, overwrites_view, readers_view


def _shown(name: str, value: Any) -> Any:
    hidden = is_secret(name) and isinstance(value, (str, list, tuple, dict)) and value
    return HIDDEN if hidden else plain(value)


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
    if evaluation.accepted is None and evaluation.needs:
        view["accepted_needs"] = list(evaluation.needs)
    if subject.notes and subject.location is None:
        view["notes"] = subject.notes
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


def brief_head(subject: Subject) -> dict[str, Any]:
    """Return what a model must know of the process and its source before it believes an answer."""
    location, evaluation = subject.location, subject.evaluation
    assert location is not None
    view: dict[str, Any] = {
        "host": location.process.host,
        "pid": location.process.pid,
        "unit": subject.evidence.unit or None,
        "engine": f"{subject.tree.engine} {subject.tree.version}".strip(),
        "source": subject.stand_in or location.package,
        "notes": subject.notes,
        "not_permitted": list(location.process.not_permitted),
        "partial": evaluation.partial,
    }
    return {key: part for key, part in view.items() if part}


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
        explain_all(subject, settings)
    return settings


def setting_view(subject: Subject, name: str, *, whole: bool) -> dict[str, Any]:
    """Return one setting; ``whole`` adds its overwrites and readers."""
    row = subject.row(name)
    effective = subject.effective(name) or Effective(name, known=False)
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
        view["overwrites"] = overwrites_view(subject, name)
        explain(view, view["overwrites"], subject.evidence.log)
        view["readers"] = readers_view(subject, name)
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
        "cite": cite_text(step.cite),
        "text": HIDDEN if is_secret(name) and step.origin in ("flag", "environment") else step.text,
        "conditions": [condition_view(one) for one in step.conditions],
        "logged": step.logged,
    }
    if decides:
        view["decides"] = True
    if step.calls:
        view["calls"] = [str(call) for call in step.calls]
    return view


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
        "reasons": [{"text": reason.text, "cite": cite_text(reason.cite)} for reason in one.reasons],
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
