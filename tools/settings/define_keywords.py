"""Work out the keywords of options that an engine derives from the fields of its classes."""

from __future__ import annotations

import ast
from typing import Any, Final

from tools.settings.define_fields import Hints, Row
from tools.settings.define_options import Said
from tools.settings.define_values import written
from tools.statements import UNKNOWN

BOOLEAN_OPTIONAL: Final = Said("argparse.BooleanOptionalAction")


def of_config_field(hints: Hints, row: Row) -> dict[str, Any]:
    """Return the keywords that vLLM's ``get_kwargs`` makes of a field of a config class."""
    known = row.default.known
    found: dict[str, Any] = {
        "default": row.default.value if known else Said(row.default.text),
        "help": row.help,
        "type": Said(row.type or "str"),
    }
    heads = hints.heads(row.path, row.annotation)
    if set(heads) == {"bool", "str", "None"}:
        found |= {"nargs": "?", "const": True}
    elif "bool" in heads:
        found["action"] = BOOLEAN_OPTIONAL
    elif "str" not in heads:
        choices = hints.literals(row.path, row.annotation)
        if choices is not None:
            found["choices"] = sorted(choices, key=str)
    if {"list", "List", "tuple", "set"} & set(heads):
        found["nargs"] = "+"
    return found


def of_annotated_field(hints: Hints, row: Row) -> tuple[list[str], dict[str, Any]] | None:
    """Return the option that a field carries (``A[T, "help"]``, ``A[T, Arg(...)]``); None without one."""
    meta = _meta(hints, row)
    if meta is None or meta.get("no_cli") is True:
        return None
    names = [meta.get("cli_name") or "--" + row.name.replace("_", "-")]
    names += [each for each in _listed(meta.get("aliases")) if isinstance(each, str)]
    found: dict[str, Any] = {"dest": row.name, "help": meta.get("help", "")}
    found["default"] = row.default.value if row.default.known else Said(row.default.text)
    if not row.default.known and row.default.text == "required":
        del found["default"]
        found["required"] = meta.get("required") is not False
    for name in ("nargs", "const", "choices", "action"):
        if meta.get(name) is not None:
            found[name] = meta[name]
    if isinstance(meta.get("action_kwargs"), dict):
        found |= meta["action_kwargs"]
    if "action" not in found:
        found |= _inferred(hints, row, meta)
    return names, found


def _inferred(hints: Hints, row: Row, meta: dict[str, Any]) -> dict[str, Any]:
    """Return what the type alone says of an option without an action."""
    heads = [head for head in hints.heads(row.path, row.annotation) if head != "None"]
    literals = hints.literals(row.path, row.annotation)
    if len(heads) == 1 and heads[0] == "Literal" and literals is not None:
        return {"choices": meta.get("choices") or list(literals)}
    if heads == ["bool"]:
        return {"action": "store_true"}
    return {"type": meta.get("type_parser") or Said(row.type or "str")}


def _meta(hints: Hints, row: Row) -> dict[str, Any] | None:
    """Return what is annotated beside the type: a help text alone, or the arguments of an ``Arg``."""
    for extra in row.extra:
        place = hints.static.values.place(row.path, extra)
        path, node = place if place is not None else (row.path, extra)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "Arg":
            return {k.arg: _value(hints, path, k.value) for k in node.keywords if k.arg}
        text = hints.static.value(path, node) if isinstance(node, ast.expr) else UNKNOWN
        if isinstance(text, str):
            return {"help": text}
    return None


def _value(hints: Hints, path: str, node: ast.expr) -> Any:
    if isinstance(node, ast.Dict):
        keys = [hints.static.value(path, key) for key in node.keys]
        values = [_value(hints, path, value) for value in node.values]
        return {k: v for k, v in zip(keys, values, strict=True) if isinstance(k, str)}
    value = hints.static.value(path, node)
    return Said(written(node)) if value is UNKNOWN else value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
