"""Find by which calls a function is reached from an entry point, and under which conditions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tools.guards import unknown
from tools.scopes import statement_at
from tools.settings.blocks import Hit, outline
from tools.settings.needs import Need, Unit, body_of, needs_at, unit_of
from tools.settings.reach import Profile
from tools.settings.trees import cite
from tools.settings.types import Cite, SourceTree
from tools.syntax import Step

MOST_SITES: Final = 6
MOST_FILES: Final = 40
"""A name that more files hold is too common to follow."""
MOST_DEPTH: Final = 6
MOST_PATHS: Final = 8
_ROOTS: Final = frozenset(
    {"from_cli_args", "resolve_once", "create_engine_config", "main", "run_server", "launch_server"}
    | {"run_scheduler_process", "prepare_server_args", "add_cli_args"}
)
"""Functions that a server surely goes through, or whose callers say nothing about settings."""
_BUILDERS: Final = ("__init__", "__post_init__", "__new__")
_REGISTERS: Final = re.compile(r"_for\b|override|provider")


@dataclass(frozen=True, slots=True)
class Call:
    """Hold one place that calls a function, or hands it on to be called."""

    cite: Cite
    symbol: str
    text: str
    line: int
    """The first line of its statement."""
    unit: Unit
    body: tuple[int, int]
    """The lines of the function that it stands in, the innermost one."""
    conditions: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class CallPath:
    """Hold the calls from an entry point to a function, outermost first.

    ``settled`` is False when nothing shows that its first function is run: then it may never be.
    """

    calls: tuple[Call, ...]
    root: str
    settled: bool


class Callers:
    """Search one package for calls; what was found is kept."""

    def __init__(self, tree: SourceTree, profile: Profile) -> None:
        self._tree = tree
        self._profile = profile
        self._direct: dict[tuple[str, str | None, str | None], tuple[list[Call], bool]] = {}
        self._paths: dict[Unit, tuple[tuple[CallPath, ...], bool]] = {}

    def paths(self, unit: Unit) -> tuple[tuple[CallPath, ...], bool]:
        """Return the ways in which a function is reached, and whether these are all there are."""
        if unit not in self._paths:
            complete = [True]
            found: list[CallPath] = []
            for path in self._towards(unit, (unit,), complete):
                if len(found) == MOST_PATHS:
                    complete[0] = False
                    break
                found.append(path)
            self._paths[unit] = (tuple(found), complete[0])
        return self._paths[unit]

    def _towards(self, unit: Unit, seen: tuple[Unit, ...], complete: list[bool]) -> Iterator[CallPath]:
        if self.is_root(unit):
            yield CallPath((), unit.symbol, True)
            return
        if len(seen) > MOST_DEPTH:
            yield CallPath((), unit.symbol, False)
            return
        calls, every = self.direct(unit)
        complete[0] = complete[0] and every
        onward = [call for call in calls if call.unit not in seen]
        if not onward:
            yield CallPath((), unit.symbol, False)
        for call in onward:
            for path in self._towards(call.unit, (*seen, call.unit), complete):
                yield CallPath((*path.calls, call), path.root, path.settled)

    def is_root(self, unit: Unit) -> bool:
        """Tell whether a function is one that a server surely goes through, or the top of a file."""
        if unit.name is None or unit.name in _ROOTS:
            return True
        return unit.name == "__post_init__" and unit.cls in self._profile.classes

    def direct(self, unit: Unit) -> tuple[list[Call], bool]:
        """Return the calls of a function, and whether these are all that the package has."""
        if _key(unit) not in self._direct:
            self._search([unit])
        return self._direct[_key(unit)]

    def prepare(self, units: Iterable[Unit]) -> None:
        """Search for the calls of many functions at once, and for the calls of these, level by level."""
        level = list(dict.fromkeys(units))
        for _ in range(MOST_DEPTH):
            level = [u for u in level if not self.is_root(u) and _key(u) not in self._direct]
            if not level:
                return
            self._search(level)
            level = list(dict.fromkeys(call.unit for u in level for call in self._direct[_key(u)][0]))

    def _search(self, units: list[Unit]) -> None:
        found: dict[Unit, list[Call]] = {}
        far: dict[Unit, str] = {}
        for unit in units:
            word = _word(unit)
            found[unit] = []
            if word is None:
                continue
            found[unit] += self._in_file(unit, word, unit.path, self._tree.read(unit.path) or b"")
            if not found[unit] or not (word.startswith("_") or unit.cls in self._profile.classes):
                far[unit] = word
        files = self._files(set(far.values())) if far else {}
        for unit, word in far.items():
            named = files[word] if len(files[word]) <= MOST_FILES else []
            for path in named:
                if path != unit.path and len(found[unit]) <= MOST_SITES:
                    data = self._tree.read(path) or b""
                    found[unit] += self._in_file(unit, word, path, data)
        for unit, calls in found.items():
            every = len(calls) <= MOST_SITES and len(files.get(far.get(unit, ""), ())) <= MOST_FILES
            self._direct[_key(unit)] = calls[:MOST_SITES], every and _word(unit) is not None

    def _files(self, words: set[str]) -> dict[str, list[str]]:
        """Return the files of serving processes that hold each word."""
        files: dict[str, list[str]] = {word: [] for word in words}
        encoded = [(word, word.encode()) for word in sorted(words)]
        for path, data in self._tree.mentions(sorted(words), self._profile.scope).items():
            if self._profile.serves(path):
                for word, wanted in encoded:
                    if wanted in data:
                        files[word].append(path)
        return files

    def _in_file(self, unit: Unit, word: str, path: str, data: bytes) -> Iterator[Call]:
        for hit in outline(data).hits({word}):
            if _calls(unit, word, path, hit):
                yield self._call(path, hit)

    def _call(self, path: str, hit: Hit) -> Call:
        statement = statement_at(hit.way)
        line = statement.lineno if statement is not None else hit.line
        caller = unit_of(path, hit.way)
        text = ast.unparse(_whole_call(hit.way)).splitlines()[0][:160]
        needs = needs_at(self._tree, path, hit.module, hit.way)
        return Call(
            cite(self._tree, path, hit.line), caller.symbol, text, line, caller, body_of(hit.way), needs
        )


def _key(unit: Unit) -> tuple[str, str | None, str | None]:
    return unit.path, unit.cls, unit.name


def _word(unit: Unit) -> str | None:
    """Return the name by which a function is called; None when it is called by none."""
    word = unit.cls if unit.name in _BUILDERS and unit.cls else unit.name
    return None if word is None or word.startswith("__") else word


def _whole_call(way: list[Step]) -> ast.AST:
    last = way[-1]
    if isinstance(last.parent, ast.Call):
        return last.parent
    statement = statement_at(way)
    return statement if isinstance(statement, ast.Assign | ast.Return | ast.Expr) else last.child


def _calls(unit: Unit, word: str, path: str, hit: Hit) -> bool:
    """Tell whether a place calls the function, or hands it on."""
    node = hit.way[-1].child if hit.way else None
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    named = node.id if isinstance(node, ast.Name) else node.attr
    if named != word or _only_named(hit.way):
        return False
    here = unit_of(path, hit.way)
    if (here.path, here.cls, here.name) == (unit.path, unit.cls, unit.name):
        return False
    if word == unit.cls:
        return True
    if isinstance(node, ast.Name):
        return unit.cls is None
    return unit.cls is None or _may_be(unit, here, node.value, hit)


def _may_be(unit: Unit, here: Unit, holder: ast.expr, hit: Hit) -> bool:
    """Tell whether a method that is called on an object may be the one of the class that is looked at."""
    if not isinstance(holder, ast.Name) or holder.id not in ("self", "cls"):
        return True
    if here.cls == unit.cls:
        return True
    cls = next((s.child for s in hit.way if isinstance(s.child, ast.ClassDef)), None)
    bases = [ast.unparse(base).rpartition(".")[2] for base in cls.bases] if cls is not None else []
    return unit.cls in bases


def _only_named(way: list[Step]) -> bool:
    """Tell whether a name stands where it is not called: annotations, bases, imports, type tests."""
    for step in reversed(way):
        parent = step.parent
        if step.field in ("annotation", "returns", "bases", "decorator_list", "type", "names"):
            return True
        if isinstance(parent, ast.Call) and getattr(parent.func, "id", "") in ("isinstance", "issubclass"):
            return True
        if isinstance(parent, ast.Compare | ast.Subscript | ast.Attribute):
            return True
        if isinstance(parent, ast.stmt):
            return False
    return False


def registration(tree: SourceTree, path: str, hit: Hit) -> Need | None:
    """Return what must hold for a function that is called through a registry, by its decorator."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    function = next((s.child for s in hit.way if isinstance(s.child, functions)), None)
    for decorator in function.decorator_list if function is not None else ():
        text = " ".join(ast.unparse(decorator).split())
        if _REGISTERS.search(text):
            line = decorator.lineno
            where = cite(tree, path, line, decorator.end_lineno or line)
            said = f"what @{text} registers is called"
            node = unknown(said)
            return Need(f"<{said}>", path, line, decorator.col_offset, where, node, (), hit.module)
    return None
