"""Turn values of the machine into plain data, as JSON would hold it."""

from __future__ import annotations

import pathlib
from typing import Any

from tools.interpreter.journal import Journal
from tools.interpreter.operators import DTYPES
from tools.interpreter.values import MISSING, External, GuestClass, Instance, Unknown


class NotPlain(Exception):
    """Say that a value is not known, or is not data."""

    def __init__(self, needs: tuple[str, ...]) -> None:
        super().__init__(needs)
        self.needs = needs


class Device:
    """Stand for a ``torch.device``."""

    def __init__(self, kind: Any, index: int | None = None) -> None:
        if isinstance(kind, Device):
            kind, index = str(kind.type), kind.index
        name, _, number = str(kind).partition(":")
        self.type: str = name
        self.index = int(number) if number.isdigit() else index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (other.type, other.index) == (self.type, self.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"


def plain(value: Any, depth: int = 12, journal: Journal | None = None) -> Any:
    """Return plain data for a value; raise `NotPlain` when any part of it is unknown.

    The journal tells which lists, dicts and sets hold what nobody knows.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Unknown):
        raise NotPlain(value.needs)
    if not depth:
        raise NotPlain(("a value nested too deep",))
    if journal is not None and isinstance(value, (list, dict, set)):
        needs = journal.tainted(value)
        if needs is not None:
            raise NotPlain(needs)
    if isinstance(value, (list, tuple)):
        return [plain(v, depth - 1, journal) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v, depth - 1, journal) for v in value), key=str)
    if isinstance(value, dict):
        return {str(plain(k, 1)): plain(v, depth - 1, journal) for k, v in value.items()}
    if isinstance(value, Instance):
        return _of_instance(value, depth, journal)
    if isinstance(value, (pathlib.PurePath, Device)):
        return str(value) if isinstance(value, pathlib.PurePath) else repr(value)
    if isinstance(value, External):
        if value.path in DTYPES:
            return f"torch.{DTYPES[value.path]}"
        raise NotPlain((value.path,))
    if isinstance(value, GuestClass):
        return f"{value.module}.{value.name}"
    raise NotPlain((f"a {type(value).__name__}",))


def _of_instance(value: Instance, depth: int, journal: Journal | None) -> Any:
    if value.cls.members is not None:
        held = value.attrs.get("_value_")
        if isinstance(held, (str, Unknown)) or value.cls.native_base() is int:
            return plain(held, depth - 1)
        return value.attrs.get("_name_")
    if value.cls.record is not None:
        return {name: plain(value.attrs.get(name), depth - 1, journal) for name in value.cls.record.fields}
    if value.native is not None and not isinstance(value.native, BaseException):
        return plain(value.native, depth - 1, journal)
    if value.cls.find("__repr__") is MISSING and not any(isinstance(c, External) for c in value.cls.mro):
        return f"<{value.cls.module}.{value.cls.name} object>"
    raise NotPlain((f"a {value.cls.name}",))
