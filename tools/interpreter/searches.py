"""Loops that look for the first of many pairs whose dict holds a name: only pairs that decide are followed.

Engines keep what they declare as a list of ``(source, fields)``, and go through it for every setting.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from tools.interpreter.base import Base
from tools.interpreter.values import Maybe

_PLAIN: Final[tuple[type[Any], ...]] = (type(iter([])), type(reversed([])))


class Searches(Base):
    """Leave out rounds that change nothing."""

    def deciding(self, node: ast.For, values: Iterator[Any]) -> Iterator[Any]:
        """Return the items of a loop whose rounds matter; all of them where it is no search."""
        name = _sought(node)
        if not name or not isinstance(values, _PLAIN):
            return values
        items = list(values)
        key = self.lookup(name)
        return iter(self._matter(items, key)) if isinstance(key, str) else iter(items)

    def _matter(self, items: list[Any], key: str) -> list[Any]:
        """Return the first item, those that hold the key up to one that surely does, else the last ones."""
        kept: list[int] = []
        for place, item in enumerate(items):
            table = self._table(item)
            if table is None:
                return items
            if key in table:
                kept.append(place)
                if not isinstance(item, Maybe) and not isinstance(table[key], Maybe):
                    return [items[at] for at in sorted({0, *kept})]
        sure = [place for place, item in enumerate(items) if not isinstance(item, Maybe)]
        last = sure[-1] if sure else 0
        return [items[at] for at in sorted({*range(min(1, len(items))), *kept, *range(last, len(items))})]

    def _table(self, item: Any) -> dict[Any, Any] | None:
        pair = item.value if isinstance(item, Maybe) else item
        if type(pair) is not tuple or len(pair) != 2 or type(pair[1]) is not dict:
            return None
        return pair[1] if self.journal.tainted(pair[1]) is None else None


def _sought(node: ast.For) -> str:
    """Return the name of what a loop looks for, ``""`` when it does more than that."""
    found: str | None = getattr(node, "_leadline_sought", None)
    if found is None:
        found = node._leadline_sought = _read(node)  # type: ignore[attr-defined]
    return found


def _read(node: ast.For) -> str:
    match node:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=table)]),
            body=[
                ast.If(
                    test=ast.Compare(
                        left=ast.Name(id=key), ops=[ast.In()], comparators=[ast.Name(id=looked_in)]
                    ),
                    body=[ast.Return(value=ast.Subscript(value=ast.Name(id=given), slice=ast.Name(id=by)))],
                    orelse=[],
                )
            ],
            orelse=[],
        ) if looked_in == given == table and key == by and key not in (first, table):
            return key
    return ""
