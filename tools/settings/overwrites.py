"""List every assignment of a setting in an engine's package, with what must hold for it to happen."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tools.scopes import statement_at, symbol_of
from tools.settings.assignments import Form, Site, site_of
from tools.settings.callers import Callers, CallPath, registration
from tools.settings.candidates import words_of, writes_in
from tools.settings.needs import Need, Unit, body_of, needs_at, unit_of
from tools.settings.pairs import Pair, pair_of
from tools.settings.reach import Profile, Way, profile_of
from tools.settings.slots import Slots, slots_of, twins_of
from tools.settings.trees import cite, memo
from tools.settings.types import Cite, SourceTree
from tools.statements import UNKNOWN, constant
from tools.syntax import Step, collector_paused

_LOGS: Final = ("logger", "logging", "warnings", "print", "print_warning_once", "print_info_once", "log")
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Hold one assignment of a setting: what it writes, where, and everything that must hold before.

    ``conditions`` are those within its function, outermost first.
    """

    name: str
    form: Form
    on: Way
    """On which object: the settings themselves (``own``, ``settings``) or a copy of them."""
    text: str
    """The value in the source's words."""
    value: Any
    known: bool
    """True when ``value`` is the constant that is written."""
    cite: Cite
    symbol: str | None
    line: int
    """The first line of the statement."""
    unit: Unit
    body: tuple[int, int]
    """The lines of the function that it stands in, the innermost one."""
    conditions: tuple[Need, ...]
    serving: bool
    """False in tools and tests that come with the package, which no server runs."""
    tree: SourceTree = field(compare=False, repr=False)
    callers: Callers = field(compare=False, repr=False)
    pair: Pair | None = None
    logged: str | None = None
    """What is logged beside it; None when it is silent."""

    @property
    def paths(self) -> tuple[CallPath, ...]:
        """Return the ways from an entry point to its function; they are searched for when asked for."""
        return self.callers.paths(self.unit)[0]

    @property
    def every_path(self) -> bool:
        """Tell whether there are no more ways than `paths`."""
        return self.callers.paths(self.unit)[1]


def overwrites(tree: SourceTree, name: str) -> tuple[Overwrite, ...]:
    """Return every assignment of a setting, in the order of files and lines."""
    return overwrites_of(tree, [name]).get(name, ())


def overwrites_of(tree: SourceTree, names: Iterable[str]) -> Mapping[str, tuple[Overwrite, ...]]:
    """Return every assignment of several settings, by name; the package is read once."""
    key = tuple(names)
    kept: dict[tuple[str, ...], Mapping[str, tuple[Overwrite, ...]]] = memo(tree, "overwrites")
    if key not in kept:
        kept[key] = _overwrites_of(tree, key)
    return kept[key]


def _overwrites_of(tree: SourceTree, names: Sequence[str]) -> Mapping[str, tuple[Overwrite, ...]]:
    profile = profile_of(tree)
    callers: Callers = memo(tree, "callers").setdefault("", Callers(tree, profile))
    found: dict[str, list[Overwrite]] = {name: [] for name in names}
    slots = slots_of(tree, profile, found)
    with collector_paused():
        sites = list(_sites(tree, profile, slots))
        for path, site in sites:
            found[site.name].append(_overwrite(tree, profile, callers, path, site))
    twins = twins_of(profile, slots, found)
    return {name: tuple(found[twins.get(name, name)]) for name in found}


def _sites(tree: SourceTree, profile: Profile, slots: Slots) -> Iterator[tuple[str, Site]]:
    if not slots:
        return
    for path, data in tree.mentions(words_of(profile, list(slots))).items():
        for hit in writes_in(profile, path, data, slots.keys()):
            site = site_of(profile, slots, path, hit)
            if site is not None:
                yield path, site


def _overwrite(tree: SourceTree, profile: Profile, callers: Callers, path: str, site: Site) -> Overwrite:
    hit = site.hit
    statement = statement_at(hit.way)
    line = statement.lineno if statement is not None else hit.line
    unit = unit_of(path, hit.way)
    conditions = _conditions(tree, path, site)
    if site.form == "declaration":
        registered = registration(tree, path, hit)
        conditions = (registered, *conditions) if registered is not None else conditions
    value = constant(site.value)
    text = ast.unparse(site.value)[:_LONGEST] if site.value is not None else ""
    return Overwrite(
        site.name,
        site.form,
        site.reached.way if site.reached is not None else "settings",
        text,
        None if value is UNKNOWN else value,
        value is not UNKNOWN,
        cite(tree, path, *_lines(statement, hit.line)),
        symbol_of(hit.way),
        line,
        unit,
        body_of(hit.way),
        conditions,
        profile.serves(path),
        tree,
        callers,
        pair_of(hit.module, hit.way, hit.word, hit.line),
        _logged(hit.way),
    )


def _lines(statement: ast.stmt | None, line: int) -> tuple[int, int]:
    """Return the lines to cite: the statement's, or one line of a long one."""
    if statement is None or isinstance(statement, ast.For | ast.With | ast.If | ast.ClassDef):
        return line, line
    last = statement.end_lineno or line
    return (statement.lineno, last) if last - statement.lineno < 8 else (line, line)


def _conditions(tree: SourceTree, path: str, site: Site) -> tuple[Need, ...]:
    """Return the conditions of an assignment, and of the statement that applies it where that is another."""
    found = list(needs_at(tree, path, site.hit.module, site.hit.way))
    if site.applied is not None and site.applied.node is not None:
        known = {(need.line, need.column, need.text) for need in found}
        way = _way_to(site.hit.way, site.applied.node)
        for need in needs_at(tree, path, site.hit.module, way):
            if (need.line, need.column, need.text) not in known:
                found.append(need)
    return tuple(found)


def _way_to(way: list[Step], target: ast.AST) -> list[Step]:
    """Return the way to a node of the same file, from the module at the start of another way."""
    stack: list[list[Step]] = [[]]
    while stack:
        so_far = stack.pop()
        node = so_far[-1].child if so_far else way[0].parent
        if node is target:
            return so_far
        for name in node._fields:
            value = getattr(node, name, None)
            children = value if isinstance(value, list) else [value]
            for index, child in enumerate(children):
                if isinstance(child, ast.AST):
                    stack.append([*so_far, Step(node, name, index, child)])
    return []


def _logged(way: list[Step]) -> str | None:
    """Return what is logged in the same block as the end of a way."""
    step = next((s for s in reversed(way) if isinstance(s.child, ast.stmt)), None)
    block = getattr(step.parent, step.field, None) if step is not None else None
    if not isinstance(block, list) or isinstance(step.parent if step else None, ast.ClassDef | ast.Module):
        return None
    for statement in block:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[0] in _LOGS:
            return _message(call)
    return None


def _message(call: ast.Call) -> str:
    parts = []
    for argument in call.args[:1]:
        for node in ast.walk(argument):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts.append(node.value)
    return " ".join("".join(parts).split())[:_LONGEST] or ast.unparse(call)[:_LONGEST]
