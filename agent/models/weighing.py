"""Hold quotes against predictions, as the ledger will: what matches, what it means."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import re2

from agent.models.views import Quote
from prompts.playbooks import Prediction

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def compare(left: float, op: str, right: float) -> bool:
    """Compare two numbers by the name of the comparison."""
    return _OPERATORS[op](left, right)


@dataclass(frozen=True, slots=True)
class Weighed:
    """Hold the predictions that matched, for and against, each with its quote."""

    supporting: list[tuple[Prediction, Quote]] = field(default_factory=list)
    against: list[tuple[Prediction, Quote]] = field(default_factory=list)

    def holds(self, needs_any: Sequence[str], needs_all: Sequence[str] = ()) -> bool:
        """Tell whether this host supports it, with one, or all, of the predictions named."""
        matched = {prediction.id for prediction, _ in self.supporting}
        enough = (not needs_any or bool(matched & set(needs_any))) and matched >= set(needs_all)
        return self.of_host and not self.against and enough

    @property
    def of_host(self) -> bool:
        """Tell whether anything but source supports it: source is the same wherever the version runs."""
        return any(prediction.kind != "source" for prediction, _ in self.supporting)

    def evidence(self, needs_any: Sequence[str], needs_all: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return the evidence to cite: what speaks against it alone, else all, once it supports it."""
        return [
            {"prediction": prediction.id, "kind": prediction.kind} | quote.cite()
            for prediction, quote in self.against
            or (self.supporting if self.holds(needs_any, needs_all) else [])
        ]

    def quote(self) -> Quote | None:
        """Return the quote that decides it."""
        decisive = self.against or self.supporting
        return decisive[0][1] if decisive else None


def weigh(predictions: Sequence[Prediction], found: Mapping[str, Quote]) -> Weighed:
    """Sort the predictions whose check matches the quote that was found for them."""
    matched = [
        (prediction, found[prediction.id])
        for prediction in predictions
        if prediction.id in found and check_matches(prediction.check, found[prediction.id].text)
    ]
    return Weighed(
        [pair for pair in matched if pair[0].favours == "for"],
        [pair for pair in matched if pair[0].favours == "against"],
    )


def check_matches(check: Mapping[str, Any], text: str) -> bool:
    """Evaluate a typed check of a playbook on a quote."""
    found = re2.search(str(check["pattern"]), text)
    if check.get("kind") == "value":
        return found is not None and compare(float(found.group(1)), str(check["op"]), float(check["value"]))
    if check.get("kind") == "ratio":
        numbers = [float(number) for number in found.groups()] if found else []
        ratio = numbers[0] / numbers[1] if len(numbers) > 1 and numbers[1] else None
        return ratio is not None and compare(ratio, str(check["op"]), float(check["value"]))
    return (found is not None) == bool(check.get("present", True))
