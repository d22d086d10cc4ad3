"""Compare the facts of two moments, or of several hosts, and put what matters most first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tools.facts_flat import Flat, part_of

Kind = Literal["changed", "added", "gone"]

_FIRST: Final = (
    "engine",
    "version",
    "flag",
    "effective",
    "env",
    "dropin",
    "file",
    "limit",
    "active",
    "health",
)
_LAST: Final = ("since", "restarts", "problems", "not_permitted", "listening")


@dataclass(frozen=True, slots=True)
class Change:
    """Hold one fact that differs; None where it was not there."""

    name: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> Kind:
        """Tell what became of it."""
        return "added" if self.before is None else "gone" if self.after is None else "changed"

    def says(self) -> str:
        """Return it as a line for people."""
        if self.before is None:
            return f"{self.name}: {self.after} (was not there)"
        return f"{self.name}: {self.before} -> {self.after or 'no longer there'}"


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Return what differs between two looks, as far as both asked for the same."""
    both = {part_of(name) for name in before} & {part_of(name) for name in after}
    names = [name for name in {**before, **after} if part_of(name) in both]
    found = [
        Change(name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]
    return sorted(found, key=lambda one: (weight(one.name), one.name))


def weight(name: str) -> int:
    """Return how early a fact is told: what a person sets comes first, what follows from it last."""
    kind = kind_of(name)
    if kind in _FIRST:
        return _FIRST.index(kind)
    return len(_FIRST) + 1 + _LAST.index(kind) if kind in _LAST else len(_FIRST)


def kind_of(name: str) -> str:
    """Return what sort of fact a name is of: ``flag`` of ``sglang.service flag pp_size``."""
    words = name.split(" ")
    return words[1] if len(words) > 1 and ("." in words[0] or ":" in words[0]) else words[0]


@dataclass(frozen=True, slots=True)
class Difference:
    """Hold the values that hosts have of one fact, each with the hosts that have it, most hosts first."""

    name: str
    values: tuple[tuple[str | None, tuple[str, ...]], ...]

    def says(self) -> str:
        """Return it as a line for people, hosts with one value together."""
        told = [
            f"{value if value is not None else 'not set'} on {', '.join(on)}" for value, on in self.values
        ]
        return f"{self.name}: {'; '.join(told)}"


def plain(name: str) -> str:
    """Return a fact's name without the unit that it is of, so that hosts with other units compare."""
    words = name.split(" ", 1)
    return words[1] if len(words) > 1 and kind_of(name) != words[0] else name


def differences(by_host: Mapping[str, Flat]) -> list[Difference]:
    """Return the facts that are not the same on all hosts; one that only some tell is not set on the others.

    Options are compared among hosts with the same engine, and what servers say among those that say anything.
    """
    compared = {host: _comparable(flat) for host, flat in by_host.items()}
    names = {name: None for flat in compared.values() for name in flat}
    found = []
    for name in names:
        hosts = [host for host in compared if _bears(name, compared[host], compared)]
        folded = fold({host: compared[host].get(name) for host in hosts})
        if len(folded) > 1:
            found.append(Difference(name, folded))
    return sorted(found, key=lambda one: (weight(one.name), one.name))


def _comparable(flat: Flat) -> Flat:
    """Return facts by their plain names: those of several engines together, GPUs of a kind counted."""
    found: dict[str, list[str]] = {}
    cards: dict[str, int] = {}
    for name, value in flat.items():
        if kind_of(name) == "gpu" and name.startswith("gpu "):
            cards[value] = cards.get(value, 0) + 1
        elif value not in found.setdefault(plain(name), []):
            found[plain(name)].append(value)
    if cards:
        found["gpus"] = [", ".join(f"{count} x {card}" for card, count in cards.items())]
    return {name: " / ".join(values) for name, values in found.items()}


def _bears(name: str, flat: Flat, all_hosts: Mapping[str, Flat]) -> bool:
    """Tell whether a fact could be told of a host at all."""
    kind = kind_of(name)
    if kind == "effective" and not any(other.startswith("effective ") for other in flat):
        return False
    if kind not in ("flag", "effective"):
        return True
    engines = {other.get("engine") for other in all_hosts.values() if name in other}
    return flat.get("engine") in engines


def fold(values: Mapping[str, str | None]) -> tuple[tuple[str | None, tuple[str, ...]], ...]:
    """Put hosts with the same value together, the value that most have first."""
    groups: dict[str | None, list[str]] = {}
    for host, value in values.items():
        groups.setdefault(value, []).append(host)
    return tuple((value, tuple(on)) for value, on in sorted(groups.items(), key=lambda one: -len(one[1])))


def gone_subjects(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the units and servers that had an engine process before and have none now."""
    running = [
        {name.rpartition(" ")[0] for name in flat if name.endswith(" engine")} for flat in (before, after)
    ]
    return sorted(running[0] - running[1])


def folded_gone(found: Sequence[Change], gone: Sequence[str]) -> list[Change]:
    """Leave out what went with a server that no longer runs: one line says that."""
    return [
        one
        for one in found
        if one.kind != "gone" or not any(one.name.startswith(f"{subject} ") for subject in gone)
    ]
