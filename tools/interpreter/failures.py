"""Follow exceptions of the source, what handles them, and what is done however a block ends."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable, Sequence
from typing import Any

from tools.interpreter.forks import NORMAL, End, Forks
from tools.interpreter.values import (
    MISSING,
    External,
    GuestClass,
    GuestRaise,
    Instance,
    Native,
    Unknown,
    unknown_of,
)


class Failures(Forks):
    """Follow ``raise``, ``try`` and ``with``."""

    def _Raise(self, node: ast.Raise) -> None:
        if node.exc is None:
            caught = self.frame.caught
            raise caught if caught is not None else GuestRaise(RuntimeError("no active exception"), node)
        value = self.evaluate(node.exc)
        if isinstance(value, (GuestClass, type, External)):
            value = self.call(value, (), {})
        if isinstance(value, Unknown):
            value = Exception("an exception whose class is not followed")
        raised = GuestRaise(value, node)
        raised.path, raised.line = self.frame.module.path, node.lineno
        raise raised

    def _Try(self, node: ast.Try) -> End:
        if not node.finalbody:
            return self._handled(node)
        try:
            end = self._handled(node)
        except GuestRaise:
            final = self.block(node.finalbody)
            if final.kind != "normal":
                return final
            raise
        final = self.block(node.finalbody)
        return final if final.kind != "normal" else end

    def _handled(self, node: ast.Try) -> End:
        if not node.handlers:
            return self.block(node.body)
        if not self.catching and all(map(_raises_again, node.handlers)):
            return self._passed_on(node)
        base, mark, doubts = len(self.pendings), self.journal.mark(), self.doubts
        self.catching += 1
        try:
            end = self.follow(lambda: self.block(node.body))
        finally:
            self.catching -= 1
        if end.kind == "raise":
            end = self.follow(lambda: self._handle(node.handlers, end.value))
        elif end.kind == "normal":
            end = self.follow(lambda: self.block(node.orelse))
        end = self._raised_perhaps(node, base, end)
        if self.doubts > doubts:
            end = self._doubtful(node, mark, base, end)
        else:
            self.journal.release(mark)
        if end.kind == "raise":
            raise end.value
        return end

    def _passed_on(self, node: ast.Try) -> End:
        """Follow a statement whose handlers raise again: nothing is caught in it."""
        end = self.follow(lambda: self.block(node.body))
        if end.kind == "raise":
            return self._handle(node.handlers, end.value)
        return self.block(node.orelse) if end.kind == "normal" else end

    def _raised_perhaps(self, node: ast.Try, base: int, end: End) -> End:
        """Follow the handlers for the exceptions that were possible in the body."""
        raised = [p for p in self.pendings[base:] if p.kind == "raise"]
        while (pending := self.next_parked(base, raised.__contains__)) is not None:
            live = self.switch(pending)
            other = self.follow(lambda raised=pending.value: self._handle(node.handlers, raised))  # type: ignore[misc]
            end = self.meet(pending.mark, base, end, live, other, pending.needs)
        return end

    def _doubtful(self, node: ast.Try, mark: int, base: int, end: End) -> End:
        """Follow the handlers once more, for what an operation that is not followed may have raised."""
        changes = self._set_aside(mark, base)
        needs = ("whether an operation in a try statement fails",)

        def way() -> End:
            return self._handle(node.handlers[:1], GuestRaise(Unknown(needs)))

        other = self.follow(way)
        if other.kind == "raise":
            self._set_aside(mark, base)
            self.journal.apply(changes)
            self.journal.release(mark)
            return end
        return self.meet(mark, base, end, changes, other, needs)

    _TryStar = _Try

    def _handle(self, handlers: Sequence[ast.ExceptHandler], raised: GuestRaise) -> End:
        for handler in handlers:
            found = self._catches(handler, raised.value)
            if found is False:
                continue
            frame = self.frame
            before, frame.caught = frame.caught, raised
            if handler.name:
                self.bind_name(handler.name, raised.value)
            try:
                return self.block(handler.body)
            finally:
                frame.caught = before
        raise raised

    def _catches(self, handler: ast.ExceptHandler, value: Any) -> Any:
        if handler.type is None or isinstance(value, Unknown):
            return True
        classes = self.evaluate(handler.type)
        found = self.is_instance(value, classes)
        return True if isinstance(found, Unknown) else found

    # --- with -------------------------------------------------------------------------------------

    def _With(self, node: ast.With) -> End:
        return self._entered(node.items, node.body)

    _AsyncWith = _With

    def _entered(self, items: Sequence[ast.withitem], body: list[ast.stmt]) -> End:
        if not items:
            return self.block(body)
        item, rest = items[0], items[1:]
        manager = self.evaluate(item.context_expr)

        def inside(value: Any) -> End:
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
            return self._entered(rest, body)

        return self.with_manager(manager, inside)

    def with_manager(self, manager: Any, inside: Callable[[Any], End]) -> End:
        """Follow a block inside a context manager."""
        if isinstance(manager, Native) and manager.name == "contextmanager":
            found = manager.run(inside)
            return found if isinstance(found, End) else NORMAL
        if isinstance(manager, (io.StringIO, io.BytesIO)):
            return inside(manager)
        if not isinstance(manager, Instance):
            return inside(unknown_of(manager, need="a context manager that is not followed"))
        enter, leave = manager.cls.find("__enter__"), manager.cls.find("__exit__")
        value = self.call(self.bind(enter, manager), (), {}) if enter is not MISSING else manager
        try:
            end = inside(value)
        except GuestRaise as raised:
            if leave is not MISSING:
                args = (type(raised.value), raised.value, None)
                if self.truth_of(self.call(self.bind(leave, manager), args, {})) is True:
                    return NORMAL
            raise
        if leave is not MISSING:
            self.call(self.bind(leave, manager), (None, None, None), {})
        return end


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler can do nothing but raise in the end."""
    leaving = (ast.Return, ast.Break, ast.Continue)
    inside = (node for statement in handler.body for node in ast.walk(statement))
    return isinstance(handler.body[-1], ast.Raise) and not any(isinstance(n, leaving) for n in inside)
