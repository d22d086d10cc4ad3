"""Run parts of a package's own source without what it needs: only the names that are really used load.

A module of the package is parsed, and each top-level statement runs when one of the names it binds is first
asked for. Questions about hardware and third parties are answered by a table of facts; everything else that
is not there resolves to a `StandIn`, which may be passed around but whose value may never decide anything:
that raises `StandInUsed` instead of going on with a guess. Standard library only.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from evals.lab.stand_ins import FactModule


class _LazyBuiltins(dict[str, Any]):
    """Resolve global names of one module on first use.

    Class bodies look names up in the globals dict directly, without ``__missing__``; the builtins that come
    after are asked through it by class bodies and functions alike, so that is where laziness hangs.
    """

    def __init__(self, module: SourceModule) -> None:
        super().__init__(vars(builtins))
        self._module = module
        self["__import__"] = module.package.import_name

    def __missing__(self, name: str) -> Any:
        try:
            return self._module.value(name)
        except AttributeError:
            raise KeyError(name) from None


@lru_cache(maxsize=256)
def _statements(path: str, changed_ns: int) -> tuple[tuple[ast.stmt, frozenset[str], frozenset[str]], ...]:
    tree = ast.parse(Path(path).read_text(encoding="utf-8"), path)
    return tuple((stmt, frozenset(_bound(stmt)), frozenset(_touched(stmt))) for stmt in tree.body)


def _bound(stmt: ast.stmt) -> Iterator[str]:
    """Yield the names that a top-level statement binds in its module, nested blocks included."""
    match stmt:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield stmt.name
        case ast.Import() | ast.ImportFrom():
            for alias in stmt.names:
                yield alias.asname or alias.name.split(".")[0]
        case ast.If() | ast.Try() | ast.With() | ast.For():
            inner: list[ast.stmt] = [
                *stmt.body,
                *getattr(stmt, "orelse", []),
                *getattr(stmt, "finalbody", []),
            ]
            for handler in getattr(stmt, "handlers", []):
                inner += handler.body
            for child in inner:
                yield from _bound(child)
        case _:
            for node in ast.walk(stmt):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


def _touched(stmt: ast.stmt) -> Iterator[str]:
    """Yield the names whose value a top-level statement changes in place (``X.append(1)``, ``X[1] = 2``)."""
    for node in ast.walk(stmt) if not isinstance(stmt, ast.FunctionDef | ast.ClassDef) else ():
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.value, ast.Name):
            called = isinstance(node, ast.Attribute) and isinstance(stmt, ast.Expr | ast.If | ast.For)
            if called or isinstance(node.ctx, ast.Store):
                yield node.value.id


class SourceModule(ModuleType):
    """Hold one module of the package; its statements run as their names are needed."""

    def __init__(self, package: Package, name: str, path: Path) -> None:
        super().__init__(name)
        is_package = path.name == "__init__.py"
        self.__file__ = str(path)
        self.__package__ = name if is_package else name.rpartition(".")[0]
        if is_package:
            self.__path__ = [str(path.parent)]
        self.package = package
        self._facts = package.facts.get(name, {})
        self._statements = _statements(str(path), path.stat().st_mtime_ns)
        self._done: set[int] = set()
        self._globals = vars(self)
        self._globals["__builtins__"] = _LazyBuiltins(self)
        self._globals.update(self._facts)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.value(name)

    def value(self, name: str) -> Any:
        """Return a global name's value, running the statements that make it; raise `AttributeError`."""
        if name in self._globals:
            return self._globals[name]
        own = any(
            name in bound and not isinstance(stmt, ast.Import | ast.ImportFrom)
            for stmt, bound, _ in self._statements
        )
        for number, (stmt, bound, touched) in enumerate(self._statements):
            if name in bound or (own and name in touched and name in self._globals):
                self._run(number, stmt)
        if name in self._globals:
            return self._globals[name]
        return self._elsewhere(name)

    def run_all(self) -> None:
        """Run every statement except imports (those stay lazy), as importing the module would."""
        for number, (stmt, _, _) in enumerate(self._statements):
            if not isinstance(stmt, ast.Import | ast.ImportFrom):
                self._run(number, stmt)

    def _run(self, number: int, stmt: ast.stmt) -> None:
        if number in self._done:
            return
        self._done.add(number)
        # Annotations stay text: evaluating them would load modules only to name types.
        flags = __future__.annotations.compiler_flag
        code = compile(ast.Module([stmt], []), self.__file__ or "", "exec", flags=flags, dont_inherit=True)
        exec(code, self._globals)  # the package's own source, which the engine would run itself
        self._globals.update(self._facts)

    def _elsewhere(self, name: str) -> Any:
        """Look in modules imported with a star, in the module's own ``__getattr__``, in its submodules."""
        for stmt, bound, _ in self._statements:
            if isinstance(stmt, ast.ImportFrom) and "*" in bound:
                source = self.package.module(self.package.absolute(stmt, self))
                if hasattr(source, name):
                    return getattr(source, name)
        if any("__getattr__" in bound for _, bound, _ in self._statements):
            self._run_named("__getattr__")
            return self._globals["__getattr__"](name)
        try:
            return self.package.module(f"{self.__name__}.{name}")
        except ModuleNotFoundError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def _run_named(self, name: str) -> None:
        for number, (stmt, bound, _) in enumerate(self._statements):
            if name in bound:
                self._run(number, stmt)


class _Folder(ModuleType):
    """Stand for a folder without ``__init__.py``: it holds modules only."""

    def __init__(self, package: Package, name: str, path: Path) -> None:
        super().__init__(name)
        self.__path__ = [str(path)]
        self._package = package

    def __getattr__(self, name: str) -> Any:
        try:
            return self._package.module(f"{self.__name__}.{name}")
        except ModuleNotFoundError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


class Package:
    """Import from one package's source tree: its own modules lazily, the rest from facts or stand-ins."""

    def __init__(
        self,
        folder: Path,
        *,
        facts: Mapping[str, Mapping[str, Any]],
        modules: Mapping[str, ModuleType],
        installed: Callable[[str], bool],
        whole: frozenset[str] = frozenset(),
    ) -> None:
        self.name = folder.name
        self.folder = folder
        self.facts = facts
        self._given = dict(modules)
        self._installed = installed
        self._whole = whole
        self._loaded: dict[str, ModuleType] = {}
        self._hidden: dict[str, ModuleType | None] = {}

    def __enter__(self) -> Package:
        return self

    def __exit__(self, *exc: object) -> None:
        """Take the modules out of `sys.modules` again, where dataclasses looked for them."""
        for name, before in self._hidden.items():
            sys.modules.pop(name, None)
            if before is not None:
                sys.modules[name] = before

    def module(self, name: str) -> Any:
        """Return a module by its absolute name; raise `ModuleNotFoundError` where the host has none."""
        if name in self._given:
            return self._given[name]
        if name not in self._loaded:
            self._loaded[name] = module = self._load(name)
            if isinstance(module, SourceModule):
                self._hidden[name] = sys.modules.get(name)
                sys.modules[name] = module
                if name in self._whole:
                    module.run_all()
        return self._loaded[name]

    def _load(self, name: str) -> ModuleType:
        top = name.partition(".")[0]
        if top == self.name:
            base = self.folder.joinpath(*name.split(".")[1:])
            for path in (base.with_suffix(".py") if base != self.folder else base, base / "__init__.py"):
                if path.is_file():
                    return SourceModule(self, name, path)
            if base.is_dir():
                return _Folder(self, name, base)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if top in self._given:
            parent, _, last = name.rpartition(".")
            part = getattr(self.module(parent), last)
            return part if isinstance(part, ModuleType) else FactModule(name, {})
        if top in sys.stdlib_module_names:
            return importlib.import_module(name)
        if not self._installed(top):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return FactModule(name, {})

    def absolute(self, stmt: ast.ImportFrom, module: SourceModule) -> str:
        """Return the absolute name of the module that an import statement names."""
        return self._absolute(stmt.module or "", stmt.level, module.__package__ or "")

    @staticmethod
    def _absolute(name: str, level: int, package: str) -> str:
        if not level:
            return name
        base = package.rsplit(".", level - 1)[0] if level > 1 else package
        return f"{base}.{name}" if name else base

    def import_name(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> Any:
        """Do what ``__import__`` does, inside the package's source."""
        if name == "__future__":
            return importlib.import_module(name)
        target = self._absolute(name, level, str((globals or {}).get("__package__") or ""))
        module = self.module(target)
        if fromlist and "*" in fromlist:
            return ModuleType(target)  # names of a star import are looked up where they are asked for
        if not fromlist and "." in name and not level:
            return self.module(name.partition(".")[0])
        for part in fromlist or ():
            if part.startswith("__"):
                continue
            if not hasattr(module, part):
                raise ImportError(f"cannot import name {part!r} from {target!r}", name=target)
        return module
