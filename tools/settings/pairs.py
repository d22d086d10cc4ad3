"""Recognise a setting that is changed for a while: saved, overwritten, and restored in the same function."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tools.syntax import Module, Step

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


_LEAST = 3
"""Lines that name the setting in a function that saves, changes and restores it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Hold the role of an assignment in a change for a while, and the lines that save and restore."""

    role: Literal["temporary", "restore"]
    saved: int
    restored: int


@dataclass(frozen=True, slots=True)
class _Write:
    line: int
    last: int
    value: str


def pair_of(module: Module, way: list[Step], attribute: str, line: int) -> Pair | None:
    """Return what part an assignment at a line has in saving and restoring; None when it is for good."""
    block = next((s.parent for s in way if isinstance(s.parent, ast.With) and s.field == "items"), None)
    if block is not None:
        return Pair("temporary", block.lineno, block.end_lineno or block.lineno)
    function = next((s.child for s in reversed(way) if isinstance(s.child, _FUNCTIONS)), None)
    if function is None:
        return None
    first, last = function.lineno - 1, function.end_lineno or function.lineno
    named = [at for at in range(first, last) if attribute.encode() in module.lines[at]]
    if len(named) < _LEAST:
        return None
    key = ("pairs", id(function), attribute)
    if key not in module.memo:
        module.memo[key] = list(_pairs(function, attribute, [at + 1 for at in named]))
    for saved, restored, end in module.memo[key]:
        if restored <= line <= end:
            return Pair("restore", saved, restored)
        if saved < line < restored:
            return Pair("temporary", saved, restored)
    return None


def _pairs(function: ast.AST, attribute: str, named: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the line of each save with the first and last line of the assignment that restores it.

    Only nodes over one of the lines that name the attribute are looked at.
    """
    saves: dict[str, int] = {}
    writes: list[_Write] = []
    for node in _over(function, named):
        if isinstance(node, ast.Assign):
            saves |= _saves(node, attribute)
        writes += _writes(node, attribute)
    for write in writes:
        saved = saves.get(write.value)
        # Without another write in between it is a copy, not a pair.
        if saved is not None and any(saved < other.line < write.line for other in writes):
            yield saved, write.line, write.last


def _over(function: ast.AST, named: list[int]) -> Iterator[ast.AST]:
    """Yield what `ast.walk` does, without what lies on none of some lines."""
    todo = deque([function])
    while todo:
        node = todo.popleft()
        yield node
        for child in ast.iter_child_nodes(node):
            first = getattr(child, "lineno", None)
            if first is None:
                todo.append(child)
                continue
            place = bisect_left(named, first)
            if place < len(named) and named[place] <= (getattr(child, "end_lineno", None) or first):
                todo.append(child)


def _saves(node: ast.Assign, attribute: str) -> dict[str, int]:
    """Return the variables, or parts of them, that keep the attribute's value."""
    found: dict[str, int] = {}
    for target in node.targets:
        if _reads(node.value, attribute):
            found[ast.unparse(target)] = node.lineno
        if isinstance(node.value, ast.Tuple):
            for index, part in enumerate(node.value.elts):
                if not _reads(part, attribute):
                    continue
                if isinstance(target, ast.Tuple) and len(target.elts) == len(node.value.elts):
                    found[ast.unparse(target.elts[index])] = node.lineno
                else:
                    found[f"{ast.unparse(target)}[{index}]"] = node.lineno
    return found


def _reads(node: ast.expr, attribute: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == attribute


def _writes(node: ast.AST, attribute: str) -> Iterator[_Write]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == attribute:
                yield _write(node, node.value)
            elif isinstance(target, ast.Tuple):
                yield from _unpacked(node, target, attribute)
    elif isinstance(node, ast.Call):
        yield from _called_writes(node, attribute)


def _called_writes(node: ast.Call, attribute: str) -> Iterator[_Write]:
    for keyword in node.keywords:
        if keyword.arg == attribute:
            yield _write(keyword, keyword.value)
        elif keyword.arg is None:
            yield from _spread(keyword.value, attribute)
    if len(node.args) == 3 and getattr(node.func, "id", "") == "setattr":
        name = node.args[1]
        if isinstance(name, ast.Constant) and name.value == attribute:
            yield _write(node, node.args[2])


def _spread(value: ast.expr, attribute: str) -> Iterator[_Write]:
    for node in ast.walk(value):
        if isinstance(node, ast.Dict):
            for key, entry in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == attribute:
                    yield _write(node, entry)


def _unpacked(node: ast.Assign, target: ast.Tuple, attribute: str) -> Iterator[_Write]:
    for index, part in enumerate(target.elts):
        if not isinstance(part, ast.Attribute) or part.attr != attribute:
            continue
        if isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(target.elts):
            yield _write(node, node.value.elts[index])
        else:
            yield _Write(node.lineno, node.end_lineno or node.lineno, f"{ast.unparse(node.value)}[{index}]")


def _write(node: ast.expr | ast.stmt | ast.keyword, value: ast.expr) -> _Write:
    return _Write(node.lineno, node.end_lineno or node.lineno, ast.unparse(value))
