"""Hold the conditions that must be true for a place in the source to be reached, with their positions."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tools.guards import guards_of
from tools.settings.trees import cite
from tools.settings.types import Cite, SourceTree
from tools.syntax import Module, Step

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Need:
    """Hold one condition that must be true; ``line`` and ``column`` are those of its first expression."""

    text: str
    path: str
    line: int
    column: int
    cite: Cite
    node: ast.expr = field(compare=False, repr=False)
    way: tuple[Step, ...] = field(compare=False, repr=False)
    module: Module = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unit:
    """Name the function that a place is part of: the outermost one, within its class."""

    path: str
    cls: str | None
    name: str | None
    first: int
    last: int

    @property
    def symbol(self) -> str:
        """Return ``Class.method``, a function, or what stands at the top of the file."""
        return ".".join(part for part in (self.cls, self.name) if part) or f"the top of {self.path}"


def needs_at(tree: SourceTree, path: str, module: Module, way: list[Step]) -> tuple[Need, ...]:
    """Return the conditions on a way (see `syntax.steps_to`), outermost first."""
    found = []
    for guard in guards_of(module, way):
        line, column = _position(guard.condition, guard.line)
        where = cite(tree, path, guard.line, guard.last_line)
        text = guard.text[:_LONGEST]
        found.append(Need(text, path, line, column, where, guard.condition, tuple(way), module))
    return tuple(found)


def unit_of(path: str, way: list[Step] | tuple[Step, ...]) -> Unit:
    """Return the function that the end of a way is part of."""
    cls: str | None = None
    for step in way:
        if isinstance(step.child, ast.ClassDef):
            cls = step.child.name
        elif isinstance(step.child, _FUNCTIONS):
            function = step.child
            return Unit(path, cls, function.name, function.lineno, function.end_lineno or function.lineno)
    return Unit(path, cls, None, 0, 0)


def body_of(way: list[Step] | tuple[Step, ...]) -> tuple[int, int]:
    """Return the first and last line of the innermost function on a way; (0, 0) outside of all."""
    for step in reversed(way):
        if isinstance(step.child, _FUNCTIONS):
            return step.child.lineno, step.child.end_lineno or step.child.lineno
    return 0, 0


def _position(condition: ast.expr, line: int) -> tuple[int, int]:
    located = [
        (node.lineno, node.col_offset)
        for node in ast.walk(condition)
        if isinstance(node, ast.expr) and hasattr(node, "lineno")
    ]
    return min(located, default=(line, 0))
