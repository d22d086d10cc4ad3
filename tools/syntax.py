"""Parse Python files, wholly or function by function, and find the way to what stands at a position."""

from __future__ import annotations

import ast
import contextlib
import gc
import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tools.outline import Piece, outlined

Span = tuple[int, int, int, int]
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_GRAFTING = threading.RLock()
BODIES = ("body", "orelse", "finalbody")
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_MANY_NODES = 10_000
"""Objects made in one go that only syntax trees amount to."""


@dataclass(frozen=True, slots=True)
class Step:
    """Go from a node to one of its children: the field, and the place in it when it is a list."""

    parent: ast.AST
    field: str
    index: int
    child: ast.AST


@dataclass(slots=True)
class Module:
    """Hold a parsed Python file with its lines; ``memo`` keeps what is computed from it once.

    Of a file read by `parse_outline` the tree lacks the bodies of the functions that are ``unread``.
    """

    data: bytes
    lines: list[bytes]
    tree: ast.Module
    memo: dict[Any, Any] = field(default_factory=dict)
    unread: list[Piece] = field(default_factory=list)
    """In the order of their lines."""
    _stubs: dict[int, tuple[ast.AST, ast.AST]] = field(default_factory=dict)
    """Nodes that were replaced, by their identity, which must not come again: ``memo`` tells nodes by it."""

    def read(self, line: int) -> None:
        """Put the function that holds a line into the tree; raise `SyntaxError` when it cannot be read."""
        if self.unread and (piece := self._piece(line)) is not None:
            self._graft(piece)

    def _piece(self, line: int) -> Piece | None:
        """Return the unread function that holds a line."""
        place = bisect_right(self.unread, line, key=lambda piece: piece.first) - 1
        return self.unread[place] if place >= 0 and line <= self.unread[place].last else None

    def is_bare(self, function: ast.AST) -> bool:
        """Tell whether a function of the tree lacks even its parameters."""
        piece = self._piece(getattr(function, "lineno", 0)) if self.unread else None
        return piece is not None and piece.bare and id(function) not in self._stubs

    def whole(self, function: ast.AST) -> ast.AST:
        """Return a function of the tree with its body; raise `SyntaxError` like `read`."""
        if self.unread and id(function) not in self._stubs:
            self.read(getattr(function, "lineno", 0))
        return self.as_read(function)

    def as_read(self, function: ast.AST) -> ast.AST:
        """Return a function of the tree with its body if that was read before."""
        return self._stubs.get(id(function), (function, function))[1]

    def read_where(self, word: re.Pattern[bytes], within: ast.stmt) -> None:
        """Put the functions of a class that hold a word into the tree; raise `SyntaxError` like `read`."""
        last = within.end_lineno or within.lineno
        for piece in [p for p in self.unread if within.lineno <= p.first <= last and word.search(p.text)]:
            self._graft(piece)

    def read_all(self) -> None:
        """Parse the file as a whole if a part of it is unread; what was computed from it is forgotten."""
        if self.unread:
            self.tree = _parsed(self.data)
            self.unread.clear()
            self.memo.clear()

    def _graft(self, piece: Piece) -> None:
        with _GRAFTING:  # trees are shared by threads that follow the same file
            if piece in self.unread:
                self._put_in(piece)

    def _put_in(self, piece: Piece) -> None:
        whole = _parsed(piece.source()).body[0]
        function = whole.body[0] if isinstance(whole, ast.If) else whole
        way = _way(self.tree, piece.first, piece.indent)
        stub = way[-1].child
        assert isinstance(function, _DEFS) and isinstance(stub, _DEFS)
        function.decorator_list = stub.decorator_list
        getattr(way[-1].parent, way[-1].field)[way[-1].index] = function
        for step in way[1:]:  # what ended with the stub ends with the function
            holder: Any = step.parent
            end = (getattr(holder, "end_lineno", None), getattr(holder, "end_col_offset", None))
            if end == (stub.end_lineno, stub.end_col_offset):
                holder.end_lineno, holder.end_col_offset = function.end_lineno, function.end_col_offset
        self._stubs[id(stub)] = (stub, function)
        self.unread.remove(piece)


def parse(data: bytes) -> Module:
    """Parse a file; raise `SyntaxError` when this interpreter cannot read it."""
    return Module(data, data.split(b"\n"), _parsed(data))


def parse_outline(data: bytes, *, heads: bool = False) -> Module:
    """Parse a file without its functions, which `Module.read` adds; raise `SyntaxError` like `parse`.

    With ``heads`` the parameters of functions are there, but where every default is a literal.
    """
    found = outlined(data, heads=heads)
    if found is None:
        return parse(data)
    text, pieces = found
    try:
        tree = _parsed(text)
    except SyntaxError:
        return parse(data)
    return Module(data, data.split(b"\n"), tree, unread=pieces)


def _parsed(data: bytes) -> ast.Module:
    try:
        with collector_paused():
            return ast.parse(data)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"cannot be parsed: {type(error).__name__}") from error


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking syntax trees, while they grow and ever after.

    Trees are kept as long as the investigation and hold no cycles, so a walk over half a million nodes
    finds nothing; without the freeze it comes due at once when collecting starts again.
    """
    if not gc.isenabled():  # the outermost one counts what all of them made
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MANY_NODES:
            gc.freeze()
        gc.enable()


def steps_to(module: Module, line: int, column: int) -> list[Step]:
    """Return the way from the module to the innermost node at a position (column in bytes from 0)."""
    module.read(line)
    return _way(module.tree, line, column)


def _way(tree: ast.Module, line: int, column: int) -> list[Step]:
    way: list[Step] = []
    node: ast.AST = tree
    while not isinstance(node, ast.JoinedStr):  # positions inside f-strings are wrong before 3.12
        step = _step_towards(node, line, column)
        if step is None:
            break
        way.append(step)
        node = step.child
    return way


def _fields(node: ast.AST) -> tuple[str, ...]:
    """Return the fields of a node, statements first: most positions lie in them, and they are sorted."""
    kind = type(node)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(sorted(kind._fields, key=lambda name: name not in BODIES))
    return _FIELDS[kind]


def _step_towards(node: ast.AST, line: int, column: int) -> Step | None:
    """Return the step to the child that covers a position; bodies are long and sorted: bisect."""
    for name in _fields(node):
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            if _covers(value, line, column):
                return Step(node, name, 0, value)
        elif isinstance(value, list) and value:
            body = isinstance(value[0], ast.stmt)
            start = bisect_left(value, line, key=_last_line) if body else 0
            for index, child in enumerate(value[start:], start):
                if isinstance(child, ast.AST) and _covers(child, line, column):
                    return Step(node, name, index, child)
                if body and child.lineno > line:
                    break
    return None


def _last_line(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _span(node: ast.AST) -> Span | None:
    line = getattr(node, "lineno", None)
    if line is not None:
        start = (line, node.col_offset)  # type: ignore[attr-defined]
        if decorators := getattr(node, "decorator_list", None):
            start = min(start, *((d.lineno, 0) for d in decorators))
        return (*start, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
    spans = [span for child in ast.iter_child_nodes(node) if (span := _span(child))]
    if not spans:
        return None
    return (*min(s[:2] for s in spans), *max(s[2:] for s in spans))


def _covers(node: ast.AST, line: int, column: int) -> bool:
    if getattr(node, "end_lineno", line) < line:
        return False
    span = _span(node)
    return span is not None and span[:2] <= (line, column) < span[2:]
