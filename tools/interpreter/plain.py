"""Turn values of the machine into plain data, as JSON would hold it."""

from __future__ import annotations

import pathlib
from typing import Any

from tools.interpreter.operators import DTYPES
from tools.interpreter.values import External, GuestClass, Instance, Unknown


class NotPlain(Exception):
    """Say that a value is not known, or is not data."""

    def __init__(self, needs: tuple[str, ...]) -> None:
        super().__init__(needs)
        self.needs = needs


def plain(value: Any, depth: int = 12) -> Any:
    """Return plain data for a value; raise `NotPlain` when any part of it is unknown."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Unknown):
        raise NotPlain(value.needs)
    if not depth:
        raise NotPlain(("a value nested too deep",))
    if isinstance(value, (list, tuple)):
        return [plain(v, depth - 1) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v, depth - 1) for v in value), key=str)
    if isinstance(value, dict):
        return {str(plain(k, 1)): plain(v, depth - 1) for k, v in value.items()}
    if isinstance(value, Instance):
        return _of_instance(value, depth)
    if isinstance(value, pathlib.PurePath):
        return str(value)
    if isinstance(value, External):
        if value.path in DTYPES:
            return f"torch.{DTYPES[value.path]}"
        raise NotPlain((value.path,))
    if isinstance(value, GuestClass):
        return f"{value.module}.{value.name}"
    raise NotPlain((f"a {type(value).__name__}",))


def _of_instance(value: Instance, depth: int) -> Any:
    if value.cls.members is not None:
        held = value.attrs.get("_value_")
        if isinstance(held, (str, Unknown)) or value.cls.native_base() is int:
            return plain(held, depth - 1)
        return value.attrs.get("_name_")
    if value.cls.record is not None:
        return {name: plain(value.attrs.get(name), depth - 1) for name in value.cls.record.fields}
    if value.native is not None and not isinstance(value.native, BaseException):
        return plain(value.native, depth - 1)
    raise NotPlain((f"a {value.cls.name}",))
