"""Find settings of a process that leave an optimisation unused, by what the source does with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tools.settings.judging import Judging
from tools.settings.losses import Loss, loss_of, switched_off
from tools.settings.reach import profile_of
from tools.settings.readers import Reader, readers_of
from tools.settings.relevance import Relevance
from tools.settings.slots import slots_of, twins_of
from tools.settings.types import Cite, Definition, DerivationStep, Effective, Evaluation, SourceTree

Kind = Literal["off by flag", "off by overwrite", "fast path unused", "differs from default"]
"""Why a setting is looked at: the launch line switches something off, the source does, a default leaves
something unused, or it only differs from the default."""

_BASES: Final[Mapping[Kind, float]] = {
    "off by flag": 5.0,
    "fast path unused": 1.0,
    "off by overwrite": 1.5,
    "differs from default": 0.3,
}
Weigh = Callable[[Judging, Reader, Any, Any], Loss | None]
_MOST_JUDGED: Final = 30
"""So many of the leading ones are checked for being reached at all, which asks for their callers."""
_MOST_REASONS: Final = 4
_MOST_PLACES: Final = 8
_TRUTHY: Final = {"int": 1, "float": 1.0, "bool": True}


@dataclass(frozen=True, slots=True)
class Reason:
    """Hold one thing that the source does with a setting's value."""

    text: str
    cite: Cite | None
    weight: float


@dataclass(frozen=True, slots=True)
class Suspect:
    """Hold one setting that may cost speed, the one most worth a look first."""

    name: str
    kind: Kind
    value: Any
    default: Any
    score: float
    reasons: tuple[Reason, ...]


@dataclass(slots=True)
class _Found:
    name: str
    kind: Kind
    losses: list[Loss]
    reasons: list[Reason]
    switch: bool
    """True for one that is on or off, or of a few choices; a number is not meant to switch something off."""


def suspects(
    tree: SourceTree, definitions: Mapping[str, Definition], evaluation: Evaluation
) -> tuple[Suspect, ...]:
    """Return the settings that leave an optimisation unused in a process, ranked with reasons."""
    names = [n for n, d in definitions.items() if _looked_at(d, evaluation.settings.get(n))]
    profile = profile_of(tree)
    twins = twins_of(profile, slots_of(tree, profile, names), names)
    names = [name for name in names if name not in twins]
    judging = Judging(tree, evaluation)
    relevance = Relevance(tree, judging, definitions, evaluation)
    found = []
    for name, uses in readers_of(tree, names).items():
        candidate = _candidate(definitions[name], evaluation.settings[name], uses, judging)
        if candidate is not None:
            found.append(candidate)
    found.sort(key=lambda one: -_score(one))
    leading = found[:_MOST_JUDGED]
    relevance.prepare(loss.reader for one in leading for loss in one.losses)
    kept = [_checked(one, relevance) for one in leading]
    ranked = [_suspect(one, definitions[one.name], evaluation) for one in kept if one is not None]
    return tuple(sorted(ranked, key=lambda one: (-one.score, one.name)))


def _looked_at(definition: Definition, effective: Effective | None) -> bool:
    plain = definition.kind == "field" and effective is not None and effective.known
    return plain and not definition.shallow


def _candidate(
    definition: Definition, effective: Effective, uses: Sequence[Reader], judging: Judging
) -> _Found | None:
    kind = _kind(definition, effective)
    early: Weigh | None = switched_off if kind != "fast path unused" else None
    losses = [
        loss
        for reader in uses
        if reader.serving and reader.branch is not None
        for loss in _losses(definition, effective, reader, judging, early if reader.resolving else loss_of)
    ]
    if not losses and kind in ("fast path unused", "off by overwrite"):
        return None
    if not losses:
        kind = "differs from default"
    leading = sorted(losses, key=lambda loss: -loss.weight)[:_MOST_PLACES]
    switch = isinstance(effective.value, bool) or definition.choices is not None or kind == "fast path unused"
    return _Found(definition.name, kind, leading, list(_origins(definition, effective)), switch)


def _kind(definition: Definition, effective: Effective) -> Kind:
    last = effective.steps[-1] if effective.steps else None
    if last is not None and last.origin == "overwrite" and last.value != definition.default:
        return "off by overwrite"
    differs = definition.default_known and effective.value != definition.default
    return "off by flag" if differs else "fast path unused"


def _losses(
    definition: Definition, effective: Effective, reader: Reader, judging: Judging, weigh: Weigh | None
) -> Iterator[Loss]:
    """Yield what runs at a place with another value and does not with the one in force: the worst case."""
    found = [
        loss
        for other in (_others(definition, effective.value) if weigh is not None else ())
        if weigh is not None and (loss := weigh(judging, reader, effective.value, other)) is not None
    ]
    if found:
        yield max(found, key=lambda loss: loss.weight)


def _others(definition: Definition, value: Any) -> list[Any]:
    """Return values that a person could give instead."""
    found: list[Any] = []
    if definition.default_known and definition.default != value:
        found.append(definition.default)
    kind = (definition.type or "").lower()
    if isinstance(value, bool):
        found.append(not value)
    elif isinstance(value, int | float):
        found.append(1 if value == 0 else 0)
    elif definition.choices:
        found += [choice for choice in definition.choices[:6] if choice != value]
    elif value is None:
        found += [other for word, other in _TRUTHY.items() if word in kind][:1]
    return [other for index, other in enumerate(found) if other not in found[:index]]


def _origins(definition: Definition, effective: Effective) -> Iterator[Reason]:
    """Yield how the value came about, where that is not the default."""
    last = effective.steps[-1] if effective.steps else None
    overwritten = last is not None and last.origin == "overwrite"
    if not overwritten and definition.default_known and effective.value != definition.default:
        flag = next(iter(definition.flags), definition.name)
        yield Reason(f"{flag} is given; the default is {definition.default!r}", definition.cite, 0.0)
    if last is not None and overwritten:
        yield _overwritten(last)


def _overwritten(step: DerivationStep) -> Reason:
    conditions = " and ".join(c.text for c in step.conditions) or "always"
    if step.logged is None:
        return Reason(f"overwritten without a word: {step.text} ({conditions})", step.cite, 0.8)
    return Reason(f"overwritten: {step.text} ({conditions}); logged: {step.logged}", step.cite, 0.2)


def _score(one: _Found) -> float:
    distinct = {loss.names: loss.weight for loss in sorted(one.losses, key=lambda loss: loss.weight)}
    strongest = sorted(distinct.values(), reverse=True)[:3]
    losses = sum(weight / (1 + place) for place, weight in enumerate(strongest))
    base = _BASES[one.kind] / (1 if one.switch else 2)
    return base + losses + sum(reason.weight for reason in one.reasons)


def _checked(one: _Found, relevance: Relevance) -> _Found | None:
    """Leave out places that this process cannot reach; a setting without any left is none of its causes."""
    if not one.losses:
        return one
    kept = []
    for loss in one.losses:
        found = relevance.of(loss.reader)
        if found.reached != "false":
            kept.append(loss)
            one.reasons += [
                Reason(text, cite, 2.0) for text, cite in found.only_since if not _said(one, text)
            ]
    if not kept and one.kind != "off by flag":
        return None
    kind: Kind = one.kind if kept else "differs from default"
    return _Found(one.name, kind, kept, one.reasons, one.switch)


def _said(one: _Found, text: str) -> bool:
    return any(reason.weight == 2.0 or reason.text == text for reason in one.reasons)


def _suspect(one: _Found, definition: Definition, evaluation: Evaluation) -> Suspect:
    losses = sorted(one.losses, key=lambda loss: -loss.weight)[:_MOST_REASONS]
    reasons = [*(Reason(loss.text, loss.reader.cite, loss.weight) for loss in losses), *_once(one.reasons)]
    value = evaluation.settings[one.name].value
    return Suspect(one.name, one.kind, value, definition.default, round(_score(one), 2), tuple(reasons))


def _once(reasons: Iterable[Reason]) -> list[Reason]:
    return list({reason.text: reason for reason in reasons}.values())
