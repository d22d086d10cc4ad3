"""The closed set of operators, functions, types and methods that rules may name."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "|": operator.or_,
    "&": operator.and_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}
CALLS: Final[dict[str, Callable[..., Any]]] = {
    "len": len,
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "set": set,
    "range": range,
    "max": max,
    "min": min,
    "sum": sum,
    "sorted": sorted,
    "zip": zip,
    "any": any,
    "all": all,
    "enumerate": enumerate,
    "abs": abs,
    "round": round,
    "reversed": reversed,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "prod": math.prod,
}
TYPES: Final = {
    "dict": dict,
    "list": list,
    "tuple": tuple,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "set": set,
}
PLAIN: Final = (str, list, dict, tuple, set, int, float)
METHODS: Final = frozenset(
    {
        "get",
        "pop",
        "setdefault",
        "update",
        "items",
        "keys",
        "values",
        "copy",
        "append",
        "extend",
        "insert",
        "index",
        "count",
        "split",
        "startswith",
        "endswith",
        "lower",
        "upper",
        "replace",
        "join",
        "strip",
        "issubset",
        "union",
        "add",
        "removeprefix",
        "removesuffix",
        "intersection",
        "difference",
    }
)
LONGEST: Final = 200_000
