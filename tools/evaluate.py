"""Evaluate expressions of settings and constants; whatever goes beyond that is unknown, never guessed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from tools.statements import UNKNOWN

Resolver = Callable[[ast.expr], str | None]
"""Returns the setting that an expression reads, if it is one."""

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_TEXT_METHODS: Final = ("lower", "upper", "strip", "startswith", "endswith")


def evaluate(node: ast.expr, resolve: Resolver, values: Mapping[str, Any]) -> Any:
    """Return what an expression of settings and constants gives, `UNKNOWN` for anything beyond that."""
    name = resolve(node)
    if name is not None:
        return values.get(name, UNKNOWN)
    if isinstance(node, ast.Constant):
        return node.value
    try:
        return _compound(node, lambda part: evaluate(part, resolve, values))
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return UNKNOWN


def _compound(node: ast.expr, value_of: Callable[[ast.expr], Any]) -> Any:
    if isinstance(node, ast.Compare):
        return _compared(node, value_of)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        parts = [value_of(part) for part in node.elts]
        return UNKNOWN if any(part is UNKNOWN for part in parts) else parts
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = value_of(node.left), value_of(node.right)
        numbers = all(isinstance(value, int | float) for value in (left, right))
        return _ARITHMETIC[type(node.op)](left, right) if numbers else UNKNOWN
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        inner = value_of(node.operand)
        if inner is UNKNOWN:
            return UNKNOWN
        return -inner if isinstance(node.op, ast.USub) else not inner
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _TEXT_METHODS
    ):
        text, words = value_of(node.func.value), [value_of(word) for word in node.args]
        if isinstance(text, str) and all(isinstance(word, str) for word in words) and not node.keywords:
            return getattr(text, node.func.attr)(*words)
    return UNKNOWN


def _compared(node: ast.Compare, value_of: Callable[[ast.expr], Any]) -> Any:
    left = value_of(node.left)
    for sign, operand in zip(node.ops, node.comparators, strict=True):
        right = value_of(operand)
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        # Identity of values read from a command line says nothing, except for these singletons.
        if isinstance(sign, ast.Is | ast.IsNot) and not (right is None or isinstance(right, bool)):
            return UNKNOWN
        if not _COMPARE[type(sign)](left, right):
            return False
        left = right
    return True
