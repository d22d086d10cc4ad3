"""Modules: those of the package are followed when a name of theirs is read, others are symbols."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tools.interpreter.distributions import STDLIB, Distributions
from tools.interpreter.journal import Journal
from tools.interpreter.late_classes import LateClasses
from tools.interpreter.module import Frame, Lazy, ModuleValue
from tools.interpreter.parents import Parents
from tools.interpreter.values import (
    MISSING,
    Function,
    GuestRaise,
    Unknown,
)
from tools.settings.types import SourceTree
from tools.syntax import Module

_PLAIN: Final = (ast.Constant, ast.Lambda)


class Imports(LateClasses, Distributions, Parents):
    """Find modules and names."""

    tree: SourceTree
    parse: Callable[[str], Module | None]
    package: str
    refusals: list[tuple[GuestRaise, tuple[str, ...]]]
    swallowed: list[tuple[str, GuestRaise]]
    """Errors at the level of modules: the names that they should have bound are unknown."""
    eager: tuple[str, ...] = ()
    """Modules whose imports are followed at once, for what they register, by the start of their names."""

    # --- modules ----------------------------------------------------------------------------------

    def module_named(self, name: str) -> ModuleValue | None:
        """Return a module of the package, or None when there is none of the name."""
        if name in self.modules:
            return self.modules[name]
        if name.split(".")[0] != self.package:
            return None
        inner = name.split(".")[1:]
        for path, is_package in (("/".join([*inner, "__init__.py"]), True), ("/".join(inner) + ".py", False)):
            if not path.startswith(".") and (parsed := self.parse(path)) is not None:
                module = ModuleValue(name, path, parsed.tree, is_package, source=parsed)
                self._start(module)
                return module
        if self._is_folder("/".join(inner)):
            module = ModuleValue(name, "/".join(inner), None, True)
            module.ran = True
            self.modules[name] = module
            return module
        return None

    def _is_folder(self, path: str) -> bool:
        if self._folders is None:
            self._folders = {path[:at] for path in self.tree.paths() for at, c in enumerate(path) if c == "/"}
        return path in self._folders

    _folders: set[str] | None = None

    def _start(self, module: ModuleValue) -> None:
        module.globals.update({"__name__": module.name, "__file__": module.path, "__package__": module.name})
        if module.path.endswith("/__init__.py"):
            module.globals["__path__"] = [module.path.removesuffix("/__init__.py")]
        self.modules[module.name] = module
        self._run_module(module)

    @contextmanager
    def apart(self, module: ModuleValue) -> Iterator[None]:
        """Follow something of a module outside of the ways that are open now."""
        held = (
            self.journal,
            self.pendings,
            self.frame,
            self.leaves,
            self.conditions,
            self.catching,
            self.frames,
        )
        journal = Journal()
        journal.share(self.journal)
        self.journal, self.pendings, self.leaves, self.conditions = journal, [], None, None
        self.catching, doubts, refusals = 0, self.doubts, len(self.refusals)
        self.frame = Frame(module.globals, module)
        self.frames = [*held[6]]
        try:
            yield
        finally:
            self.journal, self.pendings, self.frame, self.leaves = held[0], held[1], held[2], held[3]
            self.conditions, self.catching, self.frames = held[4], held[5], held[6]
            self.doubts = doubts
            del self.refusals[refusals:]

    def _run_module(self, module: ModuleValue) -> None:
        if module.tree is None or module.ran:
            return
        module.ran = True
        try:
            with self.apart(module):
                for statement in module.tree.body:
                    self._top_level(statement, module)
        except GuestRaise:
            self.modules.pop(module.name, None)
            raise

    def _top_level(self, node: ast.stmt, module: ModuleValue) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._require_at_top(node)
            self.bind_imports(node, module, module.globals)
        elif isinstance(node, ast.ClassDef) and not any(map(_registers, node.decorator_list)):
            module.globals[node.name] = Lazy("class", module, node, node.name)
        elif isinstance(node, ast.FunctionDef) and node.decorator_list and not self._is_eager(module):
            module.globals[node.name] = Lazy("function", module, node, node.name)
        elif (name := _simple_target(node)) is not None and name not in module.globals:
            module.globals[name] = Lazy("assign", module, node, name)
        else:
            if isinstance(node, (ast.Assign, ast.AugAssign)) and _changes_something(node):
                self._catch_up(module)
            self._now(node, module)

    def _is_eager(self, module: ModuleValue) -> bool:
        return bool(self.eager) and module.name.startswith(self.eager)

    def _require_at_top(self, node: ast.Import | ast.ImportFrom) -> None:
        """Raise when a module needs a package that is surely absent; others are taken as installed."""
        for name in self._roots(node):
            if name.split(".")[0] != self.package and self.present(name) is False:
                self.raise_native(ModuleNotFoundError(f"No module named '{name.split('.')[0]}'"))

    def _catch_up(self, module: ModuleValue) -> None:
        """Find what was left for later, before a statement changes what it would find."""
        for name, value in list(module.globals.items()):
            if isinstance(value, Lazy) and value.kind in ("class", "assign"):
                self.forced(module.globals, name)

    def _now(self, node: ast.stmt, module: ModuleValue) -> None:
        """Follow a statement of a module; what cannot be followed leaves its names unknown."""
        try:
            self.run_block([node])
        except GuestRaise as raised:
            if isinstance(raised.value, ImportError):
                raise
            self.swallowed.append((module.name, raised))
            for name in _bound_names(node):
                module.globals[name] = Unknown((f"{module.name}.{name}",))

    def bind_imports(
        self, node: ast.Import | ast.ImportFrom, module: ModuleValue, names: dict[str, Any]
    ) -> None:
        """Bind what an import statement names, to be found when it is read."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                target = alias.name if alias.asname else alias.name.split(".")[0]
                self.journal.set(names, bound, Lazy("module", module, target, bound))
                if alias.name.startswith(self.eager) and self.eager:
                    self.module_named(alias.name)
            return
        source = self.absolute(node, module)
        for alias in node.names:
            if alias.name == "*":
                module.stars.append(source)
            else:
                bound = alias.asname or alias.name
                self.journal.set(names, bound, Lazy("from", module, (source, alias.name), bound))
        if self.eager and source.startswith(self.eager):
            self.module_named(source)
            for alias in node.names:
                self.module_named(f"{source}.{alias.name}")

    def absolute(self, node: ast.ImportFrom, module: ModuleValue) -> str:
        """Return the full name of the module that a ``from`` statement names."""
        if not node.level:
            return node.module or ""
        parts = module.name.split(".")
        parts = parts[: len(parts) - node.level + (1 if module.is_package else 0)]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def import_statement(self, node: ast.stmt) -> None:
        """Follow an import inside a function (or a branch of a module): absent packages raise."""
        assert isinstance(node, (ast.Import, ast.ImportFrom))
        frame = self.frame
        for name in self._roots(node):
            self._require(name, node)
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            self._check_names(node)
        self.bind_imports(node, frame.module, frame.names)

    def _roots(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        return [] if node.level else [node.module or ""]

    def _require(self, name: str, node: ast.stmt | None) -> None:
        root = name.split(".")[0]
        if root == self.package:
            if self.module_named(name) is None:
                self.raise_native(ModuleNotFoundError(f"No module named '{name}'"))
            return
        found = self.present(name)
        if found is False:
            self.raise_native(ModuleNotFoundError(f"No module named '{root}'"))
        elif isinstance(found, Unknown):
            self.doubts += 1

    def _check_names(self, node: ast.ImportFrom) -> None:
        source = self.module_named(node.module or "")
        if source is None:
            for alias in node.names:
                self._check_foreign(node.module or "", alias.name)
            return
        for alias in node.names:
            if alias.name != "*" and self._find(source, alias.name) is MISSING:
                self.raise_native(ImportError(f"cannot import name '{alias.name}' from '{node.module}'"))

    def _check_foreign(self, source: str, name: str) -> None:
        """Raise when a package surely lacks a name; doubt where its version is not known."""
        root = source.split(".")[0]
        known = self.library.get(f"{root}?has")
        found = known(name) if known is not None else None
        if found is False:
            self.raise_native(ImportError(f"cannot import name '{name}' from '{source}'"))
        if found is None and root not in STDLIB and self.catching and not self.pinned(root):
            self.doubts += 1

    # --- names ------------------------------------------------------------------------------------

    def name_value(self, name: str) -> Any:
        """Return what a name means here; raise the source's `NameError` when it means nothing."""
        frame: Frame | None = self.frame
        first = frame
        while frame is not None:
            if name in frame.names and (not frame.is_class or frame is first):
                found = frame.names[name]
                return self.forced(frame.names, name) if isinstance(found, Lazy) else found
            frame = frame.parent
        found = self._global(self.frame.module, name)
        if found is not MISSING:
            return found
        found = self.library.get(f"builtins.{name}", MISSING)
        if found is MISSING:
            raise GuestRaise(NameError(f"name '{name}' is not defined"))
        return found

    def force(self, names: dict[str, Any], name: str) -> Any:
        """Return a name of a namespace, found now if it was left for later."""
        value = names.get(name, MISSING)
        if not isinstance(value, Lazy):
            return value
        if value.running:
            return Unknown((f"{value.module.name}.{name}, which needs itself",))
        value.running = True
        try:
            found = self._resolve(value)
        finally:
            value.running = False
        if names.get(name) is value:
            names[name] = found
        return names.get(name, found)

    def _resolve(self, value: Lazy) -> Any:
        if value.kind == "module":
            return self.module_or_symbol(value.node)
        if value.kind == "from":
            return self._from(*value.node)
        with self.apart(value.module):
            try:
                if value.kind == "class":
                    return self.late_class(value.node, value.module) or self.make_class(value.node)
                if value.kind == "function":
                    return self.make_function(value.node)
                return self.evaluate(value.node.value)
            except GuestRaise as raised:
                self.swallowed.append((f"{value.module.name}.{value.name}", raised))
                return Unknown((f"{value.module.name}.{value.name}",))

    def module_or_symbol(self, name: str) -> Any:
        """Return a module of the package, or the symbol of another one."""
        found = self.module_named(name)
        return found if found is not None else self.external(name)

    def _from(self, source: str, name: str) -> Any:
        if source.split(".")[0] != self.package:
            return self.external(f"{source}.{name}")
        module = self.module_named(source)
        found = self._find(module, name) if module is not None else MISSING
        if found is MISSING:
            raise GuestRaise(ImportError(f"cannot import name '{name}' from '{source}'"))
        return found

    def _global(self, module: ModuleValue, name: str) -> Any:
        if name in module.globals:
            return self.forced(module.globals, name)
        for source in module.stars:
            starred = self.module_named(source) if source.startswith(self.package) else None
            if starred is not None and not name.startswith("_") and starred is not module:
                found = self._find(starred, name)
                if found is not MISSING:
                    return found
        return MISSING

    def _find(self, module: ModuleValue, name: str) -> Any:
        found = self._global(module, name)
        if found is not MISSING:
            return found
        if module.is_package:
            inner = self.module_named(f"{module.name}.{name}")
            if inner is not None:
                return inner
        return self._from_hook(module, name)

    def _from_hook(self, module: ModuleValue, name: str) -> Any:
        hook = module.globals.get("__getattr__")
        if not isinstance(hook, Function) or name.startswith("__"):
            return MISSING
        try:
            with self.apart(module):
                return self.call(hook, (name,), {})
        except GuestRaise as raised:
            if isinstance(raised.value, (AttributeError, ImportError)):
                return MISSING
            raise

    def module_attribute(self, module: ModuleValue, name: str) -> Any:
        """Return a name of a module, or `MISSING`."""
        if name == "__dict__":
            return module.globals
        return self._find(module, name)


def _simple_target(node: ast.stmt) -> str | None:
    """Return the one name that an assignment binds to something that is not a plain constant."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return None if isinstance(node.value, _PLAIN) else node.targets[0].id
    if isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
        return None if isinstance(node.value, _PLAIN) else node.target.id
    return None


def _registers(decorator: ast.expr) -> bool:
    """Tell whether a decorator may do more than change its class: keep it somewhere, for one."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = (
        called.attr
        if isinstance(called, ast.Attribute)
        else called.id
        if isinstance(called, ast.Name)
        else ""
    )
    return "register" in name.lower()


def _changes_something(node: ast.Assign | ast.AugAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(t, (ast.Attribute, ast.Subscript)) for t in targets)


def _bound_names(node: ast.stmt) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
            yield inner.name
        elif isinstance(inner, ast.alias):
            yield inner.asname or inner.name.split(".")[0]


__all__ = ["Imports"]
