"""Follow statements: blocks end normally, by return, break, continue, or by an exception of the source."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

from tools.interpreter.environment import Environment
from tools.interpreter.failures import Failures
from tools.interpreter.forks import NORMAL, End
from tools.interpreter.loops import Loops
from tools.interpreter.operators import in_place, natively
from tools.interpreter.values import (
    MISSING,
    GuestRaise,
    Instance,
    Undecided,
    Unknown,
    holed,
)

_METHODS: Final = {kind: f"_{kind.__name__}" for kind in ast.stmt.__subclasses__()}


class Statements(Loops, Failures):
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


def _fields(node: ast.AST) -> dict[str, Any]:
    return {name: getattr(node, name) for name in node._fields}
