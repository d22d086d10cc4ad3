"""Hold what is known while a function that builds a parser is walked: names, options, what is not known."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Final

from tools.settings.define_fields import parameters
from tools.settings.define_values import written

Class = tuple[str, ast.ClassDef]


@dataclass(frozen=True, slots=True)
class Said:
    """Hold what is not known as a value, in the source's words."""

    text: str

    @property
    def name(self) -> str:
        """Return the last name of it: ``argparse.BooleanOptionalAction`` is ``BooleanOptionalAction``."""
        return self.text.rpartition(".")[2]


class Parser:
    """Stand for the parser and its groups."""


PARSER: Final = Parser()


@dataclass(frozen=True, slots=True)
class Declared:
    """Hold one ``add_argument`` call: its names and keywords, each a plain value or `Said`."""

    names: tuple[str, ...]
    keywords: dict[str, Any]
    path: str
    node: ast.AST
    owner: str
    opaque: bool = False
    """True when further keywords come from something that could not be followed."""


@dataclass(frozen=True, slots=True)
class Function:
    """Hold a function of the package, and the class that a ``cls`` in it is."""

    path: str
    node: ast.FunctionDef
    cls: Class | None = None
    """The class that a ``cls`` in it is."""
    defining: Class | None = None


@dataclass(slots=True)
class Frame:
    """Hold the local names of one function that is being walked."""

    function: Function
    names: dict[str, Any]
    undecided: int = 0
    result: Any = field(default_factory=lambda: Said("None"))

    @property
    def path(self) -> str:
        """Return the module of the function."""
        return self.function.path


def own_parameters(function: Function) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the parameters that a caller gives: without ``cls`` or ``self`` of a method."""
    found = parameters(function.node)
    static = any(written(d) == "staticmethod" for d in function.node.decorator_list)
    return found[1:] if function.defining is not None and not static else found


def is_plain(value: Any) -> bool:
    """Tell whether a value holds nothing but plain values."""
    if isinstance(value, dict):
        return all(is_plain(each) for each in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(is_plain(each) for each in value)
    return not isinstance(value, Said | Parser | Function)
