"""Say how many words an option takes and what reads them, from what the source declares of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

from tools.settings.define_fields import parameters
from tools.settings.define_options import Declared, Said
from tools.settings.define_static import Static
from tools.settings.types import Takes

_SWITCHES: Final = frozenset(
    {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
)
_BY_NARGS: Final[Mapping[Any, Takes]] = {None: "one", "?": "optional", "+": "some", "*": "any", 0: "none"}
_LIST = re.compile(r"(Optional\[)?[Ll]ist\[")
"""The type of a field whose option takes several words; a function that reads one word has no such name."""
_MISSING: Final = object()
_UNDECIDED: Final = object()


def takes(static: Static, option: Declared) -> Takes:
    """Return how many words an option takes; ``unknown`` where a part of its declaration is."""
    keywords = option.keywords
    action = keywords.get("action")
    if action in _SWITCHES:
        return "none"
    if isinstance(action, Said) and action.name == "BooleanOptionalAction":
        return "none"
    nargs = keywords.get("nargs", _MISSING)
    if isinstance(action, Said) and nargs is _MISSING:
        nargs = _of_action(static, option.path, action.name)
    if option.opaque or nargs is _UNDECIDED or isinstance(nargs, Said):
        return "unknown"
    if nargs is _MISSING:
        return "some" if _LIST.match(reader(keywords)) else "one"
    if isinstance(nargs, int) and nargs:
        return "some" if nargs > 1 else "one"
    return _BY_NARGS.get(nargs, "unknown")


def _of_action(static: Static, path: str, name: str) -> Any:
    """Return the ``nargs`` that an action class gives itself."""
    place = static.values.find(path, name)
    if place is None or not isinstance(place[1], ast.ClassDef):
        return _UNDECIDED
    for where, cls in static.values.bases(place[0], place[1]):
        make = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
        if make is None:
            continue
        default = next((node for argument, node in parameters(make) if argument.arg == "nargs"), None)
        if default is None:
            passed = any(isinstance(node, ast.keyword) and node.arg == "nargs" for node in ast.walk(make))
            return _UNDECIDED if passed else _MISSING
        value = static.value(where, default)
        return value if value is None or isinstance(value, str | int) else _UNDECIDED
    outside = {ast.unparse(base).rpartition(".")[2] for base in place[1].bases}
    return _MISSING if outside <= {"Action", "_StoreAction"} else _UNDECIDED


def reader(keywords: Mapping[str, Any]) -> str:
    """Return what reads an option's words, in the source's words; empty where it takes none."""
    given = keywords.get("type")
    if given is None:
        return "" if "action" in keywords else "str"
    return given.text if isinstance(given, Said) else str(given)
