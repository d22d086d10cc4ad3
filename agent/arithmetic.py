"""Recompute a number from quoted numbers, with nothing but names, + - * /, min, max and parentheses."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from tools.contract import ToolError

_LONGEST = 300
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_CALLS: dict[str, Callable[..., float]] = {"min": min, "max": max}


def compute(expression: str, numbers: Mapping[str, float]) -> float:
    """Return the value of the expression; `ToolError` when it is not one, or rests on none of the numbers."""
    if len(expression) > _LONGEST:
        raise ToolError(f"the expression is longer than {_LONGEST} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        value = _value(tree, numbers)
        moved = [_value(tree, {**numbers, name: number * 1.5 + 1.0}) for name, number in numbers.items()]
    except ZeroDivisionError as error:
        raise ToolError(f"`{expression}` divides by zero") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise ToolError(f"`{expression}` is not an expression of names, + - * /, min and max") from error
    if all(other == value for other in moved):
        raise ToolError(f"`{expression}` does not depend on a quoted number")
    if not math.isfinite(value):
        raise ToolError(f"`{expression}` is not a finite number")
    return value


def _value(node: ast.expr, numbers: Mapping[str, float]) -> float:
    if isinstance(node, ast.Name):
        if node.id not in numbers:
            raise ToolError(f"`{node.id}` is not one of the numbers: {', '.join(numbers)}")
        return numbers[node.id]
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        return float(str(node.value))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, numbers), _value(node.right, numbers))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, numbers)
    plain = isinstance(node, ast.Call) and node.args and not node.keywords
    if plain and isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        return _CALLS[node.func.id]([_value(argument, numbers) for argument in node.args])
    raise ValueError(ast.dump(node)[:80])


def close(claimed: float, computed: float, tolerance: float) -> bool:
    """Tell whether two numbers differ by no more than the relative tolerance."""
    return math.isclose(claimed, computed, rel_tol=max(tolerance, 1e-9), abs_tol=1e-12)
