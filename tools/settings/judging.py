"""Say of the conditions of an assignment how they come out for one process, and whether it happens."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, Final

from tools.definitions import HIDDEN, is_secret
from tools.evaluate import evaluate
from tools.guards import negated
from tools.settings.callers import MOST_DEPTH, Call, Callers, CallPath
from tools.settings.copies import kept_as
from tools.settings.needs import Need, Unit
from tools.settings.outcomes import Outcome, summed
from tools.settings.overwrites import Overwrite
from tools.settings.reach import profile_of, reached
from tools.settings.readers import Reader
from tools.settings.resolving import resolving
from tools.settings.slots import slots_of
from tools.settings.types import Cite, Condition, Effective, Evaluation, SourceTree, Truth
from tools.statements import UNKNOWN

Facts = tuple[tuple[str, Any], ...]
Fallback = Callable[[Need], tuple[Truth, str, Facts] | None]
"""Judge a condition by other means; None when these do not apply."""
_STARTED: Final = ("launch_server.py", "__main__.py", "main.py", "api_server.py", "http_server.py")
_FLIPPED: Final[dict[Truth, Truth]] = {"true": "false", "false": "true", "unknown": "unknown"}


class Judging:
    """Judge the conditions of one package by one evaluation of a launch line."""

    def __init__(self, tree: SourceTree, evaluation: Evaluation, fallback: Fallback | None = None) -> None:
        self._profile = profile_of(tree)
        self._slots = slots_of(tree, self._profile, evaluation.settings)
        self._evaluation = evaluation
        self._fallback = fallback
        self._copies: dict[str, Truth] = {}
        self._lines: dict[str, list[int]] = {}
        for path, line in evaluation.reached:
            self._lines.setdefault(path, []).append(line)
        whole = evaluation.stage == "done" and not evaluation.partial
        self._whole = whole and evaluation.accepted is not False

    def judged(self, overwrite: Overwrite) -> tuple[Condition, ...]:
        """Return the conditions of an assignment, those of the calls that lead to it first."""
        return self.outcome(overwrite).conditions

    def outcomes(self, written: Sequence[Overwrite]) -> list[Outcome]:
        """Sum up several assignments; the calls that lead to them are searched for at once."""
        for callers in {overwrite.callers for overwrite in written}:
            callers.prepare(o.unit for o in written if o.callers is callers and o.serving)
        return [self.outcome(overwrite) for overwrite in written]

    def outcome(self, overwrite: Overwrite) -> Outcome:
        """Sum up whether an assignment happens, by its own conditions and by every way to its function."""
        if not overwrite.serving:
            because = "it stands in a program that no server runs"
            return Outcome("cannot fire", because, overwrite.cite)
        own = [self.condition(need) for need in overwrite.conditions]
        own += self._not_reached(overwrite.body, overwrite.line, overwrite.cite, own)
        ways = [self._way(path) for path in overwrite.paths]
        return summed(own, ways, self.never_called(overwrite.callers, overwrite.unit))

    def never_called(self, callers: Callers, unit: Unit, seen: tuple[Unit, ...] = ()) -> bool:
        """Tell whether every call of a function is one that this process surely does not come to."""
        if callers.is_root(unit) or unit in seen or len(seen) == MOST_DEPTH:
            return False
        calls, every = callers.direct(unit)
        return bool(calls) and every and all(self._never(callers, call, (*seen, unit)) for call in calls)

    def _never(self, callers: Callers, call: Call, seen: tuple[Unit, ...]) -> bool:
        own = [self.condition(need) for need in call.conditions]
        own += self._not_reached(call.body, call.line, call.cite, own)
        false = any(condition.verdict == "false" for condition in own)
        return false or self.never_called(callers, call.unit, seen)

    def condition(self, need: Need) -> Condition:
        """Judge one condition: as the interpreter met it, else by the settings in force, else unknown."""
        found = self._truth(need.node, need)
        if found.verdict == "unknown" and self._fallback is not None:
            other = self._fallback(need)
            if other is not None and other[0] != "unknown":
                return Condition(need.text, other[0], other[1], need.cite, (), other[2])
        return _told(need, found)

    def truth(self, need: Need, name: str, value: object) -> Truth:
        """Judge a condition as if a setting had another value."""
        return self._supposing({name: value}).condition(need).verdict

    def supposed(self, reader: Reader, test: ast.expr, value: object) -> Truth:
        """Judge the test that a setting is read in as if the setting had a value; the rest is as in force."""
        supposing = self._supposing({reader.name: value})
        need = Need("", reader.cite.path, 0, 0, reader.cite, test, reader.way, reader.module)
        if reader.through is not None and reader.source is not None:
            source = Need("", reader.cite.path, 0, 0, reader.cite, reader.source, reader.way, reader.module)
            supposing._copies = {reader.through: supposing._truth(reader.source, source).verdict}
        return supposing._truth(test, need).verdict

    def settings_in(self, need: Need) -> list[str]:
        """Return the settings that a condition reads."""
        parts = (node for node in ast.walk(need.node) if isinstance(node, ast.expr))
        return list(dict.fromkeys(name for part in parts if (name := self.setting(part, need))))

    def _supposing(self, values: Mapping[str, object]) -> Judging:
        settings = {**self._evaluation.settings}
        settings |= {name: Effective(name, True, value) for name, value in values.items()}
        other = copy(self)
        other._evaluation = Evaluation(settings, self._evaluation.accepted)
        return other

    def _way(self, path: CallPath) -> tuple[list[Condition], bool]:
        conditions: list[Condition] = []
        for call in path.calls:
            own = [self.condition(need) for need in call.conditions]
            conditions += own + self._not_reached(call.body, call.line, call.cite, own)
        return conditions, path.settled

    def _not_reached(
        self, body: tuple[int, int], line: int, cite: Cite, own: list[Condition]
    ) -> list[Condition]:
        """Return a false condition for a statement that the interpreter surely passed by."""
        lines = self._lines.get(cite.path, []) if self._whole and body[0] else []
        entered = any(body[0] < at <= body[1] for at in lines)
        if not entered or line in lines or any(c.verdict == "false" for c in own):
            return []
        return [Condition("the statement is reached", "false", "the function ends or branches before", cite)]

    def _truth(self, node: ast.expr, need: Need) -> Condition:
        kept = self._copies.get(ast.unparse(node)) if self._copies else None
        if kept is not None:
            return Condition(need.text, kept, "by what it is a copy of", need.cite)
        met = self._met(node, need)
        if met is not None and met.verdict != "unknown":
            return met
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._truth(node.operand, need)
            return _told(need, inner, flipped=True)
        if isinstance(node, ast.BoolOp):
            return self._joined(node, need)
        return self._by_settings(node, need) or met or _unknown(node, need)

    def _joined(self, node: ast.BoolOp, need: Need) -> Condition:
        parts = [self._truth(value, need) for value in node.values]
        decisive: Truth = "false" if isinstance(node.op, ast.And) else "true"
        deciding = next((part for part in parts if part.verdict == decisive), None)
        if deciding is not None:
            return deciding
        open_ones = [part for part in parts if part.verdict == "unknown"]
        verdict: Truth = "unknown" if open_ones else parts[0].verdict
        because = "; ".join(dict.fromkeys(part.because for part in open_ones or parts))
        needs = tuple(dict.fromkeys(n for part in open_ones for n in part.needs))
        facts = tuple(fact for part in parts for fact in part.facts)
        return Condition(need.text, verdict, because[:400], need.cite, needs, facts)

    def _met(self, node: ast.expr, need: Need) -> Condition | None:
        """Return how the interpreter met an expression: the same text at the same place, or its opposite."""
        place = _place(node)
        found = self._evaluation.verdicts.get((need.path, *place)) if place is not None else None
        if found is None:
            return None
        if _same(found.text, node):
            return _told(need, found)
        opposite = negated(node)
        if opposite is not node and _same(found.text, opposite):
            return _told(need, found, flipped=True)
        return None

    def _by_settings(self, node: ast.expr, need: Need) -> Condition | None:
        """Evaluate an expression of settings whose value was surely the same at that point."""
        used: dict[str, object] = {}

        def resolve(part: ast.expr) -> str | None:
            name = self.setting(part, need)
            if name is None:
                return None
            effective = self._evaluation.settings[name]
            if effective.known and (not resolving(need.path) or self._constant(name)):
                used[name] = effective.value
                return name
            return None

        main = _main(node)
        if main is not None:
            verdict: Truth = "false" if _is_library(need.path) else "unknown"
            return Condition(need.text, verdict, "this file is not the program that was started", need.cite)
        value = evaluate(node, resolve, used)
        if value is UNKNOWN:
            return None
        shown = ", ".join(f"{name} is {_shown(name, used[name])}" for name in used)
        because = shown or "it is constant"
        verdict = "true" if value else "false"
        return Condition(need.text, verdict, because, need.cite, (), tuple(used.items()))

    def setting(self, node: ast.expr, need: Need) -> str | None:
        """Return the setting that an expression reads, when the evaluation knows one of this name."""
        if not isinstance(node, ast.Attribute):
            return None
        found = reached(self._profile, node.value, list(need.way), need.module)
        if found is not None and found.way != "copy":
            return self._slots.get(node.attr, {}).get(found.cls)
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            kept = kept_as(self._profile, need.module.data).get(node.attr)
            return kept if kept in self._evaluation.settings else None
        return None

    def _constant(self, name: str) -> bool:
        """Tell whether a setting had one value from the launch line to the end."""
        effective = self._evaluation.settings[name]
        given = [step for step in effective.steps if step.origin != "overwrite"][-1:]
        written = [step for step in effective.steps if step.origin == "overwrite"]
        return all(step.known and step.value == effective.value for step in given + written)


def judged(overwrite: Overwrite, evaluation: Evaluation) -> tuple[Condition, ...]:
    """Return the conditions of an assignment as they come out for a process, outermost first."""
    return Judging(overwrite.tree, evaluation).judged(overwrite)


def _told(need: Need, found: Condition, *, flipped: bool = False) -> Condition:
    """Return what was found of an expression as what becomes of a condition that is it, or its opposite."""
    verdict = _FLIPPED[found.verdict] if flipped else found.verdict
    return Condition(need.text, verdict, found.because, need.cite, found.needs, found.facts)


def _unknown(node: ast.expr, need: Need) -> Condition:
    text = ast.unparse(node)[:160]
    return Condition(need.text, "unknown", f"{text.strip('<>')} cannot be told", need.cite, (text,))


def _place(node: ast.expr) -> tuple[int, int] | None:
    """Return where an expression starts, also of one that `negated` made of parts of another."""
    while not hasattr(node, "lineno"):
        if isinstance(node, ast.Compare):
            node = node.left
        elif isinstance(node, ast.UnaryOp):
            node = node.operand
        elif isinstance(node, ast.BoolOp):
            node = node.values[0]
        else:
            return None
    return node.lineno, node.col_offset


def _same(text: str, node: ast.expr) -> bool:
    """Tell whether a text is the source of an expression, however it is laid out."""
    return _normal(text) == ast.unparse(node)


@lru_cache(maxsize=4096)
def _normal(text: str) -> str:
    try:
        return ast.unparse(ast.parse(f"({text})", mode="eval"))
    except (SyntaxError, ValueError, RecursionError):
        return text


def _main(node: ast.expr) -> ast.expr | None:
    """Return a test of ``__name__`` for being the program that was started."""
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "__name__":
        return node
    return None


def _is_library(path: str) -> bool:
    return path.rpartition("/")[2] not in _STARTED


def _shown(name: str, value: object) -> str:
    return HIDDEN if is_secret(name) else repr(value)[:80]
