"""Work out the calls and values in a function that builds a parser, as far as the source decides them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, Final

from tools.settings.define_expressions import called_name
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
from tools.statements import UNKNOWN

_GROUPS: Final = frozenset(
    {"add_argument_group", "add_mutually_exclusive_group", "add_parser", "add_subparsers"}
)
_CHANGES: Final = frozenset({"append", "add", "extend", "insert", "remove", "discard"})
_METHODS: Final = frozenset({"items", "values", "keys", "pop", "get", "update"}) | _CHANGES
Special = Callable[["Calls", Frame, ast.Call], Any]
"""Reads a call of one function of an engine."""


class Calls:
    """Evaluate expressions of a function that is walked, and gather the options that its calls declare."""

    def __init__(self, fields: Fields, special: dict[str, Special] | None = None) -> None:
        self.fields = fields
        self.static = fields.static
        self.values = fields.static.values
        self.special = special or {}
        self.found: list[Declared] = []
        self.unread: list[tuple[str, int]] = []
        """Where an option is declared whose name could not be worked out."""

    def run(self, function: Function, names: dict[str, Any]) -> Any:
        """Walk a function with its parameters bound; return what it returns."""
        raise NotImplementedError

    def declare(self, frame: Frame, names: Iterator[str], keywords: dict[str, Any], node: ast.AST) -> None:
        """Add an option that a function declares by another way than a call of ``add_argument``."""
        self.found.append(Declared(tuple(names), keywords, frame.path, node, self._owner(frame)))

    def class_of(self, frame: Frame, node: ast.expr) -> Class | None:
        """Return the class that an expression in a function names, ``cls`` included."""
        if isinstance(node, ast.Name) and node.id in ("cls", "self") and node.id not in frame.names:
            return frame.function.cls
        return self.values.cls(frame.path, node)

    def value(self, frame: Frame, node: ast.expr) -> Any:
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

    def _plain(self, frame: Frame, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & frame.names.keys()
        names = {name: frame.names[name] if is_plain(frame.names[name]) else UNKNOWN for name in used}
        value = self.static.value(frame.path, node, names)
        return Said(written(node)) if value is UNKNOWN else value

    def _dict(self, frame: Frame, node: ast.Dict) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            held = self.value(frame, value)
            if key is None:
                if not isinstance(held, dict):
                    return Said(written(node))
                found |= held
                continue
            at = self.value(frame, key)
            if isinstance(at, str | int):
                found[at] = held
        return found

    def _call(self, frame: Frame, node: ast.Call) -> Any:
        called = called_name(node)
        if called == "add_argument":
            self._add_argument(frame, node)
            return Said(written(node.func))
        if called in self.special:
            return self.special[called](self, frame, node)
        if isinstance(node.func, ast.Attribute) and called in _GROUPS | _METHODS:
            held = self.value(frame, node.func.value)
            if held is PARSER and called in _GROUPS:
                return PARSER
            if isinstance(held, dict | list | set) and called in _METHODS:
                return self._method(frame, node, held, called)
        return self._other_call(frame, node, called)

    def _other_call(self, frame: Frame, node: ast.Call, called: str) -> Any:
        """Follow a call into the package where it is given the parser or keywords of options."""
        arguments = [self.value(frame, each) for each in node.args if not isinstance(each, ast.Starred)]
        keywords = {k.arg: self.value(frame, k.value) for k in node.keywords if k.arg}
        if called in ("deepcopy", "copy", "dict") and len(arguments) == 1 and isinstance(arguments[0], dict):
            return {key: dict(v) if isinstance(v, dict) else v for key, v in arguments[0].items()}
        if called == "dict" and not arguments and len(keywords) == len(node.keywords):
            return keywords
        if any(each is PARSER or isinstance(each, dict) for each in [*arguments, *keywords.values()]):
            function = self._function(frame, node.func)
            if function is not None:
                names = [argument.arg for argument, _ in own_parameters(function)]
                return self.run(function, {**dict(zip(names, arguments, strict=False)), **keywords})
            return PARSER if PARSER in arguments and len(arguments) == 1 else Said(written(node))
        return self._plain(frame, node)

    def _method(self, frame: Frame, node: ast.Call, held: Any, called: str) -> Any:
        """Do what a method of a dictionary, list or set does to what is held of it."""
        given = [self.value(frame, each) for each in node.args]
        if called in ("items", "values", "keys") and isinstance(held, dict):
            pairs = [list(pair) for pair in held.items()]
            return pairs if called == "items" else [pair[called == "values"] for pair in pairs]
        if called in ("pop", "get") and isinstance(held, dict) and given and isinstance(given[0], str):
            absent = given[1] if len(given) > 1 else None
            return held.pop(given[0], absent) if called == "pop" else held.get(given[0], absent)
        if called == "update" and isinstance(held, dict):
            for more in [*given, {k.arg: self.value(frame, k.value) for k in node.keywords if k.arg}]:
                held.update(more if isinstance(more, dict) else {})
        elif called in _CHANGES and isinstance(held, list | set):
            self._change_in_place(frame, held, called, given)
        return Said(written(node))

    def _change_in_place(
        self, frame: Frame, held: list[Any] | set[Any], called: str, given: list[Any]
    ) -> None:
        """Change a list or set as its method does; where that is not sure, it holds something unknown."""
        try:
            if frame.undecided or not is_plain(given):
                raise ValueError("not sure")
            getattr(held, called)(*given)
        except (ValueError, KeyError, TypeError, AttributeError):
            unknown = Said(f"after {called}")
            if isinstance(held, list):
                held.append(unknown)
            else:
                held.add(unknown)

    def _function(self, frame: Frame, node: ast.expr) -> Function | None:
        """Return the function of the package that a call reaches."""
        if isinstance(node, ast.Name):
            local = frame.names.get(node.id)
            if isinstance(local, Function):
                return local
            place = self.values.place(frame.path, node)
            if place is not None and isinstance(place[1], ast.FunctionDef):
                return Function(place[0], place[1])
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
            return Function(place[0], place[1])
        return None

    def _method_of(self, cls: Class | None, name: str, after: Class | None = None) -> Function | None:
        """Return a method of a class or of its bases; with ``after``, of those that follow that one."""
        if cls is None:
            return None
        passed = after is None
        for where, each in self.values.bases(*cls):
            if passed:
                for statement in each.body:
                    if isinstance(statement, ast.FunctionDef) and statement.name == name:
                        return Function(where, statement, cls, (where, each))
            passed = passed or (after is not None and each is after[1])
        return None

    def _add_argument(self, frame: Frame, node: ast.Call) -> None:
        names: list[Any] = []
        for each in node.args:
            given = self.value(frame, each.value if isinstance(each, ast.Starred) else each)
            names += given if isinstance(each, ast.Starred) and isinstance(given, list | tuple) else [given]
        keywords: dict[str, Any] = {}
        opaque = False
        for keyword in node.keywords:
            value = self._keyword(frame, keyword)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords = value | keywords  # what is written out cannot be in it, or the call would fail
            else:
                opaque = True
        plain = tuple(name for name in names if isinstance(name, str))
        if not plain:
            self.unread.append((frame.path, node.lineno))
            return
        self.found.append(Declared(plain, keywords, frame.path, node, self._owner(frame), opaque))

    def _keyword(self, frame: Frame, keyword: ast.keyword) -> Any:
        """Return a keyword's value; what reads or stores a word is a function, of which its name is all."""
        node = keyword.value
        local = isinstance(node, ast.Name) and node.id in frame.names
        if keyword.arg in ("type", "action") and isinstance(node, ast.Name | ast.Attribute) and not local:
            return Said(written(node))
        return self.value(frame, node)

    def _owner(self, frame: Frame) -> str:
        """Return the class whose options these are, else the function that declares them."""
        cls = frame.function.cls
        return cls[1].name if cls is not None else frame.function.node.name
