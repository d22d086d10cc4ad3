"""Symbols: what stands for names of packages that are not followed."""

from __future__ import annotations

from typing import Any, NoReturn

from tools.interpreter.signals import Undecided


class External:
    """Stand for something of a package that is not followed, by its dotted path (``torch.cuda.Event``)."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<{self.path}>"

    def __str__(self) -> str:
        raise Undecided((self.path,))

    def __format__(self, spec: str) -> str:
        raise Undecided((self.path,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, External) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Say that native code cannot call it."""
        raise Undecided((f"{self.path}()",))

    def __or__(self, other: Any) -> Any:
        return _either(self, other)

    def __ror__(self, other: Any) -> Any:
        return _either(other, self)

    def __getitem__(self, item: Any) -> External:
        return External(f"{self.path}[...]")


def _either(left: Any, right: Any) -> Any:
    """Return the type that is one of two, for annotations."""
    import typing

    try:
        return typing.Union[left, right]  # noqa: UP007 - an expression, not an annotation
    except TypeError:
        return External(f"{left!r} | {right!r}")


class Marker(External):
    """Stand for a base class whose meaning is known (``msgspec.Struct``, ``pydantic.BaseModel``)."""
