"""Draft a case from one finished investigation: what it said is no truth yet, and the draft says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent.errors import UsageError
from agent.events import Started
from agent.state import Change, Conclusion, Hypothesis
from evals.case import Case
from evals.case_evidence import EvidenceMaker, plain
from evals.case_patterns import cause_patterns, phrase
from evals.findings import Findings
from evals.proofs import Proofs
from tools.artifacts import ArtifactStore

_MOST: Final = 12
"""Pieces of evidence that a draft asks for at most; a person may add more."""


@dataclass(slots=True)
class Skeleton:
    """Hold the fields of a case as they go into its file, and what a person should know of them."""

    fields: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def draft(found: Findings, store: ArtifactStore, *, name: str, scenario: str, cache: Path) -> Skeleton:
    """Return the draft; raise `UsageError` where the investigation holds too little for a case."""
    conclusion = found.conclusion
    if conclusion is None or found.started is None:
        raise UsageError(
            f"{name}: the investigation ended without a conclusion",
            do="go on with it until it concludes, or write the case by hand",
        )
    started = found.started
    made = Skeleton(_head(started, conclusion, name, scenario))
    ruled_out = [item for item in found.named() if item.id not in conclusion.causes]
    causes = _causes(found, conclusion, ruled_out)
    made.fields |= {
        "causes": [cause for cause, _ in causes],
        "fixes": list(_fixes(found, conclusion, made.remarks)),
    }
    evidence = _evidence(found, EvidenceMaker(found, store, cache), causes, ruled_out)
    made.fields["evidence"] = evidence
    made.fields["outcomes"] = [conclusion.outcome]
    made.fields["distractors"] = list(_distractors(ruled_out, causes))
    _keep_what_holds(made, found, store, cache)
    made.fields = {key: value for key, value in made.fields.items() if value not in ([], "")}
    return made


def _head(started: Started, conclusion: Conclusion, name: str, scenario: str) -> dict[str, Any]:
    first = (conclusion.summary.splitlines() or [""])[0]
    return {
        "description": " ".join(first.split())[:300] or f"{conclusion.outcome}: {started.symptom[:200]}",
        "source": f"our own: an investigation of {started.at:%Y-%m-%d} by {started.recorded} "
        f"(product {started.product})",
        "difficulty": 2,
        "scenario": scenario,
        "symptom": started.symptom,
        "mode": "propose" if started.mode == "read-only" else started.mode,
    }


Named = tuple[dict[str, Any], Hypothesis]


def _causes(found: Findings, conclusion: Conclusion, ruled_out: Sequence[Hypothesis]) -> list[Named]:
    made: list[Named] = []
    taken: set[str] = set()
    ids = [one for one in dict.fromkeys(conclusion.causes) if one in found.hypotheses]
    for ident in ids:
        hypothesis = found.hypotheses[ident]
        others = [found.hypotheses[other].statement for other in ids if other != ident]
        avoid = [*others, *(item.statement for item in ruled_out)]
        settings = list(dict.fromkeys(change.setting for change in found.based_on(ident)))
        cause: dict[str, Any] = {
            "id": _fresh(plain(settings[0] if settings else hypothesis.id), taken),
            "says": " ".join(hypothesis.statement.split()),
            "any": cause_patterns(settings, hypothesis.statement, avoid),
        }
        made.append((cause | ({"settings": settings} if settings else {}), hypothesis))
    return made


def _fixes(found: Findings, conclusion: Conclusion, remarks: list[str]) -> Iterator[dict[str, Any]]:
    """Yield changes that were kept or, where none was tried, proposed; others become a remark."""
    taken: set[str] = set()
    for item in found.proposals.values():
        change = item.change
        told = f"{change.setting} {'left out' if change.to_value is None else change.to_value}"
        if change.status == "rolled_back":
            remarks.append(f"tried and rolled back, so no fix here: {told}")
        elif change.status == "verified" or (change.status == "proposed" and _stands(change, conclusion)):
            ident = _fresh(plain(change.setting), taken)
            yield {"id": ident, "setting": change.setting, "to": _values(change)}
        else:
            remarks.append(f"proposed and not kept ({change.status}), so no fix here: {told}")


def _stands(change: Change, conclusion: Conclusion) -> bool:
    return not conclusion.changes or change.id in conclusion.changes


def _values(change: Change) -> list[str | int | float | bool | None]:
    """Return the accepted values: a number as one; a bare flag left out is also one set to false."""
    value = change.to_value
    if value is None:
        return [None, False] if change.setting.startswith("-") and change.from_value == "true" else [None]
    if value in ("true", "false"):
        return [value == "true"]
    try:
        return [int(value)]
    except ValueError:
        return [value]


def _evidence(
    found: Findings, maker: EvidenceMaker, causes: Sequence[Named], ruled_out: Sequence[Hypothesis]
) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for cause, hypothesis in causes:
        made += maker.of_hypothesis(hypothesis, cause["id"], cause.get("settings", ()))
    if not made:
        for hypothesis in ruled_out:
            made += maker.of_hypothesis(hypothesis, plain(hypothesis.id), ())
    if not made:
        made += maker.of_claims()
    return list(_different(made))


def _different(proofs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield proofs that ask for different things, the first of each, with ids that stand once."""
    seen: set[str] = set()
    taken: set[str] = set()
    for proof in proofs:
        key = repr({name: value for name, value in proof.items() if name not in ("id", "group")})
        if key not in seen:
            seen.add(key)
            yield proof | {"id": _fresh(proof["id"], taken)}


def _distractors(ruled_out: Sequence[Hypothesis], causes: Sequence[Named]) -> Iterator[dict[str, Any]]:
    """Yield what was ruled out, by words that stand in the statement of no cause."""
    taken: set[str] = set()
    avoid = [hypothesis.statement for _, hypothesis in causes]
    for hypothesis in ruled_out:
        pattern = phrase(hypothesis.statement, avoid)
        yield {"id": _fresh(plain(hypothesis.id), taken), "any": [pattern], "refuted": True}


def _keep_what_holds(made: Skeleton, found: Findings, store: ArtifactStore, cache: Path) -> None:
    """Leave out evidence that the scorers do not find in this very run, and say so."""
    if not made.fields["evidence"]:
        raise _nothing_cited(made)
    case = Case.model_validate({**made.fields, "name": "draft", "scenario": "draft"})
    missed = set(Proofs(case, found, store, cache).proven().missed)
    kept = [one for one in made.fields["evidence"] if one.get("group", one["id"]) not in missed]
    if not kept:
        raise _nothing_cited(made)
    if len(kept) > _MOST:
        made.remarks.append(f"{len(kept) - _MOST} more pieces of evidence were cited and are not asked for")
    made.remarks += [f"cited, but not found again by the scorers: {name}" for name in sorted(missed)]
    made.fields["evidence"] = kept[:_MOST]


def _nothing_cited(made: Skeleton) -> UsageError:
    return UsageError(
        f"the investigation of {made.fields['symptom'][:80]!r} cites nothing that can be found again",
        do="a case needs evidence: write it by hand, see docs/evals.md",
    )


def _fresh(name: str, taken: set[str]) -> str:
    """Return a name that was not given yet, and note it."""
    count, new = 1, name
    while new in taken:
        count += 1
        new = f"{name}-{count}"
    taken.add(new)
    return new
