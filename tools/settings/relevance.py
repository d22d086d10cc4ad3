"""Tell whether a process reaches the place where a setting is used, and since which of its flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.settings.callers import Callers
from tools.settings.judging import Judging
from tools.settings.needs import Need, needs_at
from tools.settings.reach import profile_of
from tools.settings.readers import Reader
from tools.settings.types import Cite, Definition, Evaluation, SourceTree, Truth


@dataclass(frozen=True, slots=True)
class Relevant:
    """Hold whether a place is reached, and the flags without which it would not be."""

    reached: Truth
    only_since: tuple[tuple[str, Cite], ...] = ()


class Relevance:
    """Judge for one process which uses of settings it comes to."""

    def __init__(
        self,
        tree: SourceTree,
        judging: Judging,
        definitions: Mapping[str, Definition],
        evaluation: Evaluation,
    ) -> None:
        self._tree = tree
        self._definitions = definitions
        self._judging = judging
        self._evaluation = evaluation
        self._callers = Callers(tree, profile_of(tree))

    def prepare(self, readers: Iterable[Reader]) -> None:
        """Search for the calls of many places at once."""
        self._callers.prepare(reader.unit for reader in readers)

    def of(self, reader: Reader) -> Relevant:
        """Judge one place by the conditions before it and by the ways to its function."""
        own = needs_at(self._tree, reader.cite.path, reader.module, list(reader.way))
        if any(self._judging.condition(need).verdict == "false" for need in own):
            return Relevant("false")
        paths, _ = self._callers.paths(reader.unit)
        ways = [[n for call in path.calls for n in call.conditions] for path in paths]
        verdicts = [[self._judging.condition(need).verdict for need in way] for way in ways]
        open_ways = [way for way, found in zip(ways, verdicts, strict=True) if "false" not in found]
        if self._judging.never_called(self._callers, reader.unit):
            return Relevant("false")
        since = [reason for need in self._shared(open_ways, own) if (reason := self._flagged(need))]
        return Relevant("unknown", tuple(since))

    def _shared(self, ways: list[list[Need]], own: tuple[Need, ...]) -> list[Need]:
        """Return the conditions that stand on every open way."""
        first = ways[0] if ways else []
        return [*own, *(need for need in first if all(need in way for way in ways))]

    def _flagged(self, need: Need) -> tuple[str, Cite] | None:
        """Return why a true condition says that a flag of the launch line brought the process here."""
        if self._judging.condition(need).verdict != "true":
            return None
        for name in self._judging.settings_in(need):
            definition, effective = self._definitions.get(name), self._evaluation.settings[name]
            if definition is None or not definition.default_known or effective.value == definition.default:
                continue
            written = any(step.origin == "overwrite" for step in effective.steps)
            if not written and self._judging.truth(need, name, definition.default) == "false":
                return f"it matters since {name} is {effective.value!r} ({need.text})", need.cite
        return None
