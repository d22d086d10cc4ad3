"""Derive settings for a case file: every statement found that writes one, and whether it may run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.case_records import CaseFile, ClaimRow
from agent.events import Event, ToolFinished
from agent.models.explained import as_search
from agent.models.views import Facts, parse_view, rows
from agent.named_values import plain_name
from agent.state import GuardClaim, Record, SettingClaim, Verdict

_ORDER: dict[Verdict, int] = {"true": 0, "unknown": 1, "false": 2}
_WRITTEN = re.compile(r"(\w+)\s*(?::[^=]+)?=(?!=)")
_TELL = ("grep", "settings")
_MOST = 60


class Condition(Record):
    """What must be true for a statement to run, how it stands in this process, and what decides it."""

    text: str
    line: int | None
    verdict: Verdict
    because: str


class Statement(Record):
    """One statement that writes a setting; ``claim`` numbers the verified claim that covers it."""

    code: str
    where: str
    symbol: str
    verdict: Verdict
    restores: bool = False
    conditions: list[Condition]
    more: int = 0
    call: str = ""
    claim: int | None = None


class Layer(Record):
    """The value of a setting in one layer, with the number of the verified claim that gives it."""

    value: str
    claim: int


class Derivation(Record):
    """A setting in every layer, with the statements that write it."""

    name: str
    layers: dict[str, Layer]
    statements: list[Statement]
    left_out: int = 0

    def split(self) -> tuple[list[Statement], list[Statement]]:
        """Return the statements that a claim covers, and the others."""
        covered = [one for one in self.statements if one.claim is not None]
        return covered, [one for one in self.statements if one.claim is None]

    def count(self, statements: Sequence[Statement]) -> str:
        """Say how many of some statements stand how."""
        said = {
            "true": "with nothing in the way",
            "unknown": "not decided",
            "false": "kept from running",
        }
        counts = {verdict: sum(one.verdict == verdict for one in statements) for verdict in _ORDER}
        return ", ".join(f"{count} {said[verdict]}" for verdict, count in counts.items() if count)


def derive(case: CaseFile, events: Sequence[Event]) -> list[Derivation]:
    """Return the derivation of each setting that a verified claim is about."""
    layers: dict[str, dict[str, Layer]] = {}
    for row in case.of("setting"):
        if isinstance(row.claim, SettingClaim):
            of_name = layers.setdefault(plain_name(row.claim.name), {})
            of_name[row.claim.layer] = Layer(value=row.claim.value, claim=row.number)
    claimed = {_place(row): row for row in case.of("guard")}
    found: dict[str, dict[tuple[str, int], Statement]] = {name: {} for name in layers}
    for place, name, statement in _seen(events):
        if name in found or place in claimed:
            claim = claimed.get(place)
            known = statement.model_copy(update={"claim": claim.number if claim else None})
            found.setdefault(name, {}).setdefault(place, known)
    for place, row in claimed.items():
        if not any(place in of_name for of_name in found.values()):
            name, statement = _from_claim(row)
            found.setdefault(name, {})[place] = statement
    return [
        _derivation(name, layers.get(name, {}), list(of_name.values())) for name, of_name in found.items()
    ]


def _derivation(name: str, layers: dict[str, Layer], statements: list[Statement]) -> Derivation:
    ordered = sorted(statements, key=lambda one: _ORDER[one.verdict])
    left_out = max(0, len(ordered) - _MOST)
    return Derivation(name=name, layers=layers, statements=ordered[:_MOST], left_out=left_out)


def _place(row: ClaimRow) -> tuple[str, int]:
    first = row.check.citations[0]
    return first.path or first.artifact, first.lines[0]


def _seen(events: Sequence[Event]) -> Iterator[tuple[tuple[str, int], str, Statement]]:
    """Yield every write that a search or `settings` judged, with its place and the name that it writes."""
    for event in events:
        if not isinstance(event, ToolFinished) or event.tool not in _TELL or event.status != "ok":
            continue
        view = parse_view(event.view)
        if event.tool == "settings":
            view = as_search(view, Facts(view))
        for result in rows(view, "results"):
            path = str(result.get("path", ""))
            for match in rows(result, "matches"):
                name = _WRITTEN.search(str(match.get("text", "")))
                line = match.get("line")
                if match.get("kind") == "write" and name and isinstance(line, int):
                    yield (path, line), name[1], _statement(match, f"{_short(path)}:{line}", event.call)


def _short(path: str) -> str:
    """Return a path below the folder of installed packages; the whole one stands in the claim's citation."""
    return path.rpartition("/site-packages/")[2]


def _statement(match: Mapping[str, Any], where: str, call: str) -> Statement:
    conditions = [
        Condition(
            text=str(guard.get("condition", "")),
            line=guard["line"] if isinstance(guard.get("line"), int) else None,
            verdict=_verdict(guard.get("verdict")),
            because=str(guard.get("because") or ""),
        )
        for guard in rows(match, "guards")
    ]
    more = match.get("other_conditions")
    return Statement(
        code=str(match.get("text", "")).strip(),
        where=where,
        symbol=str(match.get("symbol") or ""),
        verdict=_verdict(match.get("verdict")),
        restores=match.get("restores") is True,
        conditions=conditions,
        more=more if isinstance(more, int) else 0,
        call=call,
    )


def _from_claim(row: ClaimRow) -> tuple[str, Statement]:
    """Return a statement that only a claim tells of; its condition is quoted as it is written."""
    claim = row.claim
    if not isinstance(claim, GuardClaim):
        raise ValueError("not a guard claim")
    name = _WRITTEN.search(claim.statement.quote)
    condition = Condition(
        text=claim.condition.quote,
        line=row.check.citations[1].lines[0] if len(row.check.citations) > 1 else None,
        verdict=claim.verdict,
        because=", ".join(f"{fact.name} = {fact.value}" for fact in claim.facts),
    )
    statement = Statement(
        code=claim.statement.quote.strip(),
        where=f"{_short(_place(row)[0])}:{_place(row)[1]}",
        symbol="",
        verdict=claim.verdict,
        conditions=[condition],
        claim=row.number,
    )
    return (name[1] if name else "other statements"), statement


def _verdict(value: object) -> Verdict:
    if value == "true":
        return "true"
    return "false" if value == "false" else "unknown"
