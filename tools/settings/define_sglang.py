"""Define the settings of SGLang, in each of the layouts that its releases have had."""

from __future__ import annotations

import ast
from typing import Any, Final

from tools.settings import define_join, define_keywords
from tools.settings.define_calls import Calls, Special
from tools.settings.define_fields import Fields, Hints, Row
from tools.settings.define_options import OptionReader, Said
from tools.settings.define_static import Static
from tools.settings.define_values import Values, written
from tools.settings.types import Definition

PATH: Final = "srt/server_args.py"
CLASS: Final = "ServerArgs"
ENVIRONMENT: Final = ("srt/environ.py", "Envs")


def define(values: Values) -> dict[str, Definition]:
    """Return the fields of ``ServerArgs`` and the options that set them."""
    found = values.cls(PATH, ast.Name(CLASS))
    if found is None:
        return {}
    static = Static(values)
    fields = Fields(static)
    path, cls = found
    rows = dict(fields.rows(path, cls))
    for where, namespace in _collected(values):
        rows |= fields.rows(where, namespace)
    reader = OptionReader(fields, _special(static, rows))
    build = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "add_cli_args"), None)
    if build is not None:
        reader.read(path, build, found)
    return define_join.definitions(static, rows, reader.found, define_join.from_cli_args(cls))


def _collected(values: Values) -> list[tuple[str, ast.ClassDef]]:
    """Return the classes whose fields are collected into the settings class when the module is loaded."""
    bound = values.bindings(PATH)
    for nodes in bound.by_name.values() if bound is not None else ():
        for node in nodes:
            call = getattr(node, "value", None)
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "collect_input_fields":
                return _classes(values, call.args[0])
    module = values.module(PATH)
    for statement in module.tree.body if module is not None else []:
        call = getattr(statement, "value", None)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "collect_input_fields":
            return _classes(values, call.args[0])
    return []


def _classes(values: Values, node: ast.expr) -> list[tuple[str, ast.ClassDef]]:
    place = values.place(PATH, node)
    if place is None or not isinstance(place[1], ast.List | ast.Tuple):
        return []
    return [found for each in place[1].elts if (found := values.cls(place[0], each)) is not None]


def _special(static: Static, rows: dict[str, Row]) -> dict[str, Special]:
    """Return how the functions are read by which this engine declares options and names their defaults."""
    hints = Hints(static)

    def from_fields(reader: Calls, frame: Any, call: ast.Call) -> Any:
        wanted = next((k.value for k in call.keywords if k.arg == "fields"), None)
        only = reader.value(frame, wanted) if wanted is not None else None
        cls = reader.class_of(frame, call.args[1]) if len(call.args) > 1 else None
        chosen = rows if cls is None or cls[1].name == CLASS else reader.fields.rows(*cls)
        for row in chosen.values():
            if isinstance(only, list | tuple | set) and row.name not in only:
                continue
            option = define_keywords.of_annotated_field(hints, row)
            if option is not None:
                reader.declare(frame, iter(option[0]), option[1], call)
        return Said("None")

    def declared_default(reader: Calls, frame: Any, call: ast.Call) -> Any:
        name = reader.value(frame, call.args[0]) if call.args else None
        row = rows.get(name) if isinstance(name, str) else None
        if row is None or not row.default.known:
            return Said(row.default.text if row is not None else written(call))
        return row.default.value

    return {"add_cli_args_from_dataclass": from_fields, "_declared_default": declared_default}
