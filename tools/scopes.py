"""Say what stands at a position of a Python file: its symbol, the kind of its use, the value written."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, Literal

from tools.statements import UNKNOWN, constant, write_value
from tools.syntax import Module, Step, steps_to

Kind = Literal["write", "read", "definition", "mention"]
"""How a match uses the name: a mention stands in a string or a comment."""
_IDENTIFIER = re.compile(rb"[A-Za-z0-9_\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class Use:
    """Describe one use of a name; ``value`` is the constant that is written, else `UNKNOWN`."""

    kind: Kind
    value: Any = UNKNOWN
    in_code: bool = True
    """False in comments and docstrings, which no condition reaches."""


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


def statement_at(way: list[Step]) -> ast.stmt | None:
    """Return the innermost statement on a way."""
    return next((s.child for s in reversed(way) if isinstance(s.child, ast.stmt)), None)


def identifier_at(line: bytes, start: int, end: int) -> bytes:
    """Return the whole identifier that the bytes ``start`` to ``end`` are part of."""
    start = _name_start(line, start, end)
    while start > 0 and _IDENTIFIER.fullmatch(line[start - 1 : start]):
        start -= 1
    found = _IDENTIFIER.match(line, start)
    return found.group() if found else b""


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
