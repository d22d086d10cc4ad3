"""Work out what a field starts as from its right-hand side: a literal, a factory, another class's field."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from tools.settings.define_expressions import DEPTH, EMPTY, Expressions, Member, Names, called_name
from tools.settings.define_values import Values, written
from tools.statements import UNKNOWN

_FIELDS: Final = frozenset({"field", "Field", "PydanticField"})


@dataclass(frozen=True, slots=True)
class Default:
    """Hold what a definition starts as; ``text`` is what the source says."""

    known: bool
    value: Any
    text: str


class Static(Expressions):
    """Evaluate expressions and fields of one package; `UNKNOWN` is an answer."""

    def __init__(self, values: Values) -> None:
        super().__init__(values)
        self._class_names: dict[int, dict[str, Any]] = {}

    def starts_as(self, owner: tuple[str, ast.ClassDef] | None, path: str, node: ast.expr, depth: int) -> Any:
        """Return the value of a class's attribute, through the call that makes it a field."""
        names = self.class_names(*owner) if owner is not None else None
        found = self.default(path, node, names, depth)
        return found.value if found.known else UNKNOWN

    def default(
        self, path: str, node: ast.expr | None, names: Names | None = None, depth: int = 0
    ) -> Default:
        """Return what a field's right-hand side makes the field start as; ``names``: those of its class."""
        if node is None:
            return Default(False, None, "required")
        if isinstance(node, ast.Constant):
            return Default(True, node.value, repr(node.value))
        text = written(node)
        if isinstance(node, ast.Call):
            name = called_name(node)
            if name in _FIELDS:
                return self._of_field(path, node, names, depth)
            if name == "cast" and len(node.args) == 2 and depth < DEPTH:
                return self.default(path, node.args[1], names, depth + 1)
            if name == "get_field" and len(node.args) == 2:
                return self._of_get_field(path, node, text, depth)
        if isinstance(node, ast.Attribute):
            found = self._of_attribute(path, node, depth)
            if found is not None:
                return found
        return _plain(self.value(path, node, names), text)

    def class_names(self, path: str, cls: ast.ClassDef) -> dict[str, Any]:
        """Return the literals that a class and its bases bind, which its field's defaults can name."""
        if id(cls) not in self._class_names:
            found: dict[str, Any] = {}
            for _, each in reversed(list(self.values.bases(path, cls))):
                for statement in each.body:
                    if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(
                        statement.value, ast.Constant
                    ):
                        names = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                        found |= {n.id: statement.value.value for n in names if isinstance(n, ast.Name)}
            self._class_names[id(cls)] = found
        return self._class_names[id(cls)]

    def _of_attribute(self, path: str, node: ast.Attribute, depth: int) -> Default | None:
        """Return what ``Class.name`` starts as, where the class gives that by a call or its own names."""
        place = self.values.place(path, node)
        owner = self.values.cls(path, node.value)
        if place is None or owner is None or depth > DEPTH or not isinstance(place[1], ast.Call | ast.Name):
            return None
        return self.default(place[0], place[1], self.class_names(*owner), depth + 1)

    def _of_field(self, path: str, call: ast.Call, names: Names | None, depth: int) -> Default:
        named = {k.arg: k.value for k in call.keywords}
        first = call.args[0] if call.args else named.get("default")
        if isinstance(first, ast.Constant) and first.value is ...:
            return Default(False, None, "required")
        if first is not None:
            return self.default(path, first, names, depth + 1)
        factory = named.get("default_factory")
        if factory is None:
            late = self.value(path, named.get("init")) is False
            return Default(False, None, written(call) if late else "required")
        if isinstance(factory, ast.Lambda):
            return _plain(self.value(path, factory.body), written(factory.body))
        text = f"{written(factory)}()"
        return _plain(EMPTY.get(text[:-2], UNKNOWN), text)

    def _of_get_field(self, path: str, call: ast.Call, text: str, depth: int) -> Default:
        name = self.value(path, call.args[1])
        if isinstance(name, str) and depth < DEPTH:
            field = ast.Attribute(call.args[0], name, ast.Load())
            place, owner = self.values.place(path, field), self.values.cls(path, call.args[0])
            if place is not None and owner is not None and isinstance(place[1], ast.expr):
                return self.default(place[0], place[1], self.class_names(*owner), depth + 1)
        return Default(False, None, text)


def _plain(value: Any, text: str) -> Default:
    """Return a default; a member of an enumeration is its text, as the launch line gives it, or not known."""
    if isinstance(value, Member):
        value = value.value if isinstance(value.value, str) else UNKNOWN
    known = value is not UNKNOWN and not (
        isinstance(value, Iterable) and any(isinstance(v, Member) for v in value)
    )
    return Default(known, value if known else None, text)
