"""Configurations as the rules see them: a class by its name, and attributes."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """Say that the configuration class refuses the values."""


class Absent(Refused):
    """Say that an attribute does not exist."""


class Made:
    """Hold a configuration: its class by name, its attributes; ``vague`` says that others may exist."""

    __slots__ = ("attrs", "kind", "late", "origin", "own", "vague")

    def __init__(self, kind: str, attrs: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.attrs: dict[str, Any] = {} if attrs is None else attrs
        self.own: dict[str, Any] = {}
        """Constants that a class deriving from the kind puts over it."""
        self.late: dict[str, Any] = {}
        """What was bound to properties of such a class."""
        self.origin: Any = None
        self.vague: tuple[str, ...] = ()


class ClassOf:
    """Stand for a configuration class."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassOf) and other.kind == self.kind

    def __hash__(self) -> int:
        return hash(self.kind)
