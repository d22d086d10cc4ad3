"""Compare what an engine's own classes show of their settings with the definitions found in its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.settings.types import Definition


@dataclass(frozen=True, slots=True)
class Counted:
    """Hold one release's counts: what it shows, and what is missing or different in the definitions."""

    fields: int
    options: int
    sections: int
    variables: int
    missing: tuple[str, ...]
    """What the release shows and no definition holds."""
    wrong: tuple[str, ...]
    """Defaults and choices that are said to be known, and are not those of the release."""
    unknown: tuple[str, ...]
    """Defaults that the release shows and the definitions leave open."""
    beyond: tuple[str, ...]
    """Option strings that are defined and that the release's parser does not take."""

    @property
    def shown(self) -> int:
        """Return how many settings, option strings and variables the release shows."""
        return self.fields + self.options + self.sections + self.variables


def compare(shown: Mapping[str, Any], found: Mapping[str, Definition]) -> Counted:
    """Compare what ``count_program.py`` printed with what was found."""
    settings = {name: each for name, each in found.items() if each.kind == "field"}
    by_flag = {flag: each for each in settings.values() for flag in _flags(each)}
    names = [name for option in shown["options"] for name in option["names"]]
    sections = [f"{s}.{name}" for s, held in shown["sections"].items() for name in held]
    missing = [name for name in [*shown["fields"], *sections] if name not in settings]
    missing += [name for name in names if name not in by_flag and name not in settings]
    missing += [name for name in shown["environment"] if name not in found]
    defaults = list(_defaults(shown, settings, by_flag))
    return Counted(
        len(shown["fields"]),
        len(names),
        len(sections),
        len(shown["environment"]),
        tuple(missing),
        tuple(text for known, text in [*defaults, *_choices(shown, by_flag)] if known),
        tuple(text for known, text in defaults if not known),
        tuple(sorted(by_flag.keys() - set(names))),
    )


def _defaults(
    shown: Mapping[str, Any], settings: Mapping[str, Definition], by_flag: Mapping[str, Definition]
) -> Iterator[tuple[bool, str]]:
    """Yield each default that differs, and whether it was said to be known.

    An option's default goes before its field's: it is what a launch line without the option gives.
    """
    seen: set[str] = set()
    for option in shown["options"]:
        definition = next((by_flag[name] for name in option["names"] if name in by_flag), None)
        if definition is None or definition.name in seen:
            continue
        seen.add(definition.name)
        if not option["required"] and option["default"] != ["==SUPPRESS=="]:
            yield from _difference(definition, option["default"])
    for name, default in shown["fields"].items():
        if name in settings and name not in seen:
            yield from _difference(settings[name], default)


def _difference(definition: Definition, default: Sequence[Any] | None) -> Iterator[tuple[bool, str]]:
    if default is None:  # the release's value is no plain one, or comes from a stand-in
        return
    if not definition.default_known:
        yield False, f"{definition.name}: {default[0]!r}"
    elif _listed(definition.default) != default[0]:
        yield True, f"{definition.name}: {definition.default!r}, not {default[0]!r}"


def _choices(shown: Mapping[str, Any], by_flag: Mapping[str, Definition]) -> Iterator[tuple[bool, str]]:
    """Yield the choices that differ, of the options that lead a setting's."""
    for option in shown["options"]:
        definition = next((by_flag[name] for name in option["names"] if name in by_flag), None)
        if definition is None or definition.choices is None or not option["choices"]:
            continue
        ours = {str(each) for each in definition.choices} - {"None"}
        theirs = {str(each) for each in option["choices"][0]} - {"None"}
        if ours != theirs and option["names"][0] in definition.flags[:1]:
            yield True, f"{definition.name}: choices {sorted(ours ^ theirs)} differ"


def _flags(definition: Definition) -> tuple[str, ...]:
    return (*definition.flags, *definition.negative_flags, *definition.deprecated_flags)


def _listed(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return list(value) if isinstance(value, tuple) else value
