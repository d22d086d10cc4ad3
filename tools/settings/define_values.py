"""Find what a name stands for in a package, and its value where the source alone decides it.

Nothing is imported or run: a value is known when it is made of literals, through names, imports and classes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tools.settings.trees import parsed
from tools.settings.types import SourceTree
from tools.syntax import Module

Place = tuple[str, ast.AST]
"""A file of the package and a node in it."""
_DEPTH: Final = 24
_DEFINED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_MUTATORS: Final = frozenset(
    {"append", "extend", "insert", "update", "add", "remove", "pop", "clear", "sort"}
)


class Bindings:
    """Hold what the top level of one module binds each name to, in order, branches included."""

    def __init__(self, module: Module) -> None:
        self.by_name: dict[str, list[ast.AST]] = {}
        self.changed: set[str] = set()
        """Names whose value is changed in place, or bound again."""
        self.typed: dict[str, ast.AST] = {}
        """What only type checkers see bound."""
        self._add(module.tree.body)

    def _add(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.If) and _is_type_checking(statement.test):
                self._add(statement.orelse)
                for inner in statement.body:
                    self.typed.update(_bindings(inner))
                continue
            for name, node in _bindings(statement):
                if name in self.by_name:
                    self.changed.add(name)
                self.by_name.setdefault(name, []).append(node)
            self.changed.update(_changed(statement))
            for part in _parts(statement):
                self._add(part)


class Values:
    """Follow names through the modules of one package."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._bindings: dict[str, Bindings | None] = {}
        self._by_class: dict[int, dict[str, Place]] = {}

    def bindings(self, path: str) -> Bindings | None:
        """Return what a module binds; None when the package has no such file, or one that cannot be read."""
        if path not in self._bindings:
            module = self.module(path)
            self._bindings[path] = None if module is None else Bindings(module)
        return self._bindings[path]

    def module(self, path: str) -> Module | None:
        """Return a module's syntax tree; None where there is none, or nothing of it can be read."""
        try:
            return parsed(self.tree, path)
        except SyntaxError:
            return None

    def find(self, path: str, name: str, depth: int = 0) -> Place | None:
        """Return the statement that defines a name seen in a module, through imports; None when outside."""
        bound = self.bindings(path)
        if bound is None or depth > _DEPTH:
            return None
        typed = [bound.typed[name]] if name in bound.typed else []
        # A class comes first: it may be bound again to what a decorator or a factory makes of it.
        for node in sorted(reversed(bound.by_name.get(name, typed)), key=_is_no_class):
            if not isinstance(node, ast.ImportFrom):
                if not isinstance(node, ast.Import):
                    return path, node
                continue
            found = self._imported(path, node, name, depth)
            if found is not None:
                return found
        return None

    def cls(self, path: str, node: ast.AST | None) -> tuple[str, ast.ClassDef] | None:
        """Return the class that an expression names."""
        place = self.place(path, node) if node is not None else None
        if place is None or not isinstance(place[1], ast.ClassDef):
            return None
        return place[0], place[1]

    def place(self, path: str, node: ast.AST | None, depth: int = 0) -> Place | None:
        """Return where the value of a name or attribute is written: a class, a function, or an expression."""
        if depth > _DEPTH or node is None:
            return None
        if isinstance(node, ast.Name):
            found = self.find(path, node.id)
        elif isinstance(node, ast.Attribute):
            found = self._member(path, node, depth)
        else:
            return path, node
        if found is None or isinstance(found[1], ast.ClassDef | ast.FunctionDef | ast.Module):
            return found
        value = getattr(found[1], "value", None)
        if value is None:
            return None
        return self.place(found[0], value, depth + 1) or (found[0], value)

    def is_fixed(self, place: Place) -> bool:
        """Tell whether a name, by the statement that binds it, is bound once and never changed there."""
        bound = self.bindings(place[0])
        names = _bindings(place[1]) if isinstance(place[1], ast.stmt) else ()
        return bound is not None and not any(name in bound.changed for name, _ in names)

    def bases(self, path: str, cls: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
        """Yield a class and those it inherits from within the package, the class itself first."""
        todo, seen = [(path, cls)], set[int]()
        while todo:
            where, current = todo.pop(0)
            if id(current) in seen or len(seen) > _DEPTH:
                continue
            seen.add(id(current))
            yield where, current
            todo += [found for base in current.bases if (found := self.cls(where, base))]

    def _member(self, path: str, node: ast.Attribute, depth: int) -> Place | None:
        """Return what ``Class.name`` or ``module.name`` is bound to."""
        if isinstance(node.value, ast.Name):
            module = self._module_named(path, node.value.id)
            if module is not None:
                return self.find(module, node.attr)
        owner = self.place(path, node.value, depth + 1)
        if owner is None or not isinstance(owner[1], ast.ClassDef):
            return None
        return self._members(owner[0], owner[1]).get(node.attr)

    def _members(self, path: str, cls: ast.ClassDef) -> dict[str, Place]:
        """Return what the body of a class and those of its bases bind, the last binding of each name."""
        if id(cls) not in self._by_class:
            found: dict[str, Place] = {}
            for where, each in reversed(list(self.bases(path, cls))):
                for statement in each.body:
                    found.update({name: (where, statement) for name, _ in _bindings(statement)})
            self._by_class[id(cls)] = found
        return self._by_class[id(cls)]

    def _module_named(self, path: str, name: str) -> str | None:
        """Return the module of the package that a name in a module stands for."""
        bound = self.bindings(path)
        for node in bound.by_name.get(name, []) if bound else []:
            for alias in getattr(node, "names", []):
                if (alias.asname or alias.name.partition(".")[0]) != name:
                    continue
                if isinstance(node, ast.Import):
                    return self._module(alias.name if alias.asname else name)
                folder = _source(path, node, self.tree.engine)
                return self._module(f"{folder}.{alias.name}") if folder else None
        return None

    def _imported(self, path: str, node: ast.ImportFrom, name: str, depth: int) -> Place | None:
        real = next((a.name for a in node.names if (a.asname or a.name) == name), None)
        dotted = _source(path, node, self.tree.engine)
        module = self._module(dotted) if dotted else None
        if module is None or real is None or (module == path and real == name):
            return None
        return self.find(module, real, depth + 1)

    def _module(self, dotted: str) -> str | None:
        """Return the path of a module of the package."""
        package, _, rest = dotted.partition(".")
        if package != self.tree.engine:
            return None
        base = rest.replace(".", "/")
        options = [f"{base}.py", f"{base}/__init__.py"] if base else ["__init__.py"]
        return next((path for path in options if self.tree.read(path) is not None), None)


def written(node: ast.AST) -> str:
    """Return the source of an expression; that of names, which most are, at once."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        inner = node.slice
        return f"{node.value.id}[{written(inner)}]" if isinstance(inner, ast.Name) else ast.unparse(node)
    return repr(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def _source(path: str, node: ast.AST, engine: str) -> str | None:
    """Return the dotted name of the module that a ``from`` statement names."""
    if not isinstance(node, ast.ImportFrom):
        return None
    if not node.level:
        return node.module
    parts = [engine, *path.split("/")[:-1]]
    if node.level > len(parts):
        return None
    return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a statement itself binds, not those that it holds bind."""
    if isinstance(statement, _DEFINED):
        yield statement.name, statement
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id, statement
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0], statement


def _changed(statement: ast.stmt) -> Iterator[str]:
    """Yield the names whose value a statement changes in place."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
    call = statement.value if isinstance(statement, ast.Expr) else None
    method = call.func if isinstance(call, ast.Call) else None
    if isinstance(method, ast.Attribute) and method.attr in _MUTATORS and isinstance(method.value, ast.Name):
        yield method.value.id
    for target in statement.targets if isinstance(statement, ast.Assign | ast.Delete) else []:
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            yield target.value.id


def _parts(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the bodies of a statement that run as part of the module."""
    if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
        for name in ("body", "orelse", "finalbody"):
            yield getattr(statement, name, [])
        for handler in getattr(statement, "handlers", []):
            yield handler.body


def _is_no_class(node: ast.AST) -> bool:
    return not isinstance(node, ast.ClassDef)


def _is_type_checking(test: ast.expr) -> bool:
    return getattr(test, "attr", getattr(test, "id", "")) == "TYPE_CHECKING"
