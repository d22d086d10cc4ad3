"""Read the command-line options that a parser-building function declares, without running it.

The function is walked statement by statement: groups, helper functions that are given the parser, loops over
tables, keyword dictionaries made from a class's fields and changed on the way. What the source does not decide
is kept in its words (`Said`); of a branch that is not decided, both sides are read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tools.scopes import UNKNOWN
from tools.settings.define_fields import Fields, parameters

Class = tuple[str, ast.ClassDef]
MAX_STEPS: Final = 60_000
"""Statements that are walked for one parser; a loop without end stops here."""
_DEPTH: Final = 12
_GROUPS: Final = frozenset(
    {"add_argument_group", "add_mutually_exclusive_group", "add_parser", "add_subparsers"}
)


@dataclass(frozen=True, slots=True)
class Said:
    """Hold what is not known as a value, in the source's words."""

    text: str

    @property
    def name(self) -> str:
        """Return the last name of it: ``argparse.BooleanOptionalAction`` is ``BooleanOptionalAction``."""
        return self.text.rpartition(".")[2]


class _Parser:
    """Stand for the parser and its groups."""


PARSER: Final = _Parser()


@dataclass(frozen=True, slots=True)
class Declared:
    """Hold one ``add_argument`` call: its names and keywords, each a plain value or `Said`."""

    names: tuple[str, ...]
    keywords: dict[str, Any]
    path: str
    node: ast.AST
    owner: str
    opaque: bool = False
    """True when further keywords come from something that could not be followed."""


@dataclass(frozen=True, slots=True)
class _Function:
    path: str
    node: ast.FunctionDef
    cls: Class | None = None
    """The class that a ``cls`` in it is."""
    defining: Class | None = None


@dataclass(slots=True)
class _Frame:
    """Hold the local names of one function that is being walked."""

    function: _Function
    names: dict[str, Any]
    undecided: int = 0
    result: Any = field(default_factory=lambda: Said("None"))

    @property
    def path(self) -> str:
        return self.function.path


Special = Callable[["OptionReader", _Frame, ast.Call], Any]


class OptionReader:
    """Walk one function that builds a parser, and those it calls; ``found`` holds what they declare."""

    def __init__(self, fields: Fields, special: dict[str, Special] | None = None) -> None:
        self.fields = fields
        self.static = fields.static
        self.values = fields.static.values
        self.special = special or {}
        self.found: list[Declared] = []
        self.unread: list[tuple[str, int]] = []
        """Where an option is declared whose name could not be worked out."""
        self._steps = 0
        self._deep = 0

    @property
    def partial(self) -> bool:
        """Tell whether the walk ended at its bound."""
        return self._steps >= MAX_STEPS

    def read(self, path: str, function: ast.FunctionDef, cls: Class | None = None) -> None:
        """Walk a function whose parameter, but for ``cls``, is the parser."""
        named = _Function(path, function, cls, cls)
        given = [argument.arg for argument, default in _own_parameters(named) if default is None]
        self._run(named, dict.fromkeys(given, PARSER))

    def declare(self, frame: _Frame, names: Iterator[str], keywords: dict[str, Any], node: ast.AST) -> None:
        """Add an option that a function declares by another way than a call of ``add_argument``."""
        self.found.append(Declared(tuple(names), keywords, frame.path, node, self._owner(frame)))

    def class_of(self, frame: _Frame, node: ast.expr) -> Class | None:
        """Return the class that an expression in a function names, ``cls`` included."""
        if isinstance(node, ast.Name) and node.id in ("cls", "self") and node.id not in frame.names:
            return frame.function.cls
        return self.values.cls(frame.path, node)

    def value(self, frame: _Frame, node: ast.expr) -> Any:
        """Return an expression's value: plain, `Said`, the parser, or a container of these."""
        if isinstance(node, ast.Name) and node.id in frame.names:
            return frame.names[node.id]
        if isinstance(node, ast.Call):
            return self._call(frame, node)
        if isinstance(node, ast.Dict):
            return self._dict(frame, node)
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(frame, part) for part in node.elts]
        if isinstance(node, ast.Subscript):
            held, at = self.value(frame, node.value), self.value(frame, node.slice)
            if isinstance(held, dict) and isinstance(at, str) and at in held:
                return held[at]
        return self._plain(frame, node)

    def _plain(self, frame: _Frame, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & frame.names.keys()
        names = {name: frame.names[name] if _is_plain(frame.names[name]) else UNKNOWN for name in used}
        value = self.static.value(frame.path, node, names)
        return Said(ast.unparse(node)) if value is UNKNOWN else value

    def _dict(self, frame: _Frame, node: ast.Dict) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            held = self.value(frame, value)
            if key is None:
                if not isinstance(held, dict):
                    return Said(ast.unparse(node))
                found |= held
                continue
            at = self.value(frame, key)
            if isinstance(at, str | int):
                found[at] = held
        return found

    def _run(self, function: _Function, names: dict[str, Any]) -> Any:
        if self._deep >= _DEPTH:
            return Said("...")
        self._deep += 1
        frame = _Frame(function, names)
        for argument, default in _own_parameters(function):
            if argument.arg not in frame.names and default is not None:
                frame.names[argument.arg] = self._plain(frame, default)
        self._walk(frame, function.node.body)
        self._deep -= 1
        return frame.result

    def _walk(self, frame: _Frame, body: list[ast.stmt]) -> None:
        for statement in body:
            self._steps += 1
            if self._steps >= MAX_STEPS:
                return
            way = _STATEMENTS.get(type(statement))
            if way is not None:
                getattr(self, way)(frame, statement)

    def _expression(self, frame: _Frame, statement: ast.Expr) -> None:
        self.value(frame, statement.value)

    def _return(self, frame: _Frame, statement: ast.Return) -> None:
        if statement.value is not None:
            frame.result = self.value(frame, statement.value)

    def _define(self, frame: _Frame, statement: ast.FunctionDef) -> None:
        frame.names[statement.name] = _Function(frame.path, statement, frame.function.cls)

    def _assign(self, frame: _Frame, statement: ast.Assign | ast.AnnAssign) -> None:
        if statement.value is None:
            return
        value = self.value(frame, statement.value)
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            self._bind(frame, target, value)

    def _bind(self, frame: _Frame, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            before = frame.names.get(target.id, value)
            same = not frame.undecided or before is value or before == value
            frame.names[target.id] = value if same else Said(target.id)
        elif isinstance(target, ast.Subscript):
            held, at = self.value(frame, target.value), self.value(frame, target.slice)
            if isinstance(held, dict) and isinstance(at, str):
                held[at] = Said(ast.unparse(target)) if frame.undecided and at in held else value
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value if isinstance(value, list | tuple) else []
            for place, part in enumerate(target.elts):
                self._bind(frame, part, parts[place] if place < len(parts) else Said(ast.unparse(part)))

    def _change(self, frame: _Frame, statement: ast.AugAssign) -> None:
        self._bind(frame, statement.target, Said(ast.unparse(statement.target)))

    def _delete(self, frame: _Frame, statement: ast.Delete) -> None:
        for target in statement.targets:
            if isinstance(target, ast.Subscript):
                held, at = self.value(frame, target.value), self.value(frame, target.slice)
                if isinstance(held, dict) and isinstance(at, str):
                    held.pop(at, None)

    def _branch(self, frame: _Frame, statement: ast.If) -> None:
        test = self.value(frame, statement.test)
        if not isinstance(test, Said) and not (isinstance(test, list | dict) and not _is_plain(test)):
            self._walk(frame, statement.body if test else statement.orelse)
            return
        frame.undecided += 1
        self._walk(frame, statement.body)
        self._walk(frame, statement.orelse)
        frame.undecided -= 1

    def _loop(self, frame: _Frame, statement: ast.For) -> None:
        over = self.value(frame, statement.iter)
        if isinstance(over, dict):
            over = list(over)
        if not isinstance(over, list | tuple | set | frozenset):
            over = self.static.elements(frame.path, statement.iter) or [Said(ast.unparse(statement.target))]
        for each in list(over):
            self._bind(frame, statement.target, each)
            self._walk(frame, statement.body)

    def _within(self, frame: _Frame, statement: ast.With | ast.Try) -> None:
        self._walk(frame, statement.body)
        self._walk(frame, getattr(statement, "orelse", []))
        self._walk(frame, getattr(statement, "finalbody", []))

    def _call(self, frame: _Frame, node: ast.Call) -> Any:
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called == "add_argument":
            self._add_argument(frame, node)
            return Said(ast.unparse(node.func))
        if called in self.special:
            return self.special[called](self, frame, node)
        if isinstance(node.func, ast.Attribute):
            if called in _GROUPS and self.value(frame, node.func.value) is PARSER:
                return PARSER
            if called in _DICT_METHODS:
                held = self.value(frame, node.func.value)
                if isinstance(held, dict | list | set):
                    return self._method(frame, node, held, called)
        arguments = [self.value(frame, each) for each in node.args if not isinstance(each, ast.Starred)]
        keywords = {k.arg: self.value(frame, k.value) for k in node.keywords if k.arg}
        if called in ("deepcopy", "copy", "dict") and len(arguments) == 1 and isinstance(arguments[0], dict):
            return {key: dict(v) if isinstance(v, dict) else v for key, v in arguments[0].items()}
        if called == "dict" and not arguments and not any(k.arg is None for k in node.keywords):
            return keywords
        if any(each is PARSER or isinstance(each, dict) for each in [*arguments, *keywords.values()]):
            function = self._function(frame, node.func)
            if function is not None:
                names = [argument.arg for argument, _ in _own_parameters(function)]
                return self._run(function, {**dict(zip(names, arguments, strict=False)), **keywords})
            return PARSER if PARSER in arguments and len(arguments) == 1 else Said(ast.unparse(node))
        return self._plain(frame, node)

    def _method(self, frame: _Frame, node: ast.Call, held: Any, called: str) -> Any:
        """Do what a method of a dictionary, list or set does to what is held of it."""
        given = [self.value(frame, each) for each in node.args]
        if called in ("items", "values", "keys") and isinstance(held, dict):
            return {"items": [list(pair) for pair in held.items()], "values": list(held.values())}.get(
                called, list(held)
            )
        if called in ("pop", "get") and isinstance(held, dict) and given and isinstance(given[0], str):
            absent = given[1] if len(given) > 1 else None
            return held.pop(given[0], absent) if called == "pop" else held.get(given[0], absent)
        if called == "update" and isinstance(held, dict):
            for more in [*given, {k.arg: self.value(frame, k.value) for k in node.keywords if k.arg}]:
                held.update(more if isinstance(more, dict) else {})
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            if called in ("append", "add", "extend", "insert", "remove", "discard"):
                frame.names[node.func.value.id] = Said(node.func.value.id)
        return Said(ast.unparse(node))

    def _function(self, frame: _Frame, node: ast.expr) -> _Function | None:
        """Return the function of the package that a call reaches."""
        if isinstance(node, ast.Name):
            local = frame.names.get(node.id)
            if isinstance(local, _Function):
                return local
            place = self.values.place(frame.path, node)
            if place is not None and isinstance(place[1], ast.FunctionDef):
                return _Function(place[0], place[1])
            return None
        if not isinstance(node, ast.Attribute):
            return None
        is_super = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
        if is_super:
            return self._method_of(frame.function.cls, node.attr, after=frame.function.defining)
        found = self._method_of(self.class_of(frame, node.value), node.attr)
        if found is not None:
            return found
        place = self.values.place(frame.path, node)
        if place is not None and isinstance(place[1], ast.FunctionDef):
            return _Function(place[0], place[1])
        return None

    def _method_of(self, cls: Class | None, name: str, after: Class | None = None) -> _Function | None:
        """Return a method of a class or of its bases; with ``after``, of those that follow that one."""
        if cls is None:
            return None
        passed = after is None
        for where, each in self.values.bases(*cls):
            if passed:
                for statement in each.body:
                    if isinstance(statement, ast.FunctionDef) and statement.name == name:
                        return _Function(where, statement, cls, (where, each))
            passed = passed or (after is not None and each is after[1])
        return None

    def _add_argument(self, frame: _Frame, node: ast.Call) -> None:
        names: list[Any] = []
        for each in node.args:
            given = self.value(frame, each.value if isinstance(each, ast.Starred) else each)
            names += given if isinstance(each, ast.Starred) and isinstance(given, list | tuple) else [given]
        keywords: dict[str, Any] = {}
        opaque = False
        for keyword in node.keywords:
            value = self.value(frame, keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords |= value
            else:
                opaque = True
        plain = tuple(name for name in names if isinstance(name, str))
        if not plain:
            self.unread.append((frame.path, node.lineno))
            return
        self.found.append(Declared(plain, keywords, frame.path, node, self._owner(frame), opaque))

    def _owner(self, frame: _Frame) -> str:
        """Return the class whose options these are, else the function that declares them."""
        cls = frame.function.cls
        return cls[1].name if cls is not None else frame.function.node.name


_DICT_METHODS: Final = frozenset(
    {
        "items",
        "values",
        "keys",
        "pop",
        "get",
        "update",
        "append",
        "add",
        "extend",
        "insert",
        "remove",
        "discard",
    }
)
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


def _own_parameters(function: _Function) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the parameters that a caller gives: without ``cls`` or ``self`` of a method."""
    found = parameters(function.node)
    static = any(ast.unparse(d) == "staticmethod" for d in function.node.decorator_list)
    return found[1:] if function.defining is not None and not static else found


def _is_plain(value: Any) -> bool:
    """Tell whether a value holds nothing but plain values."""
    if isinstance(value, dict):
        return all(_is_plain(each) for each in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(_is_plain(each) for each in value)
    return not isinstance(value, Said | _Parser | _Function)
