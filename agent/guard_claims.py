"""Judge again, from the stored source alone, whether a condition lets a statement run.

This reads the source with ``ast`` and knows nothing of the code that judged it for the model. There are three
values: what the facts do not decide stays unknown (None).
"""

from __future__ import annotations

import ast
import operator
import re
import textwrap
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agent.named_values import Literal, plain_name
from agent.quotes import Found, StoredText
from tools.contract import ToolError

Truth = bool | None
_OWNERS = frozenset(
    {"self", "cls", "args", "server_args", "config", "model_config", "cfg", "options", "params"}
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Source:
    """Hold parsed source and how its line numbers relate to the file's."""

    tree: ast.Module
    rows: list[bytes]
    shift: int

    def text(self, node: ast.expr) -> str:
        """Return the source of an expression; `ast.get_source_segment` splits the whole file each time."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        rows = self.rows[first : last + 1]
        rows[-1] = rows[-1][: node.end_col_offset]
        rows[0] = rows[0][node.col_offset :]
        return b"\n".join(rows).decode("utf-8", "replace")

    def lines(self, node: ast.AST) -> tuple[int, int]:
        """Return the first and last line of a node, as the file counts them."""
        first = getattr(node, "lineno", 0)
        return first + self.shift, (getattr(node, "end_lineno", None) or first) + self.shift


@dataclass(frozen=True, slots=True)
class Guard:
    """Hold a statement that decides whether another runs, and how: by a branch taken, or by not leaving."""

    node: ast.If | ast.While | ast.Assert
    way: str
    """``body`` or ``orelse``: the branch the statement is in; ``before``: it comes first and may leave."""
    tests: Sequence[ast.expr]


def parse(stored: StoredText) -> Source:
    """Parse a whole file, or a range of one as far as it stands on its own; `ToolError` when it does not."""
    return _parsed(stored.raw, stored.first_line)


@lru_cache(maxsize=4)
def _parsed(raw: str, first_line: int) -> Source:
    """Parse a text; the last few are kept, since the claims of a conclusion, and of the next, share files."""
    for text, added in _readings(raw):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return Source(
                    ast.parse(text),
                    text.encode("utf-8", "replace").split(b"\n"),
                    first_line - 1 - added,
                )
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    raise ToolError("the cited output is not Python that can be parsed; cite the whole function or file")


def _readings(raw: str) -> Iterator[tuple[str, int]]:
    """Yield the text in forms that may parse, with the number of lines put before it."""
    yield raw, 0
    yield textwrap.dedent(raw), 0
    lines = raw.rstrip().split("\n")
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    if not indents:
        return
    outer = sorted({indent for indent in indents if indent < indents[0]})
    if not outer or outer[0] > 0:
        outer = [0, *outer]
    wrapped = [" " * indent + "if _:" for indent in outer if indent < indents[0]]
    for cut in range(min(12, len(lines))):
        kept = lines[: len(lines) - cut]
        yield "\n".join([*wrapped, *kept]), len(wrapped)


def guards(source: Source, statement: Found) -> list[Guard]:
    """Return what decides, inside its function, whether the statement is reached."""
    way = _way_to(source, statement.lines[1])
    for index in reversed(range(len(way))):
        if isinstance(way[index][0], _FUNCTIONS):
            way = way[index:]
            break
    found: list[Guard] = []
    for parent, name, child in way:
        if isinstance(parent, ast.If | ast.While) and name in {"body", "orelse"}:
            found.append(Guard(parent, name, [parent.test]))
        body = getattr(parent, name)
        if isinstance(body, list):
            found += [_leaving(node) for node in body[: body.index(child)] if _may_leave(node)]
    return found


def _leaving(node: ast.stmt) -> Guard:
    assert isinstance(node, ast.If | ast.While | ast.Assert)
    tests = [inner.test for inner in ast.walk(node) if isinstance(inner, ast.If | ast.While | ast.Assert)]
    return Guard(node, "before", tests)


def _may_leave(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assert):
        return True
    return isinstance(node, ast.If) and any(
        isinstance(inner, (*_LEAVES, ast.Assert)) for inner in ast.walk(node)
    )


def _way_to(source: Source, line: int) -> list[tuple[ast.AST, str, ast.AST]]:
    """Return the steps (parent, field, child) from the module to the innermost statement on a line."""
    way: list[tuple[ast.AST, str, ast.AST]] = []
    node: ast.AST = source.tree
    while True:
        step = next(
            (
                (node, name, child)
                for name, value in ast.iter_fields(node)
                if isinstance(value, list)
                for child in _from_line(source, value, line)
                if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
                and _holds(source, child, line)
            ),
            None,
        )
        if step is None:
            return way
        way.append(step)
        node = step[2]


def _from_line(source: Source, nodes: list[ast.AST], line: int) -> list[ast.AST]:
    """Return the nodes of a list that do not end before a line; statements are in the order of theirs."""
    if not nodes or not isinstance(nodes[0], ast.stmt):
        return nodes
    return nodes[bisect_left(nodes, line, key=lambda node: source.lines(node)[1]) :]


def _holds(source: Source, node: ast.AST, line: int) -> bool:
    if isinstance(node, ast.match_case):
        return any(_holds(source, child, line) for child in node.body)
    first, last = source.lines(node)
    return first <= line <= last


def quoted(source: Source, guard: Guard, condition: Found) -> bool:
    """Tell whether the quote holds one of the guard's tests whole, where it stands."""
    for test in guard.tests:
        first, last = source.lines(test)
        if condition.lines[0] <= first and last <= condition.lines[1]:
            segment = _bare(source.text(test))
            if segment and segment in _bare(condition.raw):
                return True
    return False


def _bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


def verdict(guard: Guard, facts: Mapping[str, Literal]) -> Truth:
    """Return whether the guard lets the statement run under the facts; None when they do not decide it."""
    if guard.way == "before":
        return _passes([guard.node], facts)
    held = truth(getattr(guard.node, "test"), facts)  # noqa: B009
    return held if guard.way == "body" or held is None else not held


def _passes(body: Sequence[ast.stmt], facts: Mapping[str, Literal]) -> Truth:
    """Return whether control comes out at the end of a block."""
    return _all([_one_passes(node, facts) for node in body])


def _one_passes(node: ast.stmt, facts: Mapping[str, Literal]) -> Truth:
    if isinstance(node, _LEAVES):
        return False
    if isinstance(node, ast.Assert):
        return truth(node.test, facts)
    if isinstance(node, ast.If):
        then, other = _passes(node.body, facts), _passes(node.orelse, facts)
        held = truth(node.test, facts)
        if held is None:
            return then if then == other else None
        return then if held else other
    leaves = any(isinstance(inner, (*_LEAVES, ast.Assert)) for inner in ast.walk(node))
    return None if leaves and not isinstance(node, (*_FUNCTIONS, ast.ClassDef)) else True


def truth(node: ast.expr, facts: Mapping[str, Literal]) -> Truth:
    """Return the truth of a condition: truthiness, not/and/or, comparisons, `in`; None if unknown."""
    if isinstance(node, ast.BoolOp):
        parts = [truth(value, facts) for value in node.values]
        if isinstance(node.op, ast.And):
            return _all(parts)
        opposite = _all([None if part is None else not part for part in parts])
        return None if opposite is None else not opposite
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = truth(node.operand, facts)
        return None if inner is None else not inner
    if isinstance(node, ast.Compare):
        return _compare(node, facts)
    value = _value(node, facts)
    return None if value is _UNKNOWN else bool(value)


def _all(parts: Sequence[Truth]) -> Truth:
    if any(part is False for part in parts):
        return False
    return None if any(part is None for part in parts) else True


def _compare(node: ast.Compare, facts: Mapping[str, Literal]) -> Truth:
    values = [_value(part, facts) for part in (node.left, *node.comparators)]
    results: list[Truth] = []
    for index, compared in enumerate(node.ops):
        left, right = values[index], values[index + 1]
        if left is _UNKNOWN or right is _UNKNOWN:
            results.append(None)
            continue
        try:
            results.append(bool(_COMPARE[type(compared)](left, right)))
        except TypeError:
            results.append(None)
    return _all(results)


def _value(node: ast.expr, facts: Mapping[str, Literal]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(node.operand, facts)
        return -inner if isinstance(inner, int | float) else _UNKNOWN
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        parts = [_value(part, facts) for part in node.elts]
        return _UNKNOWN if any(part is _UNKNOWN for part in parts) else parts
    name = fact_name(node, facts)
    return _UNKNOWN if name is None else facts[name]


def fact_name(node: ast.expr, facts: Mapping[str, Literal]) -> str | None:
    """Return the fact a name stands for: by its dotted name, or as a field of the arguments."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    dotted = ast.unparse(node)
    if dotted in facts:
        return dotted
    owner, _, last = dotted.rpartition(".")
    if owner and owner.rpartition(".")[2] not in _OWNERS:
        return None
    return plain_name(last) if plain_name(last) in facts else None
