"""Make a file readable whose syntax is newer than our Python: blank out what cannot be parsed, keep the rest.

Lines and columns of what stays are those of the file.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tools.syntax import collector_paused

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Lines = tuple[int, int]
MAX_BYTES: Final = 2 << 20
"""Larger files that cannot be parsed are given up: they are no settings."""
_BLOCKS: Final = frozenset({"module", "block", "decorated_definition"})
_COMPOUND: Final = frozenset(
    {
        "class_definition",
        "function_definition",
        "decorated_definition",
        "if_statement",
        "elif_clause",
        "else_clause",
        "for_statement",
        "while_statement",
        "try_statement",
        "except_clause",
        "except_group_clause",
        "finally_clause",
        "with_statement",
        "match_statement",
        "case_clause",
    }
)


@functools.cache
def _parser() -> Parser:
    import tree_sitter_python
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_python.language()))


def salvage(data: bytes) -> tuple[bytes, tuple[Lines, ...]]:
    """Return the text with unreadable statements blanked, and their lines; none when nothing can be saved."""
    if len(data) > MAX_BYTES or b"\x00" in data:
        return data, ()
    text = bytearray(data)
    root = _parser().parse(data).root_node
    left_out: list[Lines] = []
    for node in _type_parameters(root):
        _blank(text, node.start_byte, node.end_byte)
        left_out.append(_lines(node))
    with collector_paused():
        if not _reads(bytes(text)):
            _repair(text, root, left_out)
            if not _reads(bytes(text)):
                return data, ()
    return bytes(text), tuple(sorted(set(left_out)))


def _repair(text: bytearray, block: Node, left_out: list[Lines]) -> None:
    """Blank the statements of a block that cannot be parsed, as few and as small as can be."""
    for statement in block.named_children:
        if statement.type == "comment" or _reads(_alone(text, statement)):
            continue
        if statement.type in _COMPOUND:
            for inner in _inner_blocks(statement):
                _repair(text, inner, left_out)
            if _reads(_alone(text, statement)):
                continue
        _replace(text, statement)
        left_out.append(_lines(statement))


def _inner_blocks(statement: Node) -> Iterator[Node]:
    """Yield the blocks of a compound statement, clauses and decorated definitions included."""
    for child in statement.named_children:
        if child.type == "block":
            yield child
        elif child.type in _COMPOUND:
            yield from _inner_blocks(child)


def _alone(text: bytearray, statement: Node) -> bytes:
    """Return a statement as a module of its own; what stands deeper is put below an ``if``."""
    part = bytes(text[statement.start_byte : statement.end_byte])
    column = statement.start_point[1]
    if not column:
        return part
    # A function around it allows return, yield and await; a loop allows break and continue.
    head = b"async def _():\n while 1:\n" if column > 1 else b"if 1:\n"
    return head + b" " * column + part


def _reads(part: bytes) -> bool:
    try:
        ast.parse(part)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _replace(text: bytearray, statement: Node) -> None:
    """Put a statement that does nothing in the place of another, whose lines stay."""
    start, end = statement.start_byte, statement.end_byte
    _blank(text, start, end)
    text[start : start + 1] = b"0"


def _blank(text: bytearray, start: int, end: int) -> None:
    for place in range(start, end):
        if text[place] not in b"\r\n":
            text[place] = 0x20


def _type_parameters(root: Node) -> Iterator[Node]:
    """Yield the ``[T]`` of classes and functions, without which the definition is readable."""
    todo = [root]
    while todo:
        node = todo.pop()
        if node.type in ("class_definition", "function_definition"):
            found = node.child_by_field_name("type_parameters")
            if found is not None:
                yield found
        if node.type in _BLOCKS or node.type in _COMPOUND or node.type == "ERROR":
            todo.extend(node.named_children)


def _lines(node: Node) -> Lines:
    return node.start_point[0] + 1, node.end_point[0] + 1
