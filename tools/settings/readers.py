"""List where a setting is used, ranked by how much it decides there."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tools.scopes import statement_at, symbol_of
from tools.settings.blocks import Hit, outline
from tools.settings.candidates import reads_in, words_of
from tools.settings.effects import (
    Branch,
    branch_of,
    first_line,
    in_endless_loop,
    lines_of,
    source_of,
)
from tools.settings.needs import Unit, unit_of
from tools.settings.reach import Profile, Reached, profile_of, reached
from tools.settings.resolving import resolving
from tools.settings.slots import Slots, slots_of, twins_of
from tools.settings.trees import cite, memo
from tools.settings.types import Cite, SourceTree
from tools.settings.uses import Use, use_of
from tools.statements import statements
from tools.syntax import Module, Step, collector_paused

WEIGHTS: Final[Mapping[Use, float]] = {
    "branch": 60,
    "loop bound": 50,
    "ternary": 45,
    "constructor argument": 40,
    "arithmetic": 30,
    "test": 28,
    "argument": 25,
    "stored copy": 20,
    "returned": 18,
    "check": 15,
    "other": 10,
    "logged": 5,
}
"""How much each use decides; a branch over many lines gains up to 12, one in the loop of a server 6; code
that no server runs loses 30."""
_MOST_FOLLOWED: Final = 30
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Reader:
    """Hold one use of a setting."""

    name: str
    use: Use
    weight: float
    text: str
    """The test, or the statement's first line, in the source's words."""
    decides: str
    """How what runs when the test holds begins."""
    lines: int
    """Over how many lines the two sides of the test reach."""
    cite: Cite
    symbol: str | None
    through: str | None
    """The attribute or variable that it was copied into, where that is what is used."""
    serving: bool
    resolving: bool
    """True where the settings are still being worked out."""
    unit: Unit
    branch: Branch | None = field(compare=False, repr=False)
    way: tuple[Step, ...] = field(compare=False, repr=False)
    module: Module = field(compare=False, repr=False)
    source: ast.expr | None = field(default=None, compare=False, repr=False)
    """The expression that was copied, for a use through a copy."""


def readers(tree: SourceTree, name: str) -> tuple[Reader, ...]:
    """Return every use of a setting, the one that decides most first."""
    kept: dict[str, tuple[Reader, ...]] = memo(tree, "readers")
    if name not in kept:
        kept[name] = readers_of(tree, [name]).get(name, ())
    return kept[name]


def readers_of(tree: SourceTree, names: Iterable[str]) -> Mapping[str, tuple[Reader, ...]]:
    """Return every use of several settings, by name; the package is read once."""
    found: dict[str, list[Reader]] = {name: [] for name in names}
    profile = profile_of(tree)
    slots = slots_of(tree, profile, found)
    words = words_of(profile, list(slots))
    with collector_paused():
        for path, data in tree.mentions(words).items() if slots else ():
            if len(found) > 1 and not profile.serves(path):
                continue
            for reader in _in_file(tree, profile, slots, path, data):
                found[reader.name].append(reader)
    twins = twins_of(profile, slots, found)
    return {name: tuple(sorted(found[twins.get(name, name)], key=_order)) for name in found}


def _order(reader: Reader) -> tuple[float, str, int]:
    return -reader.weight, reader.cite.path, reader.cite.line


def _in_file(tree: SourceTree, profile: Profile, slots: Slots, path: str, data: bytes) -> Iterator[Reader]:
    for hit in reads_in(profile, data, slots.keys()):
        name = _read(profile, slots, hit)
        if name is None:
            continue
        reader = _reader(tree, profile, name, path, hit.module, _expression(hit.way), hit.line)
        yield reader
        if reader.use in ("stored copy", "test", "arithmetic"):
            yield from _followed(tree, profile, reader, path, data)


def _read(profile: Profile, slots: Slots, hit: Hit) -> str | None:
    """Return the setting that is read at a place; None when it is another thing, or written."""
    node = hit.way[-1].child if hit.way else None
    if isinstance(node, ast.Attribute):
        if node.attr != hit.word or not isinstance(node.ctx, ast.Load):
            return None
        found = reached(profile, node.value, hit.way, hit.module)
    elif isinstance(node, ast.Constant) and isinstance(hit.way[-1].parent, ast.Call):
        call = hit.way[-1].parent
        if node.value != hit.word or getattr(call.func, "id", "") != "getattr" or hit.way[-1].index != 1:
            return None
        found = reached(profile, call.args[0], hit.way, hit.module)
    elif isinstance(node, ast.JoinedStr):
        found = _formatted(profile, node, hit)
    else:
        return None
    return slots[hit.word].get(found.cls) if found is not None else None


def _formatted(profile: Profile, text: ast.JoinedStr, hit: Hit) -> Reached | None:
    """Return what holds an attribute that a formatted text shows; positions in these are not reliable."""
    for node in ast.walk(text):
        if isinstance(node, ast.Attribute) and node.attr == hit.word:
            return reached(profile, node.value, hit.way, hit.module)
    return None


def _expression(way: list[Step]) -> list[Step]:
    """Return the way to what has the setting's value: ``getattr`` itself, not the name in it."""
    return way[:-1] if isinstance(way[-1].child, ast.Constant) else way


def _reader(
    tree: SourceTree,
    profile: Profile,
    name: str,
    path: str,
    module: Module,
    way: list[Step],
    line: int,
    through: tuple[str, ast.expr] | None = None,
) -> Reader:
    use = use_of(way)
    branch = branch_of(way)
    lines = lines_of(branch.holds) + lines_of(branch.fails) if branch is not None else 0
    serving = profile.serves(path)
    weight = WEIGHTS[use] + min(12.0, 2 * math.log2(1 + lines)) - (0 if serving else 30)
    weight += 6 if in_endless_loop(way) else 0
    early = resolving(path)
    return Reader(
        name,
        use,
        round(weight - (8 if early else 0) - (4 if through is not None else 0), 1),
        _text(module, way, branch)[:300],
        first_line(module, branch.holds) if branch is not None else "",
        lines,
        cite(tree, path, line),
        symbol_of(way),
        through[0] if through is not None else None,
        serving,
        early,
        unit_of(path, way),
        branch,
        tuple(way),
        module,
        through[1] if through is not None else None,
    )


def _text(module: Module, way: list[Step], branch: Branch | None) -> str:
    if branch is not None:
        return source_of(module, branch.test)
    statement = statement_at(way)
    if statement is None or isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return source_of(module, way[-1].child)
    if isinstance(statement, ast.For | ast.AsyncFor):
        return source_of(module, statement.iter)
    return source_of(module, statement)


def _followed(tree: SourceTree, profile: Profile, reader: Reader, path: str, data: bytes) -> Iterator[Reader]:
    """Yield where a copy of the setting decides something in the same file."""
    statement = statement_at(list(reader.way))
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    count = 0
    for way, module, line in _uses(target, reader, data):
        if use_of(way) in ("branch", "loop bound", "ternary", "constructor argument"):
            source = (ast.unparse(target), statement.value)
            yield _reader(tree, profile, reader.name, path, module, way, line, source)
            count += 1
            if count == _MOST_FOLLOWED:
                return


def _uses(target: ast.expr, reader: Reader, data: bytes) -> Iterator[tuple[list[Step], Module, int]]:
    if isinstance(target, ast.Attribute):
        for hit in outline(data).hits({target.attr}, after=b"."):
            node = hit.way[-1].child if hit.way else None
            if isinstance(node, ast.Attribute) and _copied(node, target.attr):
                yield hit.way, hit.module, hit.line
        return
    function = next((s.child for s in reversed(reader.way) if isinstance(s.child, _FUNCTIONS)), None)
    if not isinstance(target, ast.Name) or function is None:
        return
    first, last = function.lineno, function.end_lineno or 0
    if sum(_binds(statement, target.id) for statement in statements(function.body)) == 1:
        for hit in outline(data).hits({target.id}):
            named = hit.way[-1].child if hit.way else None
            loads = isinstance(named, ast.Name) and isinstance(named.ctx, ast.Load)
            if loads and first <= hit.line <= last:
                yield hit.way, hit.module, hit.line


def _copied(node: ast.Attribute, attribute: str) -> bool:
    """Tell whether an attribute is read from an object that is not the settings themselves."""
    holder = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    reads = node.attr == attribute and isinstance(node.ctx, ast.Load)
    return reads and not holder.endswith(("_args", "_config"))


def _binds(statement: ast.stmt, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return any(isinstance(t, ast.Name) and t.id == name for t in targets)
