"""Say what a test decides: which statements run when it holds, and which when it does not."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tools.syntax import Module, Step

_LEAVES: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Branch:
    """Hold a test with what runs on either side of it, up to the end of its block."""

    test: ast.expr
    holds: tuple[ast.AST, ...]
    fails: tuple[ast.AST, ...]

    @property
    def leaves(self) -> bool:
        """Tell whether the side where it holds ends what it stands in."""
        return bool(self.holds) and isinstance(self.holds[-1], _LEAVES)

    @property
    def refuses(self) -> bool:
        """Tell whether one side only raises."""
        return any(side and isinstance(side[-1], ast.Raise) for side in (self.holds, self.fails))


def branch_of(way: Sequence[Step]) -> Branch | None:
    """Return the test that the end of a way is part of; None when it is part of none."""
    for index in range(len(way) - 1, -1, -1):
        parent, name = way[index].parent, way[index].field
        if isinstance(parent, ast.If) and name == "test":
            return _if(parent, _rest(way[:index]))
        if isinstance(parent, ast.While) and name == "test":
            return Branch(parent.test, tuple(parent.body), tuple(parent.orelse))
        if isinstance(parent, ast.IfExp) and name == "test":
            return Branch(parent.test, (parent.body,), (parent.orelse,))
        if isinstance(parent, ast.Assert) and name == "test":
            return Branch(parent.test, (), (ast.Raise(),))
        if isinstance(parent, ast.stmt | ast.Call | ast.Lambda):
            return None
    return None


def _rest(way: Sequence[Step]) -> tuple[ast.stmt, ...]:
    """Return the statements after the one that a way ends with, in its block."""
    if not way or not isinstance(way[-1].child, ast.stmt):
        return ()
    block = getattr(way[-1].parent, way[-1].field)
    return tuple(block[way[-1].index + 1 :]) if isinstance(block, list) else ()


def _if(node: ast.If, rest: tuple[ast.stmt, ...]) -> Branch:
    holds: tuple[ast.AST, ...] = tuple(node.body)
    fails: tuple[ast.AST, ...] = tuple(node.orelse)
    if isinstance(node.body[-1], _LEAVES):
        fails += rest
    elif node.orelse and isinstance(node.orelse[-1], _LEAVES):
        holds += rest
    return Branch(node.test, holds, fails)


def lines_of(nodes: Sequence[ast.AST]) -> int:
    """Return over how many lines statements or expressions reach."""
    located = [n for n in nodes if isinstance(n, ast.stmt | ast.expr) and hasattr(n, "lineno")]
    return sum((n.end_lineno or n.lineno) - n.lineno + 1 for n in located)


def calls_in(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    """Yield the calls that run with these nodes, without those in functions defined there."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def in_endless_loop(way: Sequence[Step]) -> bool:
    """Tell whether a place stands in a loop that a server goes round for as long as it lives."""
    return any(
        isinstance(s.parent, ast.While)
        and s.field == "body"
        and isinstance(s.parent.test, ast.Constant)
        and bool(s.parent.test.value)
        for s in way
    )


def source_of(module: Module, node: ast.AST) -> str:
    """Return a node as it stands in the file, on one line."""
    if not isinstance(node, ast.stmt | ast.expr) or not hasattr(node, "lineno"):
        return ""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    lines = module.lines[first : min(last + 1, first + 12)]
    if last - first < 12 and lines:
        lines = [*lines[:-1], lines[-1][: node.end_col_offset]]
    text = b" ".join(lines)[node.col_offset :]
    return " ".join(text.decode("utf-8", "replace").split())


def first_line(module: Module, nodes: Sequence[ast.AST]) -> str:
    """Return how what runs begins, in the source's words."""
    return source_of(module, nodes[0])[:120] if nodes else ""
