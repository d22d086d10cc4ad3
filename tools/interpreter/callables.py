"""What can be called: functions of the source, methods, functions of the library."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine
    from tools.interpreter.module import ModuleValue
    from tools.interpreter.values import GuestClass


@dataclass(eq=False, slots=True)
class Function:
    """Hold a function of the source with the frame that it closes over."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    module: ModuleValue
    closure: Any
    defaults: tuple[Any, ...]
    kw_defaults: Mapping[str, Any]
    name: str
    qualname: str
    owner: GuestClass | None = None
    machine: Machine = field(repr=False, default=None)  # type: ignore[assignment]
    attrs: dict[str, Any] = field(default_factory=dict)
    late: bool = False
    """True until its parameters are read (see `Calls.read_body`)."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Follow the function for native code that calls back."""
        return self.machine.from_native(self, args, kwargs)

    def __or__(self, other: Any) -> Any:
        raise TypeError("unsupported operand")


@dataclass(eq=False, slots=True)
class BoundMethod:
    """Hold a function together with what it is called on."""

    function: Any
    self_value: Any
    machine: Machine = field(repr=False, default=None)  # type: ignore[assignment]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Follow the method for native code that calls back."""
        return self.machine.from_native(self, args, kwargs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundMethod)
            and other.function is self.function
            and other.self_value is self.self_value
        )

    def __hash__(self) -> int:
        return hash((id(self.function), id(self.self_value)))


@dataclass(eq=False, slots=True)
class Native:
    """Hold a function of the library: it gets the machine, then what the source passes.

    ``raw`` ones take unknown arguments; the others give an unknown when one of theirs is.
    """

    name: str
    run: Callable[..., Any]
    machine: Machine = field(repr=False, default=None)  # type: ignore[assignment]
    raw: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it for native code that calls back."""
        return self.machine.from_native(self, args, kwargs)


def natives(machine: Machine, runs: Mapping[str, Callable[..., Any]]) -> dict[str, Native]:
    """Return functions of the library by their dotted names; they take unknown arguments."""
    return {path: Native(path.rsplit(".", 1)[1], run, machine) for path, run in runs.items()}


@dataclass(eq=False, slots=True)
class Descriptor:
    """Hold a property, static method, class method or cached property of a class of the source."""

    kind: str
    get: Any = None
    set: Any = None
