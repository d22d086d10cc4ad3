"""Read statements of Python: what they hold, what they assign, and which symbols they define."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from tools.syntax import BODIES, Module


class _Missing:
    """Mark a value that cannot be known from the source alone."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Final = _Missing()
_LITERALS = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp)
_HOLDERS: Final = frozenset(
    kind for kind in ast.stmt.__subclasses__() if {*BODIES, "handlers", "cases"} & {*kind._fields}
)
"""Statements that others stand in."""


def constant(node: ast.AST | None) -> Any:
    """Return the value of a literal (nested tuples, lists, sets, dicts included), else `UNKNOWN`."""
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, _LITERALS):
        return UNKNOWN
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body and all below them, functions and classes included."""
    for statement in body:
        yield statement
        if type(statement) not in _HOLDERS:
            continue
        for name in BODIES:
            below = getattr(statement, name, None)
            if below:
                yield from statements(below)
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from statements(part.body)


def targets(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield what a statement assigns or deletes, tuples taken apart."""
    found: list[ast.expr | None] = []
    if isinstance(statement, ast.Assign | ast.Delete):
        found += statement.targets
    elif isinstance(statement, ast.AugAssign | ast.For | ast.AsyncFor) or (
        isinstance(statement, ast.AnnAssign) and statement.value is not None
    ):
        found.append(statement.target)
    elif isinstance(statement, ast.With | ast.AsyncWith):
        found += [item.optional_vars for item in statement.items]
    while found:
        target = found.pop(0)
        if isinstance(target, ast.Tuple | ast.List):
            found[:0] = target.elts
        elif isinstance(target, ast.Starred):
            found.insert(0, target.value)
        elif target is not None:
            yield target


def text_of(node: ast.expr) -> str:
    """Return ``ast.unparse(node)``, which takes its time, of dotted names at once."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
        return f"{text_of(node.value)}.{node.attr}"
    return ast.unparse(node)


def write_value(statement: ast.stmt | None) -> Any:
    """Return the constant that a statement assigns, else `UNKNOWN`."""
    if isinstance(statement, ast.Assign) and all(
        isinstance(target, ast.Name | ast.Attribute) for target in statement.targets
    ):
        return constant(statement.value)
    if isinstance(statement, ast.AnnAssign):
        return constant(statement.value)
    return UNKNOWN


def find_symbol(module: Module, dotted: str) -> ast.stmt | None:
    """Return the statement that defines ``Class.method``, a function, a class, a field or a constant."""
    body: list[ast.stmt] = module.tree.body
    found: ast.stmt | None = None
    for name in dotted.split("."):
        found = next((s for s in _definitions(body) if name in _defined_names(s)), None)
        if found is None:
            return None
        body = getattr(found, "body", [])
    return found


def symbols(module: Module) -> list[str]:
    """Return the dotted names of classes, their methods, and top-level functions."""
    found = []
    for statement in _definitions(module.tree.body):
        if not isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        found.append(statement.name)
        if isinstance(statement, ast.ClassDef):
            methods = (s for s in statement.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef))
            found += [f"{statement.name}.{method.name}" for method in methods]
    return found


def first_line(statement: ast.stmt) -> int:
    """Return the first line of a statement, its decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _definitions(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body and of the branches in it: symbols are often defined under ``if``."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for name in ("body", "orelse", "finalbody"):
                yield from _definitions(getattr(statement, name, []))
            for handler in getattr(statement, "handlers", []):
                yield from _definitions(handler.body)


def _defined_names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {t.id for t in statement.targets if isinstance(t, ast.Name)}
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return {statement.target.id}
    return set()
