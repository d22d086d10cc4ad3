"""Classes whose bodies are followed when something of them is asked for: most stand in a registry, unread."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final

from tools.interpreter.base import Base
from tools.interpreter.module import ModuleValue
from tools.interpreter.values import External, GuestClass, GuestRaise, Marker, Undecided

_PARTS: Final = frozenset({"namespace", "record", "record_is_own", "members", "kind"})
"""What the body of a class tells; its name and bases are known before."""
_SIMPLE: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign, ast.AnnAssign, ast.Pass)


class LateClass(GuestClass):
    """Stand for a class before its body was followed, and be that class from then on."""

    def __init__(
        self, node: ast.ClassDef, bases: tuple[Any, ...], module: ModuleValue, complete: Callable[[Any], None]
    ) -> None:
        super().__init__(node.name, bases, {}, None, module.name)  # type: ignore[arg-type]
        self.node, self.path = node, module.path
        self._complete: Callable[[Any], None] | None = complete
        for name in _PARTS:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        """Follow the body for what only it tells."""
        if name not in _PARTS:
            raise AttributeError(name)
        complete = self._complete
        if complete is None:
            raise Undecided((f"{self.module}.{self.name}, which needs itself",))
        self._complete = None
        try:
            complete(self)
        finally:
            if name not in self.__dict__:  # stopped half-way
                self._complete = complete
        return self.__dict__[name]


class LateClasses(Base):
    """Put classes off that cannot do more than be there."""

    eager: tuple[str, ...]
    tracked_classes: frozenset[str]
    swallowed: list[tuple[str, GuestRaise]]
    apart: Callable[[ModuleValue], AbstractContextManager[None]]

    def late_class(self, node: ast.ClassDef, module: ModuleValue) -> LateClass | None:
        """Return what stands for a class of a module's top level; None where its body is to be followed."""
        eager = bool(self.eager) and module.name.startswith(self.eager)
        if eager or not _waits(node) or node.name in self.tracked_classes:
            return None
        bases = [self.evaluate(base) for base in node.bases]
        if not all(_waits_below(base) for base in bases):
            return None
        kept = tuple(base for base in bases if base is not object)
        late = LateClass(node, kept, module, lambda cls: self._complete(cls, node, module))
        late.machine = self  # type: ignore[assignment]
        return late

    def _complete(self, cls: GuestClass, node: ast.ClassDef, module: ModuleValue) -> None:
        """Follow the body of a class; one that cannot be followed leaves everything of it unknown."""
        with self.apart(module):
            try:
                self.make_class(node, cls)
            except GuestRaise as raised:
                self.swallowed.append((f"{module.name}.{node.name}", raised))
                unknown = (External(f"{module.name}.{node.name}"),)
                GuestClass.__init__(cls, node.name, unknown, {}, cls.machine, module.name)
                cls.record_is_own = False  # type: ignore[attr-defined]


def _waits(node: ast.ClassDef) -> bool:
    """Tell whether a class statement does nothing but bind what its body defines."""
    if node.decorator_list or node.keywords:
        return False
    return all(isinstance(part, _SIMPLE) or _is_text(part) for part in node.body) and not any(
        "register" in ast.unparse(decorator).lower()
        for part in node.body
        for decorator in getattr(part, "decorator_list", ())
    )


def _is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def _waits_below(base: Any) -> bool:
    """Tell whether a base class does nothing to the classes that derive from it."""
    if base is object:
        return True
    if not isinstance(base, GuestClass):
        return isinstance(base, External) and not isinstance(base, Marker)
    return not any(_acts(cls) for cls in base.mro)


def _acts(cls: Any) -> bool:
    if isinstance(cls, LateClass):
        return "__init_subclass__" in _defined(cls.node.body if cls.node is not None else ())
    if isinstance(cls, GuestClass):
        return cls.members is not None or "__init_subclass__" in cls.namespace
    return isinstance(cls, (Marker, type)) and cls is not object


def _defined(body: Iterable[ast.stmt]) -> set[str]:
    return {part.name for part in body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
