"""Define the settings of vLLM: engine and server arguments, and the sections of ``VllmConfig``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from tools.settings import define_join, define_keywords
from tools.settings.define_calls import Calls, Special
from tools.settings.define_fields import Fields, Hints, Row
from tools.settings.define_options import OptionReader, Said
from tools.settings.define_static import Static
from tools.settings.define_values import Values, written
from tools.settings.trees import cite
from tools.settings.types import Definition

ENVIRONMENT: Final = ("envs.py", "environment_variables")
_ENGINE: Final = "engine/arg_utils.py"
_SERVERS: Final = (
    "entrypoints/cli/serve.py",
    "entrypoints/openai/cli_args.py",
    "entrypoints/openai/api_server.py",
    "scripts.py",
)
"""Files that hold or import the function that builds the server's parser, as releases have had them."""
_CONFIGS: Final = ("config/__init__.py", "config.py", "config/vllm.py")


def define(values: Values) -> dict[str, Definition]:
    """Return the settings that a launch line sets, and those of each section as ``section.name``."""
    static = Static(values)
    fields = Fields(static)
    reader = OptionReader(fields, _special(static))
    rows = _argument_rows(values, fields)
    _read_parsers(values, reader)
    found = define_join.definitions(static, rows, reader.found)
    for name, definition in _sections(values, fields).items():
        found.setdefault(name, definition)
    return found


def _argument_rows(values: Values, fields: Fields) -> dict[str, Row]:
    """Return the fields of the engine's arguments, then those of the server's that have a class."""
    rows: dict[str, Row] = {}
    for path in (*_SERVERS, _ENGINE):
        names = ("AsyncEngineArgs", "EngineArgs") if path == _ENGINE else ("FrontendArgs",)
        for name in names:
            found = values.cls(path, ast.Name(name))
            if found is not None:
                rows = {**rows, **fields.rows(*found)}
                break
    return rows


def _read_parsers(values: Values, reader: OptionReader) -> None:
    """Walk the server's parser, which takes in the engine's; the engine's alone where there is no server."""
    for path in _SERVERS:
        place = values.place(path, ast.Name("make_arg_parser"))
        if place is not None and isinstance(place[1], ast.FunctionDef):
            reader.read(place[0], place[1])
            break
    for name in ("AsyncEngineArgs", "EngineArgs"):
        found = values.cls(_ENGINE, ast.Name(name))
        build = (
            next((s for s in found[1].body if getattr(s, "name", "") == "add_cli_args"), None)
            if found
            else None
        )
        if found is not None and isinstance(build, ast.FunctionDef) and not _has_engine(reader):
            reader.read(found[0], build, found)


def _has_engine(reader: OptionReader) -> bool:
    return any("--tensor-parallel-size" in option.names for option in reader.found)


def _special(static: Static) -> dict[str, Special]:
    """Return how ``get_kwargs`` is read, which makes options of a config class's fields."""
    hints = Hints(static)

    def get_kwargs(reader: Calls, frame: Any, call: ast.Call) -> Any:
        cls = reader.class_of(frame, call.args[0]) if call.args else None
        if cls is None:
            return Said(written(call))
        rows = reader.fields.rows(*cls)
        return {name: define_keywords.of_config_field(hints, row) for name, row in rows.items()}

    return {"get_kwargs": get_kwargs}


def _sections(values: Values, fields: Fields) -> dict[str, Definition]:
    """Return the fields of ``VllmConfig`` and of the config classes that its fields hold."""
    found: dict[str, Definition] = {}
    for path in _CONFIGS:
        top = values.cls(path, ast.Name("VllmConfig"))
        if top is None:
            continue
        for name, row in fields.rows(*top).items():
            found[name] = _of_row(values, fields, name, row)
            for where, cls in _held(values, fields, row):
                for inner in fields.rows(where, cls).values():
                    found[f"{name}.{inner.name}"] = _of_row(values, fields, f"{name}.{inner.name}", inner)
        break
    return found


def _held(values: Values, fields: Fields, row: Row) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the config class that a field holds."""
    for path, part in Hints(fields.static).parts(row.path, row.annotation):
        found = values.cls(path, part)
        if found is not None and found[1].name.endswith("Config"):
            yield found
            return


def _of_row(values: Values, fields: Fields, name: str, row: Row) -> Definition:
    first, last = getattr(row.node, "lineno", 1), getattr(row.node, "end_lineno", 1)
    return Definition(
        name,
        "field",
        row.owner,
        cite(values.tree, row.path, first, last),
        type=row.type,
        default=row.default.value,
        default_known=row.default.known,
        default_text=row.default.text,
        choices=Hints(fields.static).literals(row.path, row.annotation),
        help=row.help,
    )
