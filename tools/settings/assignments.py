"""Recognise the assignments of a setting, in every form that engines write them in."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

from tools.scopes import statement_at
from tools.settings.blocks import Hit
from tools.settings.flows import Flow, FlowForm, called, flow_of
from tools.settings.reach import Profile, Reached, reached
from tools.settings.slots import Slots
from tools.statements import statements
from tools.syntax import Step

Form = FlowForm
"""How it is written: ``x.name = v``; ``setattr`` or a function like it; one over a list of names; a copy with
other values; what a resolution step declares; an update of the settings in force; a table of values by model
or level that other code applies; ``del``."""

_REPLACE: Final = ("replace", "_replace", "evolve", "model_copy")
_DECLARE: Final = ("declare_resolution",)
_OVERRIDE: Final = ("override", "override_permanently")


@dataclass(frozen=True, slots=True)
class Site:
    """Hold one assignment as it stands in the source."""

    name: str
    form: Form
    reached: Reached | None
    value: ast.expr | None
    hit: Hit
    applied: Flow | None = None
    """Where a dictionary that holds the value is applied, when that is another statement."""


def site_of(profile: Profile, slots: Slots, path: str, hit: Hit) -> Site | None:
    """Return the assignment that a place is part of; None when it reads, defines or only mentions."""
    if not hit.way or hit.word not in slots:
        return None
    node = hit.way[-1].child
    if isinstance(node, ast.Attribute):
        return _attribute(profile, slots, node, hit)
    if isinstance(node, ast.Constant) and node.value == hit.word:
        return _in_text(profile, slots, path, hit)
    if isinstance(node, ast.keyword) and node.arg == hit.word:
        return _keyword(profile, slots, path, node, hit)
    return None


def _attribute(profile: Profile, slots: Slots, node: ast.Attribute, hit: Hit) -> Site | None:
    if node.attr != hit.word or isinstance(node.ctx, ast.Load):
        return None
    found = reached(profile, node.value, hit.way, hit.module)
    name = _slot(slots, hit.word, found)
    if name is None:
        return None
    statement = statement_at(hit.way)
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return None
    form: Form = "delete" if isinstance(node.ctx, ast.Del) else "attribute"
    return Site(name, form, found, _assigned(statement, node), hit)


def _slot(slots: Slots, word: str, found: Reached | None) -> str | None:
    return slots[word].get(found.cls) if found is not None and found.way != "view" else None


def _assigned(statement: ast.stmt | None, target: ast.expr) -> ast.expr | None:
    """Return what a target gets: the part of a tuple that stands at its place, where there is one."""
    if isinstance(statement, ast.AugAssign):
        return ast.BinOp(target, statement.op, statement.value)
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return None
    for whole in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        if whole is target:
            return statement.value
        if isinstance(whole, ast.Tuple | ast.List) and target in whole.elts:
            value, index = statement.value, whole.elts.index(target)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(whole.elts):
                return value.elts[index]
            return ast.Subscript(value, ast.Constant(index), ast.Load()) if value is not None else None
    return None


def _in_text(profile: Profile, slots: Slots, path: str, hit: Hit) -> Site | None:
    """Recognise a name in quotes: an argument of ``setattr``, one of a list, or the key of a dictionary."""
    parent, field, index = hit.way[-1].parent, hit.way[-1].field, hit.way[-1].index
    if isinstance(parent, ast.Call) and field == "args":
        return _setter(profile, slots, parent, index, hit) or _of_flow(profile, slots, path, hit)
    if isinstance(parent, ast.Tuple | ast.List | ast.Set):
        return _looped(profile, slots, hit)
    if isinstance(parent, ast.Dict | ast.Subscript):
        return _of_flow(profile, slots, path, hit)
    return None


def _setter(profile: Profile, slots: Slots, call: ast.Call, index: int, hit: Hit) -> Site | None:
    """Recognise ``setattr(x, "name", v)``, ``object.__setattr__`` and setters of the engine's own."""
    function = called(call)
    if "set" not in function or function in ("hasattr", "getattr", "set", "setdefault"):
        return None
    holder: ast.expr | None = call.args[index - 1] if index else None
    if holder is None and isinstance(call.func, ast.Attribute):
        holder = call.func.value
    found = reached(profile, holder, hit.way, hit.module) if holder is not None else None
    name = _slot(slots, hit.word, found)
    if name is None or len(call.args) != index + 2:
        return None
    return Site(name, "setattr", found, call.args[index + 1], hit)


def _looped(profile: Profile, slots: Slots, hit: Hit) -> Site | None:
    """Recognise a name in a list over which a loop calls ``setattr``."""
    place = hit.way[-1].parent
    loops = [s.parent for s in hit.way if isinstance(s.parent, ast.For) and s.field == "iter"]
    statement = statement_at(hit.way)
    if not loops and isinstance(statement, ast.Assign) and statement.value is place:
        variable = ast.unparse(statement.targets[0])
        loops = [s for s in _function_body(hit.way) if isinstance(s, ast.For) and _is(s.iter, variable)]
    for loop in loops:
        for call in _setattr_calls(loop):
            found = reached(profile, call.args[0], hit.way, hit.module)
            name = _slot(slots, hit.word, found)
            if name is not None and _is(call.args[1], ast.unparse(loop.target)):
                applied = Flow("loop", call, found)
                return Site(name, "loop", found, call.args[2], hit, applied)
    return None


def _setattr_calls(loop: ast.For) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and called(node) in ("setattr", "__setattr__") and len(node.args) == 3
    ]


def _is(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == text


def _function_body(way: list[Step]) -> list[ast.stmt]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    function = next((s.child for s in reversed(way) if isinstance(s.child, functions)), None)
    return list(statements(function.body)) if function is not None else []


def _keyword(profile: Profile, slots: Slots, path: str, node: ast.keyword, hit: Hit) -> Site | None:
    call = hit.way[-1].parent
    if not isinstance(call, ast.Call):
        return None
    form, found = writer(profile, call, hit)
    if form is not None:
        name = _slot(slots, hit.word, found)
        return None if name is None else Site(name, form, found, node.value, hit)
    return _of_flow(profile, slots, path, hit)


def writer(profile: Profile, call: ast.Call, hit: Hit) -> tuple[Form | None, Reached | None]:
    """Tell whether a call writes the settings that its keywords name, and whose settings these are."""
    function = called(call)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    shared = Reached(next(iter(profile.classes.values())), "settings") if profile.classes else None
    if function in _DECLARE:
        return "declaration", shared
    if function in _OVERRIDE and owner is not None:
        found = reached(profile, owner, hit.way, hit.module)
        return ("override", shared) if found is not None and found.way == "section" else (None, None)
    if function in _REPLACE:
        first = call.args[0] if call.args else owner
        found = reached(profile, first, hit.way, hit.module) if first is not None else None
        return ("replace", Reached(found.cls, "copy")) if found is not None else (None, None)
    return None, None


def _of_flow(profile: Profile, slots: Slots, path: str, hit: Hit) -> Site | None:
    """Recognise a dictionary entry whose dictionary is applied to the settings."""
    flow = flow_of(profile, path, hit, lambda call: writer(profile, call, hit))
    if flow is None:
        return None
    name = _slot(slots, hit.word, flow.reached) if flow.reached is not None else None
    if name is None:
        return None
    return Site(name, flow.form, flow.reached, flow.value, hit, flow)
