"""One module of the followed package: its tree, its names, and what is bound only when it is asked for."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from tools.syntax import Module


@dataclass(eq=False, slots=True)
class ModuleValue:
    """Hold a module of the package; ``path`` is relative to the folder that holds the package."""

    name: str
    path: str
    tree: ast.Module | None
    is_package: bool = False
    globals: dict[str, Any] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    """Modules that ``from x import *`` names, in order."""
    ran: bool = False
    source: Module | None = None
    """The file; bodies of functions are read in it when they are called."""

    def __repr__(self) -> str:
        return f"<module {self.name}>"


@dataclass(eq=False, slots=True)
class Lazy:
    """Stand for a module-level name until it is read: an import, an assignment, or a class."""

    kind: str
    module: ModuleValue
    node: Any
    name: str = ""
    running: bool = False


@dataclass(eq=False, slots=True)
class Frame:
    """Hold the names of one call (or class body, or module body)."""

    names: dict[str, Any]
    module: ModuleValue
    parent: Frame | None = None
    function: Any = None
    is_class: bool = False
    global_names: frozenset[str] = frozenset()
    nonlocal_names: frozenset[str] = frozenset()
    on_yield: Any = None
    """What is done with each value that a generator yields."""
    caught: Any = None
    """The exception that is being handled."""
    line: int = 0
    born: int = 0
    """How many marks the journal had set when the call began."""
