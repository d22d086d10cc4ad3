"""Follow statements: blocks end normally, by return, break, continue, or by an exception of the source."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tools.interpreter.base import Met
from tools.interpreter.environment import Environment
from tools.interpreter.forks import NORMAL, End, Forks
from tools.interpreter.journal import WHOLE
from tools.interpreter.operators import in_place, natively
from tools.interpreter.searches import Searches
from tools.interpreter.values import (
    MISSING,
    External,
    GuestClass,
    GuestRaise,
    Instance,
    Maybe,
    Native,
    Undecided,
    Unknown,
    holed,
    needs_of,
    unknown_of,
)

_ENDING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_METHODS: Final = {kind: f"_{kind.__name__}" for kind in ast.stmt.__subclasses__()}
_UNKNOWN_ROUNDS = 2
_PARKED_BREAKS = 3
"""Rounds that perhaps left a loop before nobody knows how often it runs."""


class Statements(Searches, Forks):
    """Execute statements in the current frame."""

    def block(self, body: Sequence[ast.stmt]) -> End:
        """Follow statements in order until one of them ends the block."""
        for statement in body:
            end = self.statement(statement)
            if end.kind != "normal":
                return end
        return NORMAL

    def statement(self, node: ast.stmt) -> End:
        """Follow one statement."""
        self.step()
        self.frame.line = node.lineno
        self.reached.add((self.frame.module.path, node.lineno))
        try:
            found = getattr(self, _METHODS[type(node)])(node)
        except GuestRaise as raised:
            if not raised.line:
                raised.path, raised.line = self.frame.module.path, node.lineno
            raise
        except Undecided as undecided:
            found = self._unsettled(node, undecided)
        return found if isinstance(found, End) else NORMAL

    def _unsettled(self, node: ast.stmt, undecided: Undecided) -> End | None:
        """Go on behind a statement in which a native operation met an unknown value."""
        self.doubts += 1
        if isinstance(node, ast.Return):
            return End("return", Unknown(undecided.needs))
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self.assign(target, Unknown(undecided.needs))
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            self.assign(node.target, Unknown(undecided.needs))
        elif not isinstance(node, ast.Expr):
            raise undecided
        return None

    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.evaluate(node.value)

    def _Pass(self, node: ast.Pass) -> None:
        """Do nothing."""

    _Global = _Nonlocal = _TypeAlias = _Pass

    def _Return(self, node: ast.Return) -> End:
        return End("return", None if node.value is None else self.evaluate(node.value))

    def _Break(self, node: ast.Break) -> End:
        return End("break")

    def _Continue(self, node: ast.Continue) -> End:
        return End("continue")

    def _Import(self, node: ast.Import) -> None:
        self.execute_import(node)

    def _ImportFrom(self, node: ast.ImportFrom) -> None:
        self.execute_import(node)

    # --- bindings ---------------------------------------------------------------------------------

    def _Assign(self, node: ast.Assign) -> None:
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if self.frame.is_class and isinstance(node.target, ast.Name):
            self.frame.names.setdefault("__annotations__", {})[node.target.id] = node.annotation
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value))

    def _AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        load = ast.copy_location(type(target)(**{**_fields(target), "ctx": ast.Load()}), target)
        old, right = self.evaluate(load), self.evaluate(node.value)
        if isinstance(right, Unknown) and isinstance(old, (list, dict, set)):
            self.journal.taint(old, right.needs)
            return
        self.assign(target, in_place(node.op, old, right, self.call, self.journal.touch))

    def bind_target(self, target: ast.expr, value: Any) -> None:
        """Bind a value to a name, attribute, item, or several of them."""
        if isinstance(target, ast.Name):
            self.bind_name(target.id, value)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.evaluate(target.value), target.attr, value, target)
        elif isinstance(target, ast.Subscript):
            self.set_item(self.evaluate(target.value), self.evaluate(target.slice), value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value)

    def bind_name(self, name: str, value: Any) -> None:
        """Bind a name where the frame says that it lives."""
        frame = self.frame
        if name in frame.global_names:
            self.journal.set(frame.module.globals, name, value)
            return
        if name in frame.nonlocal_names:
            outer = frame.parent
            while outer is not None and name not in outer.names:
                outer = outer.parent
            if outer is not None:
                self.journal.set(outer.names, name, value)
                return
        if self.journal.newest > frame.born:
            self.journal.set(frame.names, name, value)
        else:
            frame.names[name] = value

    def set_item(self, held: Any, key: Any, value: Any) -> None:
        """Do ``held[key] = value``."""
        if isinstance(held, Instance):
            found = held.cls.find("__setitem__")
            if found is not MISSING and not isinstance(found, Unknown):
                self.call(self.bind(found, held), (key, value), {})
                return
            held = held.native if held.native is not None else held
        if isinstance(held, (list, dict)):
            if isinstance(key, Unknown):
                self.journal.taint(held, key.needs)
                return
            self.journal.touch(held)
            if isinstance(natively(held.__setitem__, key, value), Unknown):
                self.journal.taint(held, ("a key",))
        elif isinstance(held, Environment):
            held[key] = value

    def _unpack(self, targets: list[ast.expr], value: Any) -> None:
        items = self.iterate(value)
        if isinstance(items, Unknown):
            for target in targets:
                self.assign(target, Unknown(items.needs))
            return
        found = natively(list, items)
        if not isinstance(found, Unknown) and (hole := holed(found)) is not None:
            found = hole
        if isinstance(found, Unknown):
            found = [Unknown(found.needs) for _ in targets]
        starred = next((n for n, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
        if starred is not None:
            after = len(targets) - starred - 1
            if len(found) < len(targets) - 1:
                self.raise_native(ValueError("not enough values to unpack"))
            middle = found[starred : len(found) - after]
            found = [*found[:starred], middle, *found[len(found) - after :]]
        elif len(found) != len(targets):
            self.raise_native(ValueError(f"expected {len(targets)} values to unpack, got {len(found)}"))
        for target, item in zip(targets, found, strict=True):
            self.assign(target, item)

    def _Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.journal.set(self.frame.names, target.id, MISSING)
            elif isinstance(target, ast.Attribute):
                held = self.evaluate(target.value)
                if isinstance(held, Instance):
                    self.journal.set(held.attrs, target.attr, MISSING)
            elif isinstance(target, ast.Subscript):
                self._delete_item(self.evaluate(target.value), self.evaluate(target.slice))

    def _delete_item(self, held: Any, key: Any) -> None:
        if isinstance(held, (list, dict)):
            if isinstance(key, Unknown):
                self.journal.taint(held, key.needs)
                return
            self.journal.touch(held)
            natively(held.__delitem__, key)
        elif isinstance(held, Environment):
            held.pop(key)

    def _FunctionDef(self, node: ast.FunctionDef) -> None:
        self.bind_name(node.name, self.make_function(node))

    def _AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.bind_name(node.name, self.make_function(node))

    def _ClassDef(self, node: ast.ClassDef) -> None:
        self.bind_name(node.name, self.make_class(node))

    # --- conditions -------------------------------------------------------------------------------

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

    # --- loops ------------------------------------------------------------------------------------

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

    # --- exceptions -------------------------------------------------------------------------------

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


def _negated(met: Met) -> Met:
    return Met(
        met.node, met.module, met.verdict, met.leaves, met.needs, met.before, negated=True, depth=met.depth
    )


def _fields(node: ast.AST) -> dict[str, Any]:
    return {name: getattr(node, name) for name in node._fields}


def blurred(value: Any, needs: tuple[str, ...]) -> Unknown:
    """Return an unknown in a value's place."""
    return Unknown((*needs, *needs_of(value)))


def joined_unknown(value: Any, needs: tuple[str, ...]) -> Any:
    """Return a value that a loop may have computed in another round."""
    return None if value is None else Unknown((*needs, *needs_of(value)))


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler can do nothing but raise in the end."""
    leaving = (ast.Return, ast.Break, ast.Continue)
    inside = (node for statement in handler.body for node in ast.walk(statement))
    return isinstance(handler.body[-1], ast.Raise) and not any(isinstance(n, leaving) for n in inside)
