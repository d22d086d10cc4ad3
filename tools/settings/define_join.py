"""Join the fields of a settings class with the options that set them into definitions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools.settings import option_shape
from tools.settings.define_fields import Row, parameters
from tools.settings.define_options import Declared, Said
from tools.settings.define_static import Default, Static
from tools.settings.define_values import written
from tools.settings.trees import cite
from tools.settings.types import Definition
from tools.statements import UNKNOWN

_DEPRECATED: Final = re.compile(
    r"^\W*(?:deprecated\b|(?:note: )?-*[\w-]+(?: \([^)]*\))? is deprecated\b)", re.IGNORECASE
)
_CONSTANTS: Final = {"store_true": False, "store_false": True}


@dataclass(slots=True)
class _Setting:
    """Gather what is said of one setting."""

    row: Row | None = None
    options: list[Declared] = field(default_factory=list)


def definitions(
    static: Static,
    rows: Mapping[str, Row],
    options: Iterable[Declared],
    renames: Mapping[str, str] | None = None,
) -> dict[str, Definition]:
    """Return a definition for every field, and for every option that sets none.

    ``renames`` maps what an option is parsed into to the field it ends in.
    """
    found = {name: _Setting(row) for name, row in rows.items()}
    for option in options:
        dest = destination(option)
        name = dest if dest in found else (renames or {}).get(dest, dest)
        found.setdefault(name, _Setting()).options.append(option)
    return {name: _definition(static, name, setting) for name, setting in found.items()}


def destination(option: Declared) -> str:
    """Return the name that an option's value is parsed into."""
    dest = option.keywords.get("dest")
    if isinstance(dest, str):
        return dest
    first = next((name for name in option.names if name.startswith("--")), option.names[0])
    return first.lstrip("-").replace("-", "_")


def from_cli_args(cls: ast.ClassDef) -> dict[str, str]:
    """Return what an option is parsed into to the field it ends in, where ``from_cli_args`` renames it."""
    make = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "from_cli_args"), None)
    found: dict[str, str] = {}
    for statement in make.body if make is not None else []:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
            value = statement.value
            if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
                found[value.attr] = statement.targets[0].attr
    return found


def _definition(static: Static, name: str, setting: _Setting) -> Definition:
    row, options = setting.row, setting.options
    active = [option for option in options if not _is_deprecated(option)]
    leading = next(iter([*active, *options]), None)
    at: Row | Declared | None = row or leading
    assert at is not None, "a setting has a field or an option"
    default = _default(static, row, options)
    keywords: dict[str, Any] = leading.keywords if leading is not None else {}
    first, last = getattr(at.node, "lineno", 1), getattr(at.node, "end_lineno", 1)
    return Definition(
        name,
        "field",
        at.owner,
        cite(static.values.tree, at.path, first, last),
        type=(row.type if row is not None else None) or _type(keywords),
        default=default.value,
        default_known=default.known,
        default_text=default.text,
        choices=_choices(keywords),
        help=_text(keywords.get("help")) or (row.help if row is not None else ""),
        flags=_flags(active, _sets),
        negative_flags=_flags(active, _clears),
        deprecated_flags=_flags(
            [each for each in options if each not in active], lambda o: [*_sets(o), *_clears(o)]
        ),
        deprecated=_instead(options) if options and not active else "",
        takes=option_shape.takes(static, leading) if leading is not None else "unknown",
        reader=option_shape.reader(keywords) if leading is not None else "",
    )


def _default(static: Static, row: Row | None, options: list[Declared]) -> Default:
    """Return what a launch line without the setting gives: the parser's default goes before the field's."""
    for option in options:
        given = _parser_default(static, option)
        if given is not None:
            if not given.known and row is not None and row.default.known and given.text == "required":
                return row.default
            return given
    return row.default if row is not None else Default(False, None, "required")


def _parser_default(static: Static, option: Declared) -> Default | None:
    """Return the default that an option gives; None where it leaves that to the field."""
    keywords = option.keywords
    if keywords.get("required") is True:
        return Default(False, None, "required")
    if "default" not in keywords:
        return None if option.opaque else _implied(static, option)
    value = keywords["default"]
    if isinstance(value, Said):
        return None if value.name == "SUPPRESS" else Default(False, None, value.text)
    return Default(True, value, repr(value))


def _implied(static: Static, option: Declared) -> Default:
    """Return the default of an option that states none: that of its action."""
    action = option.keywords.get("action")
    if isinstance(action, str):
        value = _CONSTANTS.get(action)
        return Default(True, value, repr(value))
    if isinstance(action, Said) and action.name != "BooleanOptionalAction":
        place = static.values.find(option.path, action.name)
        cls = place[1] if place is not None else None
        for statement in cls.body if isinstance(cls, ast.ClassDef) else []:
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                for argument, node in parameters(statement):
                    if argument.arg == "default" and node is not None:
                        value = static.value(option.path, node)
                        return Default(
                            value is not UNKNOWN, None if value is UNKNOWN else value, written(node)
                        )
    return Default(True, None, "None")


def _choices(keywords: Mapping[str, Any]) -> tuple[Any, ...] | None:
    given = keywords.get("choices")
    if not isinstance(given, list | tuple | dict | set | frozenset):
        return None
    if any(isinstance(each, Said) for each in given):
        return None
    return tuple(sorted(given, key=str) if isinstance(given, set | frozenset) else given)


def _type(keywords: Mapping[str, Any]) -> str | None:
    if keywords.get("action") in ("store_true", "store_false"):
        return "bool"
    given = keywords.get("type")
    if given is None:
        return "bool" if getattr(keywords.get("action"), "name", "") == "BooleanOptionalAction" else "str"
    return given.text if isinstance(given, Said) else str(given)


def _text(given: Any) -> str:
    return given if isinstance(given, str) else given.text if isinstance(given, Said) else ""


def _sets(option: Declared) -> list[str]:
    if option.keywords.get("action") == "store_false":
        return []
    return [name for name in option.names if name.startswith("-")]


def _clears(option: Declared) -> list[str]:
    action = option.keywords.get("action")
    if action == "store_false":
        return [name for name in option.names if name.startswith("-")]
    if isinstance(action, Said) and action.name == "BooleanOptionalAction":
        return ["--no-" + name[2:] for name in option.names if name.startswith("--")]
    return []


def _flags(options: list[Declared], names: Any) -> tuple[str, ...]:
    """Return option strings, the long ones first."""
    found = [name for option in options for name in names(option)]
    return tuple(dict.fromkeys(sorted(found, key=lambda name: not name.startswith("--"))))


def _is_deprecated(option: Declared) -> bool:
    action = option.keywords.get("action")
    return (
        option.keywords.get("deprecated") is True
        or "Deprecated" in getattr(action, "name", "")
        or _DEPRECATED.search(_text(option.keywords.get("help"))) is not None
    )


def _instead(options: list[Declared]) -> str:
    """Return what the source says of a deprecated setting."""
    for option in options:
        for name in ("help", "error_message", "new_flag"):
            text = _text(option.keywords.get(name))
            if text:
                return text
    return "deprecated"
