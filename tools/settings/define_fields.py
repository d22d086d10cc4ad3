"""Read the fields of a settings class: dataclass, pydantic, struct, or annotated with its own option."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tools.settings.define_static import Default, Static
from tools.settings.define_values import written
from tools.statements import UNKNOWN

_NOT_FIELDS: Final = ("ClassVar", "InitVar", "KW_ONLY")
_ANNOTATED: Final = frozenset({"A", "Annotated"})


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one field as a class declares it."""

    name: str
    path: str
    owner: str
    node: ast.stmt | ast.arg
    annotation: ast.expr | None
    default: Default
    help: str = ""
    extra: tuple[ast.expr, ...] = ()
    """What is annotated beside the type."""

    @property
    def type(self) -> str | None:
        """Return the type in the source's words."""
        return None if self.annotation is None else written(self.annotation)


class Fields:
    """Read the fields of classes, each class once."""

    def __init__(self, static: Static) -> None:
        self.static = static
        self._rows: dict[int, dict[str, Row]] = {}

    def rows(self, path: str, cls: ast.ClassDef) -> dict[str, Row]:
        """Return the fields of a class in order, those it inherits first."""
        if id(cls) not in self._rows:
            found: dict[str, Row] = {}
            for where, each in reversed(list(self.static.values.bases(path, cls))):
                found |= {row.name: row for row in self._own(where, each)}
            self._rows[id(cls)] = found or {row.name: row for row in self._parameters(path, cls)}
        return self._rows[id(cls)]

    def _own(self, path: str, cls: ast.ClassDef) -> Iterator[Row]:
        names = self.static.class_names(path, cls)
        for place, statement in enumerate(cls.body):
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            annotation = unquoted(statement.annotation)
            if _head(annotation) in _NOT_FIELDS:
                continue
            inner, extra = unwrapped(annotation)
            help_text = _docstring(cls.body[place + 1 : place + 2])
            default = self.static.default(path, statement.value, names)
            yield Row(statement.target.id, path, cls.name, statement, inner, default, help_text, extra)

    def _parameters(self, path: str, cls: ast.ClassDef) -> Iterator[Row]:
        """Yield the parameters of ``__init__`` of a class that declares no field."""
        make = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
        if make is None:
            return
        for argument, node in parameters(make)[1:]:
            default = self.static.default(path, node)
            yield Row(argument.arg, path, cls.name, argument, argument.annotation, default)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the parameters of a function with their defaults, ``self`` included."""
    given = [*function.args.posonlyargs, *function.args.args]
    missing: list[ast.expr | None] = [None] * (len(given) - len(function.args.defaults))
    plain = zip(given, [*missing, *function.args.defaults], strict=True)
    return [*plain, *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)]


def unquoted(annotation: ast.expr) -> ast.expr:
    """Return an annotation that is written as a string as the expression it holds."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError):
            return annotation
    return annotation


def unwrapped(annotation: ast.expr) -> tuple[ast.expr, tuple[ast.expr, ...]]:
    """Take ``Annotated[T, ...]`` apart."""
    if isinstance(annotation, ast.Subscript) and _head(annotation) in _ANNOTATED:
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return parts[0], tuple(parts[1:])
    return annotation, ()


class Hints:
    """Take the types of annotations apart, through aliases."""

    def __init__(self, static: Static) -> None:
        self.static = static

    def parts(self, path: str, node: ast.expr | None, depth: int = 0) -> list[tuple[str, ast.expr]]:
        """Return the types that a union, an ``Optional`` or an alias stands for, each with its module."""
        if node is None or depth > 12:
            return []
        node, _ = unwrapped(unquoted(node))
        head = _head(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self.parts(path, node.left, depth + 1) + self.parts(path, node.right, depth + 1)
        if isinstance(node, ast.Subscript) and head in ("Optional", "Union"):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            found = [part for each in inner for part in self.parts(path, each, depth + 1)]
            return [*found, (path, ast.Constant(None))] if head == "Optional" else found
        if isinstance(node, ast.Subscript) and head == "SkipValidation":  # pydantic's, an Annotated
            return self.parts(path, node.slice, depth + 1)
        if isinstance(node, ast.Name | ast.Attribute):
            place = self.static.values.place(path, node)
            if place is not None and isinstance(place[1], ast.expr) and place[1] is not node:
                return self.parts(place[0], place[1], depth + 1)
        return [(path, node)]

    def literals(self, path: str, node: ast.expr | None) -> tuple[Any, ...] | None:
        """Return the values of the ``Literal`` among the types; None without one, or when one is unknown.

        Of two, engines take any: their choices are not known.
        """
        literal = [
            (where, part.slice)
            for where, part in self.parts(path, node)
            if isinstance(part, ast.Subscript) and _head(part) == "Literal"
        ]
        if len(literal) != 1:
            return None
        where, held = literal[0]
        inner = held.elts if isinstance(held, ast.Tuple) else [held]
        values = [self.static.value(where, each) for each in inner]
        return None if any(each is UNKNOWN for each in values) else tuple(values)

    def heads(self, path: str, node: ast.expr | None) -> list[str]:
        """Return the plain names of the types: ``Optional[List[int]]`` is ``List`` and ``None``."""
        return [_head(part) for _, part in self.parts(path, node)]


def _head(node: ast.expr) -> str:
    """Return the plain name of a type, what it holds left out."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Constant):
        return str(node.value)
    return getattr(node, "attr", getattr(node, "id", ""))


def _docstring(after: list[ast.stmt]) -> str:
    """Return the string that stands alone below a field."""
    value = after[0].value if after and isinstance(after[0], ast.Expr) else None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return inspect.cleandoc(value.value)
    return ""
