"""Follow expressions: each gives a value, or an unknown that names what would decide it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from tools.interpreter.comprehensions import Comprehensions
from tools.interpreter.journal import joined
from tools.interpreter.lookups import any_of
from tools.interpreter.operators import DTYPES, binary, compare, natively
from tools.interpreter.values import (
    External,
    Function,
    GuestClass,
    GuestRaise,
    Instance,
    Marker,
    Maybe,
    Native,
    Stopped,
    Undecided,
    Unknown,
    holed,
    needs_of,
    text_of,
    unknown_of,
)

_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: lambda value: -value,
    ast.UAdd: lambda value: +value,
    ast.Invert: lambda value: ~value,
}


_METHODS: Final = {kind: f"_{kind.__name__}" for kind in ast.expr.__subclasses__()}


def merge(into: dict[Any, Any], part: dict[Any, Any]) -> None:
    """Put the items of a dict into another; one that may be absent leaves open what was there."""
    for name, value in part.items():
        if type(value) is Maybe and name in into:
            value = joined(into[name], value.value, value.needs)
        into[name] = value


class Expressions(Comprehensions):
    """Evaluate expressions in the current frame."""

    def expression(self, node: ast.expr) -> Any:
        """Return the value of an expression."""
        self.steps += 1
        if self.steps > self.limits.steps:
            raise Stopped(f"more than {self.limits.steps} steps")
        return getattr(self, _METHODS[type(node)])(node)

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        value = self.lookup(node.id)
        if self.leaves is not None and not isinstance(value, (Function, GuestClass, External, Instance)):
            self.leaves.append((node.id, value))
        return value

    def _Attribute(self, node: ast.Attribute) -> Any:
        held = self.evaluate(node.value)
        value = self.get_attribute(held, node.attr)
        if self.leaves is not None and isinstance(held, Instance):
            self.leaves.append((node.attr, value))
        return value

    def _NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self.evaluate(node.value)
        self.assign(node.target, value)
        return value

    def _Starred(self, node: ast.Starred) -> Any:
        return self.evaluate(node.value)

    def _Await(self, node: ast.Await) -> Any:
        return unknown_of(need=f"await {ast.unparse(node.value)[:60]}")

    def _Lambda(self, node: ast.Lambda) -> Any:
        return self.make_function(node)

    # --- containers -------------------------------------------------------------------------------

    def _List(self, node: ast.List) -> Any:
        return self._items(node.elts)

    def _Tuple(self, node: ast.Tuple) -> Any:
        items = self._items(node.elts)
        return items if isinstance(items, Unknown) else tuple(items)

    def _Set(self, node: ast.Set) -> Any:
        items = self._items(node.elts)
        return items if isinstance(items, Unknown) else natively(set, items)

    def _items(self, nodes: list[ast.expr]) -> Any:
        found: list[Any] = []
        for node in nodes:
            if not isinstance(node, ast.Starred):
                found.append(self.evaluate(node))
                continue
            value = self.iterate(self.evaluate(node.value))
            if isinstance(value, Unknown):
                return value
            found += natively(list, value)
        return found

    def _Dict(self, node: ast.Dict) -> Any:
        found: dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.evaluate(value_node)
            if key_node is None:
                part = self._mapping(value)
                if isinstance(part, Unknown):
                    return part
                merge(found, part)
                continue
            key = self.evaluate(key_node)
            if isinstance(key, Unknown):
                return unknown_of(key)
            if isinstance(natively(found.__setitem__, key, value), Unknown):
                return unknown_of(key, need="a key")
        return found

    def _mapping(self, value: Any) -> Any:
        if isinstance(value, Instance) and isinstance(value.native, dict):
            value = value.native
        if isinstance(value, dict):
            needs = self.journal.tainted(value)
            return value if needs is None else Unknown(needs)
        if isinstance(value, (Unknown, External)):
            return unknown_of(value)
        return natively(dict, value)

    def _Subscript(self, node: ast.Subscript) -> Any:
        held = self.evaluate(node.value)
        if isinstance(held, GuestClass) and held.members is None:
            return held
        key = self.evaluate(node.slice)
        return self.item_of(held, key)

    def item_of(self, held: Any, key: Any) -> Any:
        """Return ``held[key]``."""
        if isinstance(key, Unknown) and isinstance(held, dict) and not self.journal.any_tainted:
            self.doubts += 1
            return any_of(held, key, self.journal.links)
        if isinstance(held, Unknown) or isinstance(key, Unknown):
            return unknown_of(held, key)
        if isinstance(held, External):
            return External(f"{held.path}[...]")
        if isinstance(held, Native):
            return type[key] if held.name == "type" and isinstance(key, type) else held
        if isinstance(held, GuestClass):
            member = (held.members or {}).get(key)
            return member if member is not None else self.raise_native(KeyError(key))
        if isinstance(held, (list, dict)) and self.journal.any_tainted:
            needs = self.journal.tainted(held)
            if needs is not None:
                return Unknown(needs)
        if isinstance(held, Instance):
            found = held.cls.find("__getitem__")
            if isinstance(found, Unknown):
                return found
            if isinstance(found, Function):
                return self.call(self.bind(found, held), (key,), {})
            if held.native is not None:
                held = held.native
        if isinstance(held, (list, tuple, dict)) and (hole := holed(held)) is not None:
            return self._holed_item(held, key, hole)
        return natively(lambda a, b: a[b], held, key)

    def _holed_item(self, held: Any, key: Any, hole: Maybe) -> Any:
        """Return an item of a container of which some may be absent."""
        if isinstance(held, dict):
            found = natively(held.__getitem__, key)
            if type(found) is Maybe:
                self.doubts += 1
                return found.value
            return found
        if isinstance(key, int) and 0 <= key < next(n for n, item in enumerate(held) if item is hole):
            return held[key]
        return Unknown(hole.needs)

    def _Slice(self, node: ast.Slice) -> Any:
        parts = [None if p is None else self.evaluate(p) for p in (node.lower, node.upper, node.step)]
        return unknown_of(*parts) if any(isinstance(p, Unknown) for p in parts) else slice(*parts)

    # --- operators --------------------------------------------------------------------------------

    def _BinOp(self, node: ast.BinOp) -> Any:
        return binary(node.op, self.evaluate(node.left), self.evaluate(node.right), self.call)

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            found = self.truth(node.operand)
            return found if isinstance(found, Unknown) else not found
        value = self.evaluate(node.operand)
        return value if isinstance(value, Unknown) else natively(_UNARY[type(node.op)], value)

    def _Compare(self, node: ast.Compare) -> Any:
        left = self.evaluate(node.left)
        doubt: Unknown | None = None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(right_node)
            found = self._compared(op, left, right)
            if not isinstance(found, (bool, Unknown)):
                found = self.truth_of(found) if len(node.ops) > 1 else found
            if isinstance(found, Unknown):
                doubt = found
            elif not found:
                return found
            left = right
        return doubt if doubt is not None else found

    def _compared(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        if self.journal.any_tainted:
            for value in (left, right):
                needs = self.journal.tainted(value) if isinstance(value, (list, dict, set)) else None
                if needs is not None and not isinstance(op, (ast.Is, ast.IsNot)):
                    return Unknown(needs)
        return compare(op, left, right, self.call)

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        stop = isinstance(node.op, ast.Or)
        doubts: list[Unknown] = []
        seen: list[Any] = []
        value: Any = None
        for operand in node.values:
            value = self._tried(operand) if doubts else self.evaluate(operand)
            found = self.truth_of(value)
            if isinstance(found, Unknown):
                doubts.append(found)
                seen.append(value)
            elif found is stop:
                seen.append(value)
                break
        if not doubts:
            return value
        return self._either(seen if self.truth_of(seen[-1]) is stop else [*seen, value], doubts)

    def _either(self, seen: list[Any], doubts: list[Unknown]) -> Any:
        options: list[Any] = []
        for value in seen:
            if isinstance(value, Unknown) and not value.options:
                return unknown_of(*doubts)
            options += value.options if isinstance(value, Unknown) else [value]
        return Unknown(unknown_of(*doubts).needs, tuple(options))

    def _tried(self, node: ast.expr) -> Any:
        """Evaluate an operand that may not be reached: its errors are only possible ones."""
        try:
            return self.evaluate(node)
        except GuestRaise:
            self.doubts += 1
            return unknown_of(need=ast.unparse(node)[:60])

    def truth_node(self, node: ast.expr) -> Any:
        """Return the truth of a condition: True, False or an unknown; ``and``/``or`` in three values."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found = self.truth(node.operand)
            return found if isinstance(found, Unknown) else not found
        if not isinstance(node, ast.BoolOp):
            return self.truth_of(self.evaluate(node))
        stop = isinstance(node.op, ast.Or)
        doubts: list[Unknown] = []
        for operand in node.values:
            if doubts:
                try:
                    found = self.truth(operand)
                except GuestRaise:
                    self.doubts += 1
                    found = unknown_of(need=ast.unparse(operand)[:60])
            else:
                found = self.truth(operand)
            if isinstance(found, Unknown):
                doubts.append(found)
            elif found is stop:
                return stop
        return unknown_of(*doubts) if doubts else not stop

    def truth_value(self, value: Any) -> Any:
        """Return the truth of a value: True, False or an unknown."""
        if value is None or value is True or value is False:
            return bool(value)
        if isinstance(value, Unknown):
            if value.options:
                found = {self._plain_truth(option) for option in value.options}
                if len(found) == 1 and None not in found:
                    return found.pop()
            return value
        if isinstance(value, (list, dict, set)):
            needs = self.journal.tainted(value) if self.journal.any_tainted else None
            if needs is None and value and not isinstance(value, set) and (hole := holed(value)) is not None:
                items = value.values() if isinstance(value, dict) else value
                return Unknown(hole.needs) if all(type(item) is Maybe for item in items) else True
            return Unknown(needs) if needs is not None else bool(value)
        if isinstance(value, External) and not isinstance(value, Marker) and value.path not in DTYPES:
            name = value.path.rpartition(".")[2]
            return True if name[:1].isupper() and not name.isupper() else Unknown((value.path,))
        if isinstance(value, (External, GuestClass, Function)):
            return True
        return natively(bool, value)

    def _plain_truth(self, value: Any) -> bool | None:
        found = self.truth_value(value)
        return found if isinstance(found, bool) else None

    def _IfExp(self, node: ast.IfExp) -> Any:
        test = self.truth(node.test)
        if isinstance(test, Unknown):
            return self.fork(test.needs, lambda: self.evaluate(node.body), lambda: self.evaluate(node.orelse))
        return self.evaluate(node.body if test else node.orelse)

    # --- text -------------------------------------------------------------------------------------

    def _JoinedStr(self, node: ast.JoinedStr) -> Any:
        parts: list[str] = []
        needs: tuple[str, ...] | None = None
        for value_node in node.values:
            if isinstance(value_node, ast.Constant):
                parts.append(str(value_node.value))
                continue
            found = self.evaluate(value_node)
            if isinstance(found, Unknown):
                needs = (*(needs or ()), *found.needs)
            else:
                parts.append(found)
        return "".join(parts) if needs is None else Unknown(needs)

    def _FormattedValue(self, node: ast.FormattedValue) -> Any:
        value = self.evaluate(node.value)
        spec = self.evaluate(node.format_spec) if node.format_spec is not None else ""
        if isinstance(value, (Unknown, External)) or isinstance(spec, Unknown):
            return unknown_of(value, spec)
        if len(spec) > 12 or needs_of(value):
            return unknown_of(value)
        if node.conversion == ord("r"):
            value = self.call(self.lookup("repr"), (value,), {})
        elif node.conversion == ord("s"):
            value = natively(text_of, value)
        return value if isinstance(value, Unknown) else natively(self.format_safely, value, spec)

    def format_safely(self, value: Any, spec: str) -> str:
        """Format a value; objects that are not plain say no address and nothing of ours."""
        if isinstance(value, (Function, GuestClass)):
            raise Undecided(("the text of a function or class",))
        return format(value, spec)
