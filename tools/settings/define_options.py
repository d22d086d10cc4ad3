"""Read the command-line options that a parser-building function declares, without running it.

The function is walked statement by statement: groups, helper functions that are given the parser, loops over
tables, keyword dictionaries made from a class's fields and changed on the way. What the source does not
decide is kept in its words (`Said`); of a branch that is not decided, both sides are read.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from tools.settings.define_calls import Calls, Special
from tools.settings.define_fields import Fields
from tools.settings.define_frames import (
    PARSER,
    Class,
    Declared,
    Frame,
    Function,
    Said,
    is_plain,
    own_parameters,
)
from tools.settings.define_values import written

__all__ = ["PARSER", "Declared", "OptionReader", "Said", "Special"]

MAX_STEPS: Final = 60_000
"""Statements that are walked for one parser; a loop without end stops here."""
_DEPTH: Final = 12


class OptionReader(Calls):
    """Walk one function that builds a parser, and those it calls; ``found`` holds what they declare."""

    def __init__(self, fields: Fields, special: dict[str, Special] | None = None) -> None:
        super().__init__(fields, special)
        self._steps = 0
        self._deep = 0

    @property
    def partial(self) -> bool:
        """Tell whether the walk ended at its bound."""
        return self._steps >= MAX_STEPS

    def read(self, path: str, function: ast.FunctionDef, cls: Class | None = None) -> None:
        """Walk a function whose parameter, but for ``cls``, is the parser."""
        named = Function(path, function, cls, cls)
        given = [argument.arg for argument, default in own_parameters(named) if default is None]
        self.run(named, dict.fromkeys(given, PARSER))

    def run(self, function: Function, names: dict[str, Any]) -> Any:
        """Walk a function with its parameters bound; return what it returns."""
        if self._deep >= _DEPTH:
            return Said("...")
        self._deep += 1
        frame = Frame(function, names)
        for argument, default in own_parameters(function):
            if argument.arg not in frame.names and default is not None:
                frame.names[argument.arg] = self._plain(frame, default)
        self._walk(frame, function.node.body)
        self._deep -= 1
        return frame.result

    def _walk(self, frame: Frame, body: list[ast.stmt]) -> None:
        for statement in body:
            self._steps += 1
            if self._steps >= MAX_STEPS:
                return
            way = _STATEMENTS.get(type(statement))
            if way is not None:
                getattr(self, way)(frame, statement)

    def _expression(self, frame: Frame, statement: ast.Expr) -> None:
        self.value(frame, statement.value)

    def _return(self, frame: Frame, statement: ast.Return) -> None:
        if statement.value is not None:
            frame.result = self.value(frame, statement.value)

    def _define(self, frame: Frame, statement: ast.FunctionDef) -> None:
        frame.names[statement.name] = Function(frame.path, statement, frame.function.cls)

    def _assign(self, frame: Frame, statement: ast.Assign | ast.AnnAssign) -> None:
        if statement.value is None:
            return
        value = self.value(frame, statement.value)
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            self._bind(frame, target, value)

    def _bind(self, frame: Frame, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            before = frame.names.get(target.id, value)
            same = not frame.undecided or before is value or before == value
            frame.names[target.id] = value if same else Said(target.id)
        elif isinstance(target, ast.Subscript):
            held, at = self.value(frame, target.value), self.value(frame, target.slice)
            if isinstance(held, dict) and isinstance(at, str):
                held[at] = Said(written(target)) if frame.undecided and at in held else value
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value if isinstance(value, list | tuple) else []
            for place, part in enumerate(target.elts):
                self._bind(frame, part, parts[place] if place < len(parts) else Said(written(part)))

    def _change(self, frame: Frame, statement: ast.AugAssign) -> None:
        self._bind(frame, statement.target, Said(written(statement.target)))

    def _delete(self, frame: Frame, statement: ast.Delete) -> None:
        for target in statement.targets:
            if isinstance(target, ast.Subscript):
                held, at = self.value(frame, target.value), self.value(frame, target.slice)
                if isinstance(held, dict) and isinstance(at, str):
                    held.pop(at, None)

    def _branch(self, frame: Frame, statement: ast.If) -> None:
        test = self.value(frame, statement.test)
        if not isinstance(test, Said) and not (isinstance(test, list | dict) and not is_plain(test)):
            self._walk(frame, statement.body if test else statement.orelse)
            return
        frame.undecided += 1
        self._walk(frame, statement.body)
        self._walk(frame, statement.orelse)
        frame.undecided -= 1

    def _loop(self, frame: Frame, statement: ast.For) -> None:
        over = self.value(frame, statement.iter)
        if isinstance(over, dict):
            over = list(over)
        if not isinstance(over, list | tuple | set | frozenset):
            over = self.static.elements(frame.path, statement.iter) or [Said(written(statement.target))]
        for each in list(over):
            self._bind(frame, statement.target, each)
            self._walk(frame, statement.body)

    def _within(self, frame: Frame, statement: ast.With | ast.Try) -> None:
        self._walk(frame, statement.body)
        self._walk(frame, getattr(statement, "orelse", []))
        self._walk(frame, getattr(statement, "finalbody", []))


_STATEMENTS: Final[dict[type, str]] = {
    ast.Expr: "_expression",
    ast.Return: "_return",
    ast.FunctionDef: "_define",
    ast.Assign: "_assign",
    ast.AnnAssign: "_assign",
    ast.AugAssign: "_change",
    ast.Delete: "_delete",
    ast.If: "_branch",
    ast.For: "_loop",
    ast.With: "_within",
    ast.Try: "_within",
}
