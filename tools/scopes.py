"""Find, in the syntax tree of a Python file, what stands at a position: symbol, kind of use, value."""

from __future__ import annotations

import ast
import contextlib
import gc
import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tools.outline import Piece, outlined

Kind = Literal["write", "read", "definition", "mention"]
"""How a match uses the name: a mention stands in a string or a comment."""


class _Missing:
    """Mark a value that cannot be known from the source alone."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Final = _Missing()
Span = tuple[int, int, int, int]
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_GRAFTING = threading.RLock()
_LITERALS = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp)
_BODIES = ("body", "orelse", "finalbody")
_HOLDERS: Final = frozenset(
    kind for kind in ast.stmt.__subclasses__() if {*_BODIES, "handlers", "cases"} & {*kind._fields}
)
"""Statements that others stand in."""
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_IDENTIFIER = re.compile(rb"[A-Za-z0-9_\x80-\xff]*")


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


@dataclass(frozen=True, slots=True)
class Use:
    """Describe one use of a name; ``value`` is the constant that is written, else `UNKNOWN`."""

    kind: Kind
    value: Any = UNKNOWN
    in_code: bool = True
    """False in comments and docstrings, which no condition reaches."""


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


_MANY_NODES = 10_000
"""Objects made in one go that only syntax trees amount to."""


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


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body and all below them, functions and classes included."""
    for statement in body:
        yield statement
        if type(statement) not in _HOLDERS:
            continue
        for name in _BODIES:
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


def symbol_of(way: list[Step]) -> str | None:
    """Return the dotted name of the innermost class or function, such as ``ServerArgs._handle_x``."""
    named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = [
        step.child.name
        for place, step in enumerate(way)
        if isinstance(step.child, named)
        and not (place + 1 < len(way) and way[place + 1].field == "decorator_list")
    ]
    return ".".join(names) or None


def enclosing_class(way: list[Step]) -> ast.ClassDef | None:
    """Return the class whose method holds the position, if it is a direct one."""
    found: ast.ClassDef | None = None
    for step in way:
        if isinstance(step.child, ast.ClassDef):
            found = step.child
    return found


def use_at(module: Module, line: int, start: int, end: int) -> tuple[list[Step], Use]:
    """Return the way to what stands at bytes ``start`` to ``end`` of a line, and how it is used."""
    column = _name_start(module.lines[line - 1], start, end)
    way = _climb(steps_to(module, line, column), line, end)
    if _in_comment(module, line, column):
        return way, Use("mention", in_code=False)
    node = way[-1].child if way else module.tree
    if isinstance(node, ast.Constant | ast.JoinedStr):
        return way, _use_in_text(way)
    if isinstance(node, ast.arg | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return way, Use("definition")
    return way, _use_of_name(way)


def text_of(node: ast.expr) -> str:
    """Return ``ast.unparse(node)``, which takes its time, of dotted names at once."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
        return f"{text_of(node.value)}.{node.attr}"
    return ast.unparse(node)


def statement_at(way: list[Step]) -> ast.stmt | None:
    """Return the innermost statement on a way."""
    return next((s.child for s in reversed(way) if isinstance(s.child, ast.stmt)), None)


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


def _fields(node: ast.AST) -> tuple[str, ...]:
    """Return the fields of a node, statements first: most positions lie in them, and they are sorted."""
    kind = type(node)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(sorted(kind._fields, key=lambda name: name not in _BODIES))
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


def _name_start(line: bytes, start: int, end: int) -> int:
    """Return where to look: past leading punctuation of a match such as ``.name`` or ``--name``."""
    while start < end - 1 and not line[start : start + 1].isalnum() and line[start : start + 1] != b"_":
        start += 1
    return start


def _in_comment(module: Module, line: int, column: int) -> bool:
    """Tell whether a ``#`` outside of strings stands before the position on its line."""
    text = module.lines[line - 1]
    place = text.find(b"#")
    while 0 <= place <= column:
        inside = steps_to(module, line, place)
        if not inside or not isinstance(inside[-1].child, ast.Constant | ast.JoinedStr):
            return True
        place = text.find(b"#", place + 1)
    return False


def _use_in_text(way: list[Step]) -> Use:
    holder = way[-1].parent
    if isinstance(holder, ast.Expr):
        return Use("mention", in_code=False)
    if isinstance(holder, ast.Call) and _called(holder) in ("add_argument", "Argument", "Option"):
        return Use("definition")
    if isinstance(holder, ast.Call) and _called(holder) == "setattr" and way[-1].index == 1:
        return Use("write", constant(holder.args[2]) if len(holder.args) > 2 else UNKNOWN)
    if isinstance(holder, ast.Call) and _called(holder) in ("getattr", "hasattr") and way[-1].index == 1:
        return Use("read")
    return Use("mention")


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _use_of_name(way: list[Step]) -> Use:
    """Tell from the name at the end of a way, and from what holds it, whether it is written or read."""
    node = way[-1].child if way else None
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Store | ast.Del):
        return Use("read")
    statement = statement_at(way)
    in_function = any(isinstance(s.child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) for s in way)
    if isinstance(node, ast.Name) and not in_function:
        return Use("definition", write_value(statement))
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return Use("definition")
    return Use("write", write_value(statement))


def _climb(way: list[Step], line: int, end: int) -> list[Step]:
    """Cut a way back to the longest dotted name that a match ending at byte ``end`` reaches into."""
    while len(way) > 1:
        above = way[-1].parent
        if not isinstance(above, ast.Attribute) or above.end_lineno != line:
            break
        if (above.end_col_offset or 0) - len(above.attr.encode()) >= end:
            break
        way = way[:-1]
    return way


def identifier_at(line: bytes, start: int, end: int) -> bytes:
    """Return the whole identifier that the bytes ``start`` to ``end`` are part of."""
    start = _name_start(line, start, end)
    while start > 0 and _IDENTIFIER.fullmatch(line[start - 1 : start]):
        start -= 1
    found = _IDENTIFIER.match(line, start)
    return found.group() if found else b""
