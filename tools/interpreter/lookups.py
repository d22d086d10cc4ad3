"""What a dict may hold under a key that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tools.interpreter.journal import Links, joined, perhaps
from tools.interpreter.values import Unknown, is_followed

_MOST_NAMES: Final = 64


def any_of(held: dict[Any, Any], key: Unknown, links: Links, *default: Any) -> Unknown:
    """Return what a dict may hold under an unknown key: each function, or any of its dicts, as one."""
    options: list[Any] = []
    tables: list[dict[Any, Any]] = []
    for value in (*held.values(), *default):
        if isinstance(value, dict):
            tables.append(value)
        elif not is_followed(value):
            return Unknown(key.needs)
        elif not any(value is seen or value == seen for seen in options):
            options.append(value)
    if not tables:
        return Unknown(key.needs, tuple(options))
    one = any_table(tables, key.needs, links) if options in ([], [None]) else None
    return Unknown(key.needs, () if one is None else (one, *options))


def any_table(
    tables: Sequence[dict[Any, Any]], needs: tuple[str, ...], links: Links
) -> dict[Any, Any] | None:
    """Return a new dict that stands for any of several; None when they have too many names."""
    names = list(dict.fromkeys(name for table in tables for name in table))
    if len(names) > _MOST_NAMES:
        return None
    found: dict[Any, Any] = {}
    for name in names:
        values = [table[name] for table in tables if name in table]
        value = values[0]
        for other in values[1:]:
            value = joined(value, other, needs, links)
        found[name] = value if len(values) == len(tables) else perhaps(value, needs)
    links.join(found, *tables)
    return found


def table_of(value: Unknown) -> dict[Any, Any] | None:
    """Return the one dict that an unknown value can be, if it is none but that or None."""
    tables = [option for option in value.options if isinstance(option, dict)]
    rest = [option for option in value.options if option is not None]
    return tables[0] if len(tables) == len(rest) == 1 else None
