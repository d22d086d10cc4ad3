"""Follow both ways of an unknown condition, and join what they leave."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tools.interpreter.base import Base, Pending
from tools.interpreter.journal import Changes, joined
from tools.interpreter.module import Frame
from tools.interpreter.values import GuestRaise

Kind = Literal["normal", "return", "raise", "break", "continue"]


@dataclass(frozen=True, eq=False, slots=True)
class End:
    """Say how a block ended, and with what value."""

    kind: Kind
    value: Any = None


NORMAL = End("normal")


class Forks(Base):
    """Keep ways that ended early until the place where they meet the others again."""

    def block(self, body: Sequence[ast.stmt]) -> End:
        """Follow statements in order until one of them ends the block."""
        raise NotImplementedError

    def bind_name(self, name: str, value: Any) -> None:
        """Bind a name where the frame says that it lives."""
        raise NotImplementedError

    def two_values(self, needs: tuple[str, ...], first: Callable[[], Any], second: Callable[[], Any]) -> Any:
        """Evaluate two expressions of which either may be the one, and return what stands for both."""
        end = self.two_ways(needs, lambda: End("normal", first()), lambda: End("normal", second()))
        if end.kind == "raise":
            raise end.value
        return end.value

    def two_ways(self, needs: tuple[str, ...], first: Callable[[], End], second: Callable[[], End]) -> End:
        """Follow two ways from the same state; leave the state that stands for both."""
        mark, base, conditions = self.journal.mark(), len(self.pendings), self.conditions
        one = self.follow(first)
        self.conditions = conditions
        changes = self._set_aside(mark, base)
        other = self.follow(second)
        self.conditions = conditions
        return self.meet(mark, base, one, changes, other, needs)

    def follow(self, way: Callable[[], End]) -> End:
        """Follow one way; an exception of the source is an end like others."""
        frame, frames, leaves = self.frame, len(self.frames), self.leaves
        try:
            return way()
        except GuestRaise as raised:
            self.frame, self.leaves = frame, leaves
            del self.frames[frames:]
            return End("raise", raised)

    def meet(
        self, mark: int, base: int, one: End, changes: Changes, other: End, needs: tuple[str, ...]
    ) -> End:
        """Join a way that was set aside with the one whose state is live; give the mark back or keep it."""
        if one.kind == other.kind and (one.kind != "raise" or not self.catching):
            if one.kind == "raise":
                self.journal.release(mark)
                return other
            self.journal.join(mark, changes, needs)
            self.journal.release(mark)
            return End(one.kind, joined(one.value, other.value, needs, self.journal.links))
        if one.kind == "normal" or (other.kind == "raise" and not self.catching):
            live = self._set_aside(mark, base)
            self.journal.apply(changes)
            one, changes, other = other, live, one
        self._park(one, mark, changes, needs)
        return other

    def _park(self, end: End, mark: int, changes: Changes, needs: tuple[str, ...]) -> None:
        if end.kind == "raise" and not self.catching:
            self.refuse(end.value, needs)
            self.journal.release(mark)
        else:
            self.pendings.append(Pending(end.kind, end.value, mark, changes, self.frame, needs))

    def refuse(self, raised: GuestRaise, needs: tuple[str, ...]) -> None:
        """Note that the source may refuse here; a process that runs did not take this way."""
        raise NotImplementedError

    def _set_aside(self, mark: int, base: int) -> Changes:
        """Take back what was written since a mark and return it; ways parked since then start at the mark."""
        for pending in self.pendings[base:]:
            if pending.mark > mark:
                pending.changes = {**self.journal.between(mark, pending.mark), **pending.changes}
                self.journal.move(pending.mark, mark)
                pending.mark = mark
        changes = self.journal.changes(mark)
        self.journal.rewind(mark)
        return changes

    def next_parked(self, base: int, wanted: Callable[[Pending], bool]) -> Pending | None:
        """Take the latest parked way that is wanted; the others stay, so that their marks are kept right."""
        for position in range(len(self.pendings) - 1, base - 1, -1):
            if wanted(self.pendings[position]):
                return self.pendings.pop(position)
        return None

    def settle(self, base: int, end: End, kind: Kind, frame: Frame, into: Kind) -> End:
        """Join the parked ways of a kind into the live one, which becomes ``into``.

        A live way that ended otherwise is parked in their place (an error that nobody catches is dropped).
        """
        while (pending := self.next_parked(base, lambda p: p.kind == kind and p.frame is frame)) is not None:
            if end.kind in (kind, into, "normal"):
                self.journal.join(pending.mark, pending.changes, pending.needs)
                self.journal.release(pending.mark)
                end = End(into, joined(end.value, pending.value, pending.needs, self.journal.links))
            else:
                live = self.switch(pending)
                self._park(end, pending.mark, live, pending.needs)
                end = End(into, pending.value)
        return end

    def switch(self, pending: Pending) -> Changes:
        """Make a parked way the live one; return the live one's changes since the same mark."""
        live = self._set_aside(pending.mark, 0)
        self.journal.apply(pending.changes)
        return live
