"""Work out an expression of a package from its source alone: literals, names, simple calls."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.settings.define_values import Values, written
from tools.statements import UNKNOWN

_LARGEST: Final = 1 << 64
_LONGEST: Final = 10_000
DEPTH: Final = 24
_OPERATORS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
}
_COMPARISONS: Final[dict[type, Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_SEQUENCES: Final[dict[str, Callable[..., Any]]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "sorted": sorted,
}
_SCALARS: Final[dict[str, Callable[..., Any]]] = {"int": int, "float": float, "str": str, "bool": bool}
_STANDARD: Final = {("sys", "maxsize"): 2**63 - 1, ("ssl", "CERT_NONE"): 0}
"""What the standard library gives on every machine that runs an engine."""
EMPTY: Final[dict[str, Any]] = {"list": [], "dict": {}, "set": set(), "tuple": (), "str": "", "int": 0}
_BUILT_IN: Final = _SEQUENCES.keys() | _SCALARS.keys() | EMPTY.keys()
_METHODS: Final = frozenset(
    {
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "split",
        "replace",
        "copy",
        "get",
        "removeprefix",
        "removesuffix",
    }
)
Names = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """Hold one member of an enumeration."""

    name: str
    value: Any


class Expressions:
    """Evaluate expressions of one package; `UNKNOWN` is an answer."""

    def __init__(self, values: Values) -> None:
        self.values = values

    def value(self, path: str, node: ast.AST | None, names: Names | None = None, depth: int = 0) -> Any:
        """Return the plain value of an expression in a module, or `UNKNOWN`."""
        if isinstance(node, ast.Constant):
            return node.value
        way = _WAYS.get(type(node))
        if way is None or depth > DEPTH:
            return UNKNOWN
        return getattr(self, way)(path, node, names or {}, depth + 1)

    def elements(
        self, path: str, node: ast.AST, names: Names | None = None, depth: int = 0
    ) -> list[Any] | None:
        """Return what iterating over an expression gives: a dict's keys even when its values are unknown."""
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "keys" and not node.args:
            return self.elements(path, node.func.value, names, depth + 1)  # type: ignore[attr-defined]
        place = self.values.place(path, node) if isinstance(node, ast.Name | ast.Attribute) else (path, node)
        if place is None or depth > DEPTH:
            return None
        where, found = place
        if isinstance(found, ast.ClassDef):
            return self._members(where, found)
        if isinstance(found, ast.Dict) and None not in found.keys:
            return [self.value(where, key, names, depth + 1) for key in found.keys]
        value = self.value(path, node, names, depth + 1)
        return list(value) if isinstance(value, list | tuple | set | frozenset | dict) else None

    def _members(self, path: str, cls: ast.ClassDef) -> list[Any] | None:
        """Return the members of an enumeration; None for any other class."""
        if not any("Enum" in written(base) for _, c in self.values.bases(path, cls) for base in c.bases):
            return None
        found = [s for s in cls.body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)]
        return [
            Member(s.targets[0].id, self._member_value(path, s))  # type: ignore[attr-defined]
            for s in found
            if not s.targets[0].id.startswith("_")  # type: ignore[attr-defined]
        ]

    def _member_value(self, path: str, statement: ast.Assign) -> Any:
        if called_name(statement.value) == "auto":
            return UNKNOWN
        return self.value(path, statement.value)

    def _container(self, path: str, node: Any, names: Names, depth: int) -> Any:
        parts: list[Any] = []
        for part in node.elts:
            if isinstance(part, ast.Starred):
                spread = self.elements(path, part.value, names, depth)
                if spread is None:
                    return UNKNOWN
                parts += spread
            else:
                parts.append(self.value(path, part, names, depth))
        if any(part is UNKNOWN for part in parts):
            return UNKNOWN
        make: Callable[..., Any] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return _tried(make, parts)

    def _dict(self, path: str, node: ast.Dict, names: Names, depth: int) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            held = self.value(path, value, names, depth)
            if key is None:
                if not isinstance(held, dict):
                    return UNKNOWN
                found.update(held)
                continue
            at = self.value(path, key, names, depth)
            if held is UNKNOWN or at is UNKNOWN or not _hashable(at):
                return UNKNOWN
            found[at] = held
        return found

    def _name(self, path: str, node: ast.Name, names: Names, depth: int) -> Any:
        if node.id in names:
            return names[node.id]
        found = self.values.find(path, node.id)
        if found is None or not isinstance(found[1], ast.Assign | ast.AnnAssign):
            return UNKNOWN
        if not self.values.is_fixed(found):
            return UNKNOWN
        return self.value(found[0], found[1].value, None, depth)

    def _attribute(self, path: str, node: ast.Attribute, names: Names, depth: int) -> Any:
        held = self.value(path, node.value, names, depth)
        if isinstance(held, Member):
            return getattr(held, node.attr) if node.attr in ("name", "value") else UNKNOWN
        if isinstance(node.value, ast.Name) and (node.value.id, node.attr) in _STANDARD:
            return _STANDARD[node.value.id, node.attr]
        place = self.values.place(path, node)
        if place is None or not isinstance(place[1], ast.expr):
            return UNKNOWN
        owner = self.values.cls(path, node.value)
        if owner is not None and self._members(*owner) is not None:
            return Member(node.attr, self.value(place[0], place[1], None, depth))
        return self.starts_as(owner, place[0], place[1], depth)

    def starts_as(self, owner: tuple[str, ast.ClassDef] | None, path: str, node: ast.expr, depth: int) -> Any:
        """Return the value of a class's attribute, or of a module's."""
        return self.value(path, node, None, depth)

    def _joined(self, path: str, node: ast.JoinedStr, names: Names, depth: int) -> Any:
        parts = []
        for part in node.values:
            plain = part.value if isinstance(part, ast.FormattedValue) else part
            if isinstance(part, ast.FormattedValue) and (part.format_spec or part.conversion != -1):
                return UNKNOWN
            parts.append(self.value(path, plain, names, depth))
        return UNKNOWN if any(p is UNKNOWN for p in parts) else "".join(map(str, parts))

    def _binary(self, path: str, node: ast.BinOp, names: Names, depth: int) -> Any:
        left = self.value(path, node.left, names, depth)
        right = self.value(path, node.right, names, depth)
        work = _OPERATORS.get(type(node.op))
        if work is None or left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        numbers = all(isinstance(v, int | float) and abs(v) < _LARGEST for v in (left, right))
        if isinstance(node.op, ast.Pow | ast.LShift) and not (numbers and 0 <= right <= 64):
            return UNKNOWN
        if not numbers and not (isinstance(node.op, ast.Add | ast.BitOr) and _short(left) and _short(right)):
            return UNKNOWN
        return _tried(work, left, right)

    def _unary(self, path: str, node: ast.UnaryOp, names: Names, depth: int) -> Any:
        value = self.value(path, node.operand, names, depth)
        if value is UNKNOWN:
            return UNKNOWN
        if isinstance(node.op, ast.Not):
            return not value
        return _tried(operator.neg, value) if isinstance(node.op, ast.USub) else UNKNOWN

    def _boolean(self, path: str, node: ast.BoolOp, names: Names, depth: int) -> Any:
        value: Any = UNKNOWN
        for part in node.values:
            value = self.value(path, part, names, depth)
            if value is UNKNOWN or bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _compare(self, path: str, node: ast.Compare, names: Names, depth: int) -> Any:
        left = self.value(path, node.left, names, depth)
        right = self.value(path, node.comparators[0], names, depth)
        work = _COMPARISONS.get(type(node.ops[0]))
        if work is None or len(node.ops) > 1 or left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        return _tried(work, left, right)

    def _either(self, path: str, node: ast.IfExp, names: Names, depth: int) -> Any:
        test = self.value(path, node.test, names, depth)
        if test is UNKNOWN:
            return UNKNOWN
        return self.value(path, node.body if test else node.orelse, names, depth)

    def _subscript(self, path: str, node: ast.Subscript, names: Names, depth: int) -> Any:
        held = self.value(path, node.value, names, depth)
        at = self.value(path, node.slice, names, depth)
        if held is UNKNOWN or at is UNKNOWN or not isinstance(held, dict | list | tuple | str):
            return UNKNOWN
        return _tried(operator.getitem, held, at)

    def _comprehension(self, path: str, node: Any, names: Names, depth: int) -> Any:
        loop = node.generators[0]
        if len(node.generators) > 1 or loop.ifs or not isinstance(loop.target, ast.Name):
            return UNKNOWN
        over = self.elements(path, loop.iter, names, depth)
        if over is None or len(over) > _LONGEST:
            return UNKNOWN
        found = [self.value(path, node.elt, {**names, loop.target.id: each}, depth) for each in over]
        if any(each is UNKNOWN for each in found):
            return UNKNOWN
        return _tried(set, found) if isinstance(node, ast.SetComp) else found

    def _call(self, path: str, node: ast.Call, names: Names, depth: int) -> Any:
        called = called_name(node)
        if isinstance(node.func, ast.Name):
            return self._plain_call(path, node, called, names, depth)
        if not isinstance(node.func, ast.Attribute) or node.keywords:
            return UNKNOWN
        if called == "keys" and not node.args:
            return _all(self.elements(path, node, names, depth))
        if called == "join" and len(node.args) == 1:
            between = self.value(path, node.func.value, names, depth)
            parts = _all(self.elements(path, node.args[0], names, depth))
            plain = isinstance(between, str) and isinstance(parts, list)
            return _tried(between.join, parts) if plain else UNKNOWN
        if called not in _METHODS:
            return UNKNOWN
        held = self.value(path, node.func.value, names, depth)
        arguments = [self.value(path, each, names, depth) for each in node.args]
        if not isinstance(held, str | list | dict) or UNKNOWN in arguments or not hasattr(held, called):
            return UNKNOWN
        return _tried(getattr(held, called), *arguments)

    def _plain_call(self, path: str, node: ast.Call, called: str, names: Names, depth: int) -> Any:
        if node.keywords or len(node.args) > 1 or called not in _BUILT_IN:
            return UNKNOWN
        if self.values.find(path, called) is not None:
            return UNKNOWN
        if not node.args:
            empty = EMPTY.get(called, UNKNOWN)
            return empty.copy() if isinstance(empty, list | dict | set) else empty
        if called in _SEQUENCES:
            parts = _all(self.elements(path, node.args[0], names, depth))
            return UNKNOWN if parts is UNKNOWN else _tried(_SEQUENCES[called], parts)
        if called in _SCALARS:
            value = self.value(path, node.args[0], names, depth)
            return _tried(_SCALARS[called], value) if isinstance(value, str | int | float) else UNKNOWN
        return UNKNOWN


_WAYS: Final[dict[type, str]] = {
    ast.List: "_container",
    ast.Tuple: "_container",
    ast.Set: "_container",
    ast.Dict: "_dict",
    ast.Name: "_name",
    ast.Attribute: "_attribute",
    ast.JoinedStr: "_joined",
    ast.BinOp: "_binary",
    ast.BoolOp: "_boolean",
    ast.Compare: "_compare",
    ast.UnaryOp: "_unary",
    ast.IfExp: "_either",
    ast.Subscript: "_subscript",
    ast.ListComp: "_comprehension",
    ast.SetComp: "_comprehension",
    ast.GeneratorExp: "_comprehension",
    ast.Call: "_call",
}


def called_name(node: ast.AST) -> str:
    """Return the last name of what a call calls; empty for anything else."""
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", ""))


def _all(parts: list[Any] | None) -> Any:
    return UNKNOWN if parts is None or any(part is UNKNOWN for part in parts) else parts


def _hashable(value: Any) -> bool:
    return isinstance(value, str | int | float | bytes | tuple | None)


def _short(value: Any) -> bool:
    return not hasattr(value, "__len__") or len(value) <= _LONGEST


def _tried(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do what cannot be judged beforehand: the source may add a list to a number."""
    try:
        return work(*arguments)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        return UNKNOWN
