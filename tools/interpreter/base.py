"""What the parts of the machine share: its state, and the parts that others provide."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tools.interpreter.journal import Changes, Journal
from tools.interpreter.module import Frame, ModuleValue
from tools.interpreter.values import Instance, Stopped, Unknown
from tools.settings.types import HostFacts


@dataclass(frozen=True, eq=False, slots=True)
class Met:
    """Hold a condition that was met on the way: linked to the one before it."""

    node: ast.expr
    module: ModuleValue
    verdict: bool | None
    leaves: tuple[tuple[str, Any], ...]
    needs: tuple[str, ...]
    before: Met | None
    negated: bool = False
    depth: int = 0


@dataclass(eq=False, slots=True)
class Pending:
    """Hold a way that ended early (return, raise) while another one goes on."""

    kind: str
    value: Any
    mark: int
    changes: Changes
    frame: Frame
    needs: tuple[str, ...]


class Watch(Protocol):
    """See what happens: bindings on tracked objects, conditions, messages."""

    def wrote(self, instance: Instance, name: str, value: Any, node: ast.AST | None) -> None:
        """Note a binding of an attribute of a tracked object."""
        ...

    def met(self, met: Met) -> None:
        """Note a condition as it came out."""
        ...

    def said(self, level: str, text: str) -> None:
        """Note what the source logs."""
        ...


@dataclass(slots=True)
class Limits:
    """Bound one evaluation."""

    steps: int = 3_000_000
    depth: int = 110
    seconds: float = 12.0
    items: int = 200_000
    """The longest list or text that is built."""


@dataclass(slots=True)
class World:
    """Hold what the source may ask of its surroundings."""

    facts: HostFacts
    environment: dict[str, Any]
    argv: Sequence[str] = ()
    required: Mapping[str, str] = field(default_factory=dict)
    """Distributions that the package's metadata requires, with what it says of their version."""


class Base:
    """Declare the state and the operations that the parts of the machine use of each other."""

    journal: Journal
    world: World
    limits: Limits
    watch: Watch | None
    frame: Frame
    frames: list[Frame]
    modules: dict[str, ModuleValue]
    pendings: list[Pending]
    conditions: Met | None
    catching: int
    """How many ``try`` statements with handlers are being followed."""
    doubts: int
    """How many operations so far may have raised, which way being unknown."""
    leaves: list[tuple[str, Any]] | None
    steps: int
    assumptions: dict[str, None]
    library: dict[str, Any]
    store: dict[Any, Any]
    """What parts keep for one evaluation."""
    reached: set[tuple[str, int]]

    evaluate: Callable[[ast.expr], Any]
    truth: Callable[[ast.expr], Any]
    truth_of: Callable[[Any], Any]
    run_block: Callable[[Sequence[ast.stmt]], Any]
    assign: Callable[[ast.expr, Any], None]
    call: Callable[..., Any]
    native: Callable[..., Any]
    bind: Callable[..., Any]
    get_attribute: Callable[..., Any]
    set_attribute: Callable[..., None]
    iterate: Callable[[Any], Any]
    forced: Callable[[dict[str, Any], str], Any]
    lookup: Callable[[str], Any]
    raise_native: Callable[..., Any]
    make_class: Callable[..., Any]
    make_function: Callable[..., Any]
    read_body: Callable[[Any], Any]
    import_module: Callable[[str], Any]
    fork: Callable[..., Any]
    doubt: Callable[..., Unknown]
    is_instance: Callable[[Any, Any], Any]
    execute_import: Callable[[ast.stmt], None]
    external: Callable[[str], Any]

    def step(self) -> None:
        """Count one step; stop the evaluation at its bound."""
        self.steps += 1
        if self.steps > self.limits.steps:
            raise Stopped(f"more than {self.limits.steps} steps")
