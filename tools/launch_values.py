"""Read a command line as an engine's own parser would, by the options that its source declares."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tools.definitions import Definitions, Option
from tools.statements import UNKNOWN


def launch_values(definitions: Definitions, argv: Sequence[str]) -> dict[str, Any]:
    """Return the settings that a command line gives, by field name; `UNKNOWN` where it cannot be told."""
    given: dict[str, Any] = {}
    tokens = list(argv)
    place = 0
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if not token.startswith("--") or len(token) < 3:
            continue
        name, glued, inline = token.partition("=")
        option = _find_option(definitions, name)
        if option is None or option.action == "elsewhere":
            place += _take_undeclared(definitions, given, name, inline if glued else None, tokens[place:])
            continue
        words = [inline] if glued else _words(option, tokens[place:])
        place += 0 if glued else len(words)
        given[option.dest] = _parsed(option, name, words)
    renamed = {dest: name for name, dest in definitions.renames.items()}
    return {renamed.get(dest, dest): value for dest, value in given.items()}


def _find_option(definitions: Definitions, name: str) -> Option | None:
    """Find an option by name, by its ``--no-`` form, or by a prefix that only one option has."""
    options = definitions.options
    if name in options:
        return options[name]
    positive = "--" + name.removeprefix("--no-")
    if name.startswith("--no-") and positive in options:
        return options[positive]
    near = {o.dest: o for n, o in options.items() if n.startswith(name)}
    return next(iter(near.values())) if len(near) == 1 else None


def _is_value(token: str) -> bool:
    return not token.startswith("-") or bool(re.fullmatch(r"-\d+(\.\d+)?", token))


def _words(option: Option, rest: list[str]) -> list[str]:
    if option.action in ("store_true", "store_false", "store_const", "count") or option.nargs == 0:
        return []
    if "Boolean" in option.action or "StoreTrue" in option.action:
        return []
    values = 0
    while values < len(rest) and _is_value(rest[values]):
        values += 1
    limit = 1
    if isinstance(option.nargs, int):
        limit = option.nargs
    elif option.nargs in ("*", "+") or option.nargs is UNKNOWN:
        limit = values
    return rest[: min(values, limit)]


def _parsed(option: Option, name: str, words: list[str]) -> Any:
    if option.action == "store_true" or "StoreTrue" in option.action:
        return True
    if option.action == "store_false":
        return False
    if "Boolean" in option.action:
        return not name.startswith("--no-")
    if option.action == "store_const" or (option.nargs == "?" and not words):
        return option.const
    if option.action != "store" or not words:
        return UNKNOWN
    values = [_typed(option.type, word) for word in words]
    if any(value is UNKNOWN for value in values):
        return UNKNOWN
    return values[0] if option.nargs in (None, "?") else values


def _typed(kind: str, word: str) -> Any:
    try:
        if kind in ("int", "float"):
            return int(word) if kind == "int" else float(word)
        if kind == "json.loads":
            return json.loads(word)
    except ValueError:
        return UNKNOWN
    return word if kind == "str" else UNKNOWN


def _take_undeclared(
    definitions: Definitions, given: dict[str, Any], name: str, inline: str | None, rest: list[str]
) -> int:
    """Read an option that the source declares elsewhere by its field; return the words it took."""
    dest = name.lstrip("-").replace("-", "_")
    known = definitions.fields.get(dest)
    value = inline
    if inline is None and rest and _is_value(rest[0]) and not (known and "bool" in known.annotation):
        value = rest[0]
    if known is not None:
        given[dest] = _by_annotation(known.annotation, value)
    elif dest.startswith("no_") and dest[3:] in definitions.fields and value is None:
        given[dest[3:]] = False
    elif dest == "config":
        given["config"] = value
    return int(inline is None and value is not None)


def _by_annotation(annotation: str, value: str | None) -> Any:
    if value is None:
        return True if "bool" in annotation else UNKNOWN
    plain = annotation.removeprefix("Optional[").removesuffix("]").removesuffix(" | None")
    return _typed(plain, value) if plain in ("int", "float", "str") else UNKNOWN
