"""Follow comprehensions, and what generators yield."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from tools.interpreter.base import Base
from tools.interpreter.module import Frame
from tools.interpreter.operators import natively
from tools.interpreter.values import (
    Maybe,
    Stopped,
    Undecided,
    Unknown,
    unknown_of,
)


class Comprehensions(Base):
    """Collect what comprehensions produce."""

    def _ListComp(self, node: ast.ListComp) -> Any:
        return self._collected(node, node.elt, list)

    def _SetComp(self, node: ast.SetComp) -> Any:
        return self._collected(node, node.elt, set)

    def _DictComp(self, node: ast.DictComp) -> Any:
        pair = ast.Tuple(elts=[node.key, node.value], ctx=ast.Load())
        return self._collected(node, pair, dict)

    def _GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        first = self.iterate(self.evaluate(node.generators[0].iter))
        if isinstance(first, Unknown):
            return first
        return self._produced(node.generators, node.elt, self._inner_frame(), first)

    def _collected(self, node: Any, element: ast.expr, kind: Callable[[Any], Any]) -> Any:
        first = self.iterate(self.evaluate(node.generators[0].iter))
        if isinstance(first, Unknown):
            return first
        return natively(
            kind, self._bounded(self._produced(node.generators, element, self._inner_frame(), first))
        )

    def _bounded(self, values: Iterator[Any]) -> Iterator[Any]:
        for count, value in enumerate(values):
            if count > self.limits.items:
                raise Stopped(f"more than {self.limits.items} items")
            yield value

    def _inner_frame(self) -> Frame:
        frame = self.frame
        while frame.is_class and frame.parent is not None:
            frame = frame.parent
        return Frame({}, frame.module, self.frame, self.frame.function)

    def _produced(
        self, generators: list[ast.comprehension], element: ast.expr, frame: Frame, first: Any
    ) -> Iterator[Any]:
        clause, rest = generators[0], generators[1:]
        for item in first:
            if type(item) is Maybe:
                raise Undecided(item.needs)
            outer, self.frame = self.frame, frame
            try:
                self.assign(clause.target, item)
                if not self._kept(clause.ifs):
                    continue
                if rest:
                    inner = self.iterate(self.evaluate(rest[0].iter))
                    if isinstance(inner, Unknown):
                        raise Undecided(inner.needs)
                    found = list(self._produced(rest, element, frame, inner))
                else:
                    found = [self.evaluate(element)]
            finally:
                self.frame = outer
            yield from found

    def _kept(self, tests: list[ast.expr]) -> bool:
        for test in tests:
            found = self.truth(test)
            if isinstance(found, Unknown):
                raise Undecided(found.needs)
            if not found:
                return False
        return True

    # --- generators -------------------------------------------------------------------------------

    def _Yield(self, node: ast.Yield) -> Any:
        value = None if node.value is None else self.evaluate(node.value)
        if self.frame.on_yield is None:
            return unknown_of(need="a value sent to a generator")
        return self.frame.on_yield(value)

    def _YieldFrom(self, node: ast.YieldFrom) -> Any:
        values = self.iterate(self.evaluate(node.value))
        if isinstance(values, Unknown):
            raise Undecided(values.needs)
        for value in values:
            self.frame.on_yield(value)
        return None
