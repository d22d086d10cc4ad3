"""Set what was asked for against what is in force and what shows, and say how each difference came about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tools.launch_line import HIDDEN
from tools.settings.evidence import Evidence
from tools.settings.own_words import UNREAD, Seen, Word
from tools.settings.requested import Asked
from tools.settings.types import Definition, DerivationStep, Effective

Kind = Literal[
    "default",
    "launch flag",
    "drop-in",
    "environment",
    "silent override",
    "logged override",
    "not explained",
    "unknown",
]
"""How a value came about; ``not explained``: the engine says it, and no step of the source gives it."""
_LITERAL: Final = re.compile(r"\{[^{}]*\}|%[-+ #0-9.*]*[a-zA-Z%]")
_FILLED: Final = 4
"""Words that a value in a message may have."""
_LONG: Final = 12
"""A text of a log line that is shorter could be anything."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Hold one setting: asked for, in force, seen, and how the value came about."""

    name: str
    kind: Kind
    value: Any
    known: bool
    source: str
    """Who says what is in force: ``/server_info``, a start-up line, or ``source`` (our evaluation)."""
    asked: tuple[Asked, ...] = ()
    step: DerivationStep | None = None
    """The step that gave the value."""
    log: str = ""
    """The line of the log that tells of it."""
    seen: tuple[Seen, ...] = ()
    default: Any = None
    default_known: bool = False
    evaluated: Effective | None = None
    disagrees: bool = False
    """True when the source gives another value than the engine says."""
    contradicted: bool = False
    """True when what is observed does not fit the value."""

    @property
    def differs(self) -> bool:
        """Tell whether there is something to see: no plain default that everybody agrees on."""
        return (
            self.kind not in ("default", "unknown")
            or self.disagrees
            or self.contradicted
            or any(not one.in_force for one in self.asked)
        )


def differences(
    evaluated: Mapping[str, Effective],
    definitions: Mapping[str, Definition],
    asked: Sequence[Asked],
    words: Mapping[str, Word],
    seen: Mapping[str, Sequence[Seen]],
    evidence: Evidence,
    names: Iterable[str],
) -> list[Difference]:
    """Return one row a setting, those that differ first, each group in the order of the source."""
    by_name: dict[str, list[Asked]] = {}
    for one in asked:
        by_name.setdefault(one.name, []).append(one)
    rows = [
        _difference(
            name,
            evaluated.get(name),
            definitions.get(name),
            tuple(by_name.get(name, ())),
            words.get(name),
            tuple(seen.get(name, ())),
            evidence,
        )
        for name in dict.fromkeys(names)
    ]
    return sorted(rows, key=lambda row: not row.differs)


def _difference(
    name: str,
    effective: Effective | None,
    definition: Definition | None,
    asked: tuple[Asked, ...],
    word: Word | None,
    seen: tuple[Seen, ...],
    evidence: Evidence,
) -> Difference:
    known = word is not None or (effective is not None and effective.known)
    value = word.value if word is not None else effective.value if effective is not None else None
    step = _step_of(effective, value, told=word is not None) if known else None
    default_known = definition is not None and definition.default_known
    default = definition.default if definition is not None and default_known else None
    # A value that was asked for, or is the default with nothing asked, is not what an assignment made of it.
    given = [one for one in asked if one.in_force]
    by_default = default_known and same(default, value) and not given
    if by_default or any(_gives(one, value) for one in given):
        step = None
    kind, log = _kind(step, asked, evidence, value, known, default_known and same(default, value))
    return Difference(
        name=name,
        kind=kind,
        value=value,
        known=known,
        source=word.source if word is not None else "source",
        asked=asked,
        step=step,
        log=log,
        seen=seen,
        default=default,
        default_known=default_known,
        evaluated=effective,
        disagrees=bool(word and effective and effective.known and not same(effective.value, value)),
        contradicted=known and any(contradicts(name, value, one) for one in seen),
    )


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same setting: a list is a tuple, 1.0 is 1, True is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def _step_of(effective: Effective | None, value: Any, *, told: bool) -> DerivationStep | None:
    """Return the step that surely gives the value: the last sure one, or the only one that can be it.

    Of several that write the same value one after the other, the first made it so.
    """
    perhaps: list[DerivationStep] = []
    found: DerivationStep | None = None
    for step in reversed(effective.steps if effective is not None else ()):
        fits = not step.known or same(step.value, value)
        if found is not None:
            if not (step.known and fits):
                break
            found = step if _sure(step) else found
        elif _sure(step):  # nothing before it counts
            if not fits or (not step.known and perhaps):
                return _only(perhaps, told)
            found = step
        elif fits:
            perhaps.append(step)
    return found if found is not None else _only(perhaps, told)


def _only(perhaps: Sequence[DerivationStep], told: bool) -> DerivationStep | None:
    """Return the one step that may have given a value which the engine tells."""
    return perhaps[0] if told and len(perhaps) == 1 else None


def _sure(step: DerivationStep) -> bool:
    return all(one.verdict == "true" for one in step.conditions)


def _kind(
    step: DerivationStep | None,
    asked: tuple[Asked, ...],
    evidence: Evidence,
    value: Any,
    known: bool,
    is_default: bool,
) -> tuple[Kind, str]:
    if not known:
        return "unknown", ""
    if step is None:
        given = [one for one in asked if one.in_force and _gives(one, value)]
        if given:
            return _by_place(given[-1]), ""
        return ("default" if is_default else "not explained"), ""
    if step.origin == "default":
        return "default", ""
    if step.origin == "environment":
        return "environment", ""
    if step.origin == "flag":
        return (_by_place(asked[0]) if asked else "launch flag"), ""
    if step.logged is None:
        return "silent override", ""
    return "logged override", log_line(step.logged, evidence.log)


def _gives(asked: Asked, value: Any) -> bool:
    """Tell whether an option, as it was given, means a value."""
    if asked.value is None:
        return value is not asked.word.startswith("--no-") if isinstance(value, bool) else False
    if asked.value == HIDDEN:
        return value is not None
    if isinstance(value, list | tuple):
        words = asked.value.split(" ")
        return (len(words) == len(value) and all(map(_means, words, value))) or _means(asked.value, value)
    return _means(asked.value, value)


def _means(word: str, value: Any) -> bool:
    """Tell whether a word of a launch line is a value: as it is, as a number, or as JSON."""
    if word == str(value):
        return True
    if isinstance(value, bool | str) or value is None:
        return False
    try:
        return same(json.loads(word) if isinstance(value, dict | list | tuple) else float(word), value)
    except ValueError:
        return False


def _by_place(asked: Asked) -> Kind:
    if asked.way == "drop-in":
        return "drop-in"
    return "environment" if asked.way.startswith("environment") else "launch flag"


def log_line(message: str, log: str) -> str:
    """Return the line of a log that a message of the source made; empty when none is there.

    The values that a message is filled with may be missing in it, or stand as ``{name}`` or ``%s``.
    """
    words = _LITERAL.sub(" ", message).split()
    if len(" ".join(words)) < _LONG or len(words) < 3:
        return ""
    return next((line.strip() for line in log.splitlines() if _made_of(words, line)), "")


def _made_of(words: Sequence[str], line: str) -> bool:
    """Tell whether a line holds the words in their order, with few others between them."""
    if words[0] not in line or words[-1] not in line:
        return False
    there = line.split()
    for start in (at for at, word in enumerate(there) if word == words[0]):
        at = start
        for word in words[1:]:
            after = there[at + 1 : at + 2 + _FILLED]
            if word not in after:
                break
            at += 1 + after.index(word)
        else:
            return True
    return False


def contradicts(name: str, value: Any, seen: Seen) -> bool:
    """Tell whether something observed does not fit a value in force."""
    if name.rpartition(".")[2] == "disable_cuda_graph" and value is False:
        return seen.source == "decode lines" and seen.text.endswith("cuda graph: False")
    if seen.value is UNREAD or value is None:
        return False
    # What a server logs may be what became of a setting later: only the same kind of plain value is compared.
    plain = bool | int | float | str
    if seen.source != "metric" or not isinstance(value, plain) or type(value) is not type(seen.value):
        return False
    return not same(value, seen.value)
