"""Follow what chooses between ways: conditions, noted as they come out, and patterns."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

from tools.interpreter.base import Met
from tools.interpreter.forks import NORMAL, End, Forks
from tools.interpreter.values import Undecided, Unknown, unknown_of

_ENDING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Branches(Forks):
    """Follow the statements that choose: ``if``, ``match``, ``assert``."""

    def meet_condition(self, test: ast.expr) -> tuple[Any, Met]:
        """Judge a condition and note how it came out, with the values that it read."""
        outer, self.leaves = self.leaves, []
        try:
            found = self.truth(test)
        except Undecided as undecided:
            self.doubts += 1
            found = Unknown(undecided.needs)
        finally:
            leaves, self.leaves = self.leaves, outer
        verdict = None if isinstance(found, Unknown) else bool(found)
        needs = found.needs if isinstance(found, Unknown) else ()
        depth = self.conditions.depth + 1 if self.conditions is not None else 1
        met = Met(test, self.frame.module, verdict, tuple(leaves[:10]), needs, self.conditions, depth=depth)
        if self.watch is not None:
            self.watch.met(met)
        return found, met

    def _If(self, node: ast.If) -> End:
        found, met = self.meet_condition(node.test)
        if isinstance(found, Unknown):
            return self.two_ways(
                found.needs,
                lambda: self._branch(node.body, met, False),
                lambda: self._branch(node.orelse, met, True),
            )
        taken, left = (node.body, node.orelse) if found else (node.orelse, node.body)
        end = self._branch(taken, met, not found)
        if left and isinstance(left[-1], _ENDING) and end.kind == "normal":
            self.conditions = _negated(met) if not found else met
        return end

    def _branch(self, body: list[ast.stmt], met: Met, negated: bool) -> End:
        before = self.conditions
        self.conditions = _negated(met) if negated else met
        try:
            return self.block(body)
        finally:
            self.conditions = before

    def _Assert(self, node: ast.Assert) -> None:
        found, _ = self.meet_condition(node.test)
        if found is False:
            message = self.evaluate(node.msg) if node.msg is not None else ""
            self.raise_native(AssertionError(message if isinstance(message, str) else ""))

    def _Match(self, node: ast.Match) -> End:
        subject = self.evaluate(node.subject)
        return self._cases(subject, node.cases)

    def _cases(self, subject: Any, cases: Sequence[ast.match_case]) -> End:
        if not cases:
            return NORMAL
        case = cases[0]
        found = self._matches(case.pattern, subject)
        if found is True and case.guard is not None:
            found = self.truth(case.guard)
        if isinstance(found, Unknown):
            return self.two_ways(
                found.needs, lambda: self.block(case.body), lambda: self._cases(subject, cases[1:])
            )
        return self.block(case.body) if found else self._cases(subject, cases[1:])

    def _matches(self, pattern: ast.pattern, subject: Any) -> Any:
        if isinstance(pattern, ast.MatchValue):
            return self.equal_to(subject, self.evaluate(pattern.value))
        if isinstance(pattern, ast.MatchSingleton):
            return unknown_of(subject) if isinstance(subject, Unknown) else subject is pattern.value
        if isinstance(pattern, ast.MatchOr):
            each = [self._matches(p, subject) for p in pattern.patterns]
            if any(f is True for f in each):
                return True
            return next((f for f in each if isinstance(f, Unknown)), False)
        if isinstance(pattern, ast.MatchAs):
            found = True if pattern.pattern is None else self._matches(pattern.pattern, subject)
            if pattern.name is not None and found is not False:
                self.bind_name(pattern.name, subject)
            return found
        if isinstance(pattern, ast.MatchClass) and not pattern.patterns and not pattern.kwd_patterns:
            return self.is_instance(subject, self.evaluate(pattern.cls))
        return unknown_of(need="a match pattern that is not followed")

    def equal_to(self, left: Any, right: Any) -> Any:
        """Return whether two values are equal."""
        raise NotImplementedError


def _negated(met: Met) -> Met:
    return Met(
        met.node, met.module, met.verdict, met.leaves, met.needs, met.before, negated=True, depth=met.depth
    )
