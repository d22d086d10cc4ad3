"""Follow loops round by round, as far as it is known how often they run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, Final

from tools.interpreter.branches import Branches
from tools.interpreter.forks import NORMAL, End
from tools.interpreter.journal import WHOLE
from tools.interpreter.searches import Searches
from tools.interpreter.values import (
    MISSING,
    External,
    GuestClass,
    Maybe,
    Undecided,
    Unknown,
    needs_of,
)

_UNKNOWN_ROUNDS: Final = 2
_PARKED_BREAKS: Final = 3
"""Rounds that perhaps left a loop before nobody knows how often it runs."""


class Loops(Searches, Branches):
    """Follow ``for`` and ``while``; where no one knows how often they run, what they write is unknown."""

    def _For(self, node: ast.For) -> End:
        values = self.iterate(self.evaluate(node.iter))
        if isinstance(values, Unknown):
            return self._unknown_rounds(node, values)
        items = self.deciding(node, values)
        return self._loop(lambda: self._for_rounds(node, items))

    def _loop(self, rounds: Callable[[], End]) -> End:
        """Follow a loop; ways that perhaps left it go on behind it, however it ends."""
        base, frame = len(self.pendings), self.frame
        end = self.follow(rounds)
        if end.kind == "break":
            end = NORMAL
        end = self.settle(base, end, "break", frame, "normal")
        if end.kind == "raise":
            raise end.value
        return end

    def _for_rounds(self, node: ast.For, values: Iterator[Any]) -> End:
        try:
            for item in values:
                self.step()
                end = self._item_round(node, item)
                if end.kind != "normal":
                    return end
        except Undecided as undecided:
            return self._unknown_rounds(node, Unknown(undecided.needs))
        return self.block(node.orelse)

    def _item_round(self, node: ast.For, item: Any) -> End:
        """Follow a loop's body for one item, which a container may not hold."""

        def way() -> End:
            self.assign(node.target, item.value if type(item) is Maybe else item)
            return self._round(node.body)

        return self.two_ways(item.needs, way, lambda: NORMAL) if type(item) is Maybe else way()

    def _round(self, body: list[ast.stmt]) -> End:
        base, before = len(self.pendings), self.conditions
        end = self.follow(lambda: self.block(body))
        self.conditions = before
        if end.kind == "continue":
            end = NORMAL
        end = self.settle(base, end, "continue", self.frame, "normal")
        if end.kind == "raise":
            raise end.value
        return end

    def _While(self, node: ast.While) -> End:
        return self._loop(lambda: self._while_rounds(node, len(self.pendings)))

    def _while_rounds(self, node: ast.While, base: int) -> End:
        frame = self.frame
        while True:
            self.step()
            found, _ = self.meet_condition(node.test)
            left = [p for p in self.pendings[base:] if p.kind == "break" and p.frame is frame]
            if len(left) > _PARKED_BREAKS:
                found = Unknown(left[-1].needs)
            if isinstance(found, Unknown):
                return self._unknown_rounds(node, found)
            if not found:
                return self.block(node.orelse)
            end = self._round(node.body)
            if end.kind != "normal":
                return end

    def _unknown_rounds(self, node: ast.For | ast.While, doubt: Unknown) -> End:
        """Follow a loop that runs no one knows how often: what it writes is unknown afterwards."""
        frame, outer = self.frame, len(self.pendings)

        def some() -> End:
            mark = self.journal.mark()
            for _ in range(_UNKNOWN_ROUNDS):
                if isinstance(node, ast.For):
                    self.assign(node.target, Unknown(doubt.needs))
                end = self._round(node.body)
                self._blur(mark, doubt.needs)
                if end.kind == "break":
                    break
                if end.kind != "normal":
                    self.journal.release(mark)
                    return End(end.kind, joined_unknown(end.value, doubt.needs))
            self.journal.release(mark)
            return NORMAL

        end = self.two_ways(doubt.needs, some, lambda: NORMAL)
        return self.settle(outer, end, "break", frame, "normal") if end.kind == "normal" else end

    def _blur(self, mark: int, needs: tuple[str, ...]) -> None:
        for change in self.journal.changes(mark).values():
            if self.journal.is_own(change.where):
                continue
            if change.key is WHOLE:
                self.journal.taint(change.where, needs)
            elif change.value is not MISSING and not isinstance(change.value, (External, GuestClass)):
                self.journal.set(change.where, change.key, blurred(change.value, needs))


def blurred(value: Any, needs: tuple[str, ...]) -> Unknown:
    """Return an unknown in a value's place."""
    return Unknown((*needs, *needs_of(value)))


def joined_unknown(value: Any, needs: tuple[str, ...]) -> Any:
    """Return a value that a loop may have computed in another round."""
    return None if value is None else Unknown((*needs, *needs_of(value)))
