"""The machine that follows source: one evaluation, its state, its bounds."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from typing import Any

from tools.interpreter.attributes import Attributes
from tools.interpreter.base import Limits, Watch, World
from tools.interpreter.calls import Calls
from tools.interpreter.classes import Classes
from tools.interpreter.environment import Environment
from tools.interpreter.expressions import Expressions
from tools.interpreter.imports import Imports
from tools.interpreter.journal import Journal
from tools.interpreter.module import Frame, ModuleValue
from tools.interpreter.operators import equal
from tools.interpreter.values import MISSING, External, GuestRaise, Stopped, Unknown
from tools.settings.types import SourceTree
from tools.syntax import Module

_CLOCK_EVERY = 4096


class Machine(Attributes, Imports, Classes, Calls, Expressions):
    """Follow the source of one package for one process."""

    def __init__(
        self,
        tree: SourceTree,
        package: str,
        world: World,
        parse: Callable[[str], Module | None],
        *,
        limits: Limits | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.tree, self.package, self.world, self.parse = tree, package, world, parse
        self.limits, self.watch = limits or Limits(), watch
        self.journal = Journal()
        self.modules: dict[str, ModuleValue] = {}
        self.pendings = []
        self.frame = Frame({}, ModuleValue("", "", None))
        self.frames: list[Frame] = []
        self.conditions = None
        self.leaves = None
        self.catching = self.doubts = self.steps = 0
        self.assumptions: dict[str, None] = {}
        self.refusals: list[tuple[GuestRaise, tuple[str, ...]]] = []
        self.swallowed: list[tuple[str, GuestRaise]] = []
        self.reached: set[tuple[str, int]] = set()
        self.environment = Environment(
            world.environment, self.journal, complete=world.facts.environment_complete
        )
        self.store: dict[Any, Any] = {}
        """What the library keeps for one evaluation (loggers, registries)."""
        self._ends = time.thread_time() + self.limits.seconds
        from tools.interpreter.library import install

        install(self)

    # the operations that the parts use of each other
    evaluate = Expressions.expression
    truth = Expressions.truth_node
    truth_of = Expressions.truth_value
    run_block = Calls.block
    assign = Calls.bind_target
    call = Calls.called
    bind = Attributes.bound
    get_attribute = Attributes.attribute
    set_attribute = Attributes.bind_attribute
    iterate = Attributes.iterated
    forced = Imports.force
    lookup = Imports.name_value
    make_class = Classes.new_class
    make_function = Calls.new_function
    is_instance = Classes.instance_of
    execute_import = Imports.import_statement
    fork = Calls.two_values
    from_native = Calls.called_back
    mapping = Expressions._mapping
    find = Attributes.find_attribute
    import_module = Imports.module_or_symbol

    call_method = Attributes.call_method
    instantiate = Classes.instantiate
    store_attribute = Attributes.store_attribute
    module_attribute = Imports.module_attribute
    parent_attribute = Imports.parent_attribute

    def step(self) -> None:
        """Count one step; stop at the bounds."""
        self.steps += 1
        if self.steps > self.limits.steps:
            raise Stopped(f"more than {self.limits.steps} steps")
        if self.steps % _CLOCK_EVERY == 0 and time.thread_time() > self._ends:
            raise Stopped(f"more than {self.limits.seconds:g} seconds")

    def equal_to(self, left: Any, right: Any) -> Any:
        """Return whether two values are equal."""
        return equal(left, right)

    def external(self, path: str) -> Any:
        """Return what stands for a name outside the package: what the library knows, else a symbol."""
        found = self.library.get(path, MISSING)
        if found is not MISSING:
            return found
        return self.library["resolve"](path)

    def refuse(self, raised: GuestRaise, needs: tuple[str, ...]) -> None:
        """Note that the source may refuse here."""
        self.refusals.append((raised, needs))

    def raise_native(self, error: BaseException) -> Any:
        """Raise a built-in exception of the source."""
        raise GuestRaise(error)

    def annotation(self, cls: Any, node: ast.expr) -> Any:
        """Evaluate an annotation of a class where the class was written."""
        module = self.modules.get(cls.module)
        if module is None:
            return Unknown((f"an annotation of {cls.name}",))
        with self.apart(module):
            self.frame = Frame(cls.namespace, module, self.frame, is_class=True)
            try:
                return self.evaluate(node)
            except GuestRaise:
                return External(ast.unparse(node))

    def postponed(self, cls: Any) -> bool:
        """Tell whether the module of a class keeps annotations as text."""
        module = self.modules.get(cls.module)
        body = module.tree.body if module is not None and module.tree is not None else []
        return any(
            isinstance(s, ast.ImportFrom)
            and s.module == "__future__"
            and any(a.name == "annotations" for a in s.names)
            for s in body[:3]
        )
