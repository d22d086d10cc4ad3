"""Say causes and distractors of cases in other words, and see what the patterns of a case make of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from evals.case import Case, Cause, load

DATA = Path(__file__).parent / "data"


def phrases(name: str) -> dict[str, Any]:
    """Return what a file of ``tests/data`` holds: by case, texts for causes, denials and distractors."""
    found: dict[str, Any] = yaml.safe_load((DATA / name).read_text(encoding="utf-8"))["cases"]
    return found


def matches(patterns: Iterable[str], text: str) -> bool:
    """Tell whether one of the patterns stands in a text, as scorers look for it."""
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def says(cause: Cause, text: str) -> bool:
    """Tell whether a statement names a cause by its words alone."""
    return matches(cause.any, text) and not matches(cause.none, text)


def causes_in(case: Case, text: str) -> set[str]:
    """Return the causes that a statement names."""
    return {cause.id for cause in case.causes if says(cause, text)}


def unrecognised(name: str, told: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the causes of a case: one not named by its own words, or taken for another."""
    case = load(name)
    if set(told["causes"]) != {cause.id for cause in case.causes}:
        yield f"texts for {sorted(told['causes'])}"
    for known, texts in told["causes"].items():
        for text in texts:
            if known not in causes_in(case, text):
                yield f"{known} is not recognised in {text!r}"
            if wrong := [one.id for one in case.distractors if matches(one.any, text)]:
                yield f"{text!r} is taken for {wrong}"


def mistaken(name: str, told: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with denials and distractors: one taken for a cause, or not recognised."""
    case = load(name)
    distractors = {one.id: one for one in case.distractors}
    if set(told["distractors"]) != set(distractors):
        yield f"texts for {sorted(told['distractors'])}"
    popular = [(known, text) for known, texts in told["distractors"].items() for text in texts]
    for known, text in popular:
        if not matches(distractors[known].any, text):
            yield f"{known} is not recognised in {text!r}"
    for text in [*(text for texts in told["denials"] for text in texts), *(text for _, text in popular)]:
        if named := causes_in(case, text):
            yield f"{text!r} is taken for {sorted(named)}"
