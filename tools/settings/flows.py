"""Follow a dictionary of settings to where it is applied: ``**changes``, a return, a ``setattr`` loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from tools.scopes import statement_at
from tools.settings.blocks import Hit
from tools.settings.reach import Profile, Reached, reached
from tools.syntax import Step

FlowForm = Literal["attribute", "setattr", "loop", "replace", "declaration", "override", "table", "delete"]
Writer = Callable[[ast.Call], tuple[Any, Reached | None]]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OUTWARDS: Final = (ast.IfExp, ast.BoolOp, ast.BinOp, ast.keyword, ast.Attribute, ast.Call)
"""Through what a dictionary passes on its way to where it is applied."""
_TABLE = re.compile(r"OVERRIDE|DEFAULT|PRESET|CONFIG|BUNDLE")
_PROVIDER = re.compile(r"register|override|provider|post_process")


@dataclass(frozen=True, slots=True)
class Flow:
    """Hold where a dictionary is applied, and the value of the entry that is looked at."""

    form: FlowForm
    node: ast.AST | None
    reached: Reached | None
    value: ast.expr | None = None


def flow_of(profile: Profile, path: str, hit: Hit, writer: Writer) -> Flow | None:
    """Return where the dictionary with this entry is applied to settings; None when it is not."""
    place = _entry(hit.way)
    if place is None:
        return None
    index, value, variable = place
    if variable is None:
        found = _direct(profile, path, hit, hit.way[:index], writer)
        if isinstance(found, Flow):
            return Flow(found.form, found.node, found.reached, value)
        variable = found
    if variable is None:
        return None
    flow = _by_name(profile, path, hit, variable, writer)
    return flow and Flow(flow.form, flow.node, flow.reached, value)


def _entry(way: list[Step]) -> tuple[int, ast.expr | None, str | None] | None:
    """Return where on the way the dictionary stands, the entry's value, and the variable if it is one."""
    last = way[-1]
    parent = last.parent
    if isinstance(parent, ast.Dict) and last.field == "keys":
        return len(way) - 1, parent.values[last.index], None
    if isinstance(parent, ast.Subscript) and last.field == "slice":
        statement = statement_at(way)
        stored = isinstance(parent.ctx, ast.Store) and isinstance(statement, ast.Assign)
        if stored and isinstance(statement, ast.Assign) and isinstance(parent.value, ast.Name):
            return len(way) - 1, statement.value, parent.value.id
        return None
    if not isinstance(parent, ast.Call):
        return None
    function = parent.func
    value = last.child.value if isinstance(last.child, ast.keyword) else None
    if isinstance(function, ast.Name) and function.id == "dict" and value is not None:
        return len(way) - 1, value, None
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        if function.attr == "update" and value is not None:
            return len(way) - 1, value, function.value.id
        if function.attr == "setdefault" and last.field == "args" and len(parent.args) == 2:
            return len(way) - 1, parent.args[1], function.value.id
    return None


def _direct(profile: Profile, path: str, hit: Hit, way: list[Step], writer: Writer) -> Flow | str | None:
    """Follow a dictionary display outwards: applied on the spot, or bound to a variable (its name)."""
    keys: list[str] = []
    for step in reversed(way):
        parent = step.parent
        if isinstance(parent, ast.Dict):
            key = parent.keys[step.index] if step.field == "values" else None
            keys.append(str(key.value) if isinstance(key, ast.Constant) else "")
        elif isinstance(parent, ast.Call) and step.field != "func":
            return _called(profile, hit, parent, step, writer)
        elif isinstance(parent, ast.For):
            found = _set_in(profile, hit, parent)
            return Flow("loop", parent, found) if found is not None else None
        elif isinstance(parent, ast.Return):
            return _returned(profile, path, hit)
        elif isinstance(parent, ast.Assign | ast.AnnAssign):
            target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
            if not isinstance(target, ast.Name):
                return None
            inside = any(isinstance(s.child, _FUNCTIONS) for s in hit.way)
            return target.id if inside and not any(keys) else _table(profile, path, target.id, keys)
        elif not isinstance(parent, _OUTWARDS):
            return None
    return None


def _called(profile: Profile, hit: Hit, call: ast.Call, step: Step, writer: Writer) -> Flow | str | None:
    if isinstance(step.child, ast.keyword) and step.child.arg is None:
        form, found = writer(call)
        return Flow(form, None, found) if form is not None else None
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "update":
        if isinstance(function.value, ast.Name):
            return function.value.id
        found = _inner(profile, hit, function.value)
        return Flow("attribute", None, found) if found is not None else None
    if isinstance(step.child, ast.keyword) and step.child.arg == "update":
        form, found = writer(call)
        return Flow(form, None, found) if form is not None else None
    return None


def _inner(profile: Profile, hit: Hit, node: ast.expr) -> Reached | None:
    """Return whose settings ``x.__dict__`` or ``vars(x)`` are."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return reached(profile, node.value, hit.way, hit.module)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "vars" and node.args:
        return reached(profile, node.args[0], hit.way, hit.module)
    return None


def _table(profile: Profile, path: str, target: str, keys: list[str]) -> Flow | None:
    """Recognise a table at the top of a settings file, by the section that an inner key names."""
    if profile.engine == "sglang":
        hook = path.startswith("srt/arg_groups/") and _TABLE.search(target.upper())
        return Flow("table", None, _shared(profile)) if hook else None
    cls = next((profile.names[key] for key in keys if key in profile.names), None)
    return Flow("table", None, Reached(cls, "settings")) if cls is not None else None


def _shared(profile: Profile) -> Reached:
    return Reached(next(iter(profile.classes.values())), "settings")


def _returned(profile: Profile, path: str, hit: Hit) -> Flow | None:
    """Recognise a function that declares by what it returns: registered as such, or among the hooks."""
    function = next((s.child for s in reversed(hit.way) if isinstance(s.child, _FUNCTIONS)), None)
    if function is None or profile.engine != "sglang":
        return None
    marked = any(_PROVIDER.search(ast.unparse(d)) for d in function.decorator_list)
    annotation = ast.unparse(function.returns).lower() if function.returns is not None else ""
    hook = path.startswith("srt/arg_groups/") and "dict" in annotation
    return Flow("declaration", None, _shared(profile)) if marked or hook else None


def _by_name(profile: Profile, path: str, hit: Hit, variable: str, writer: Writer) -> Flow | None:
    """Find in the function around a place how a variable's content is applied."""
    function = next((s.child for s in reversed(hit.way) if isinstance(s.child, _FUNCTIONS)), None)
    for node in _nodes(function):
        if isinstance(node, ast.Call):
            spread = any(k.arg is None and _names(k.value, variable) for k in node.keywords)
            update = any(k.arg == "update" and _names(k.value, variable) for k in node.keywords)
            form, found = writer(node) if spread or update else (None, None)
            if form is None and _updates(node, variable) and isinstance(node.func, ast.Attribute):
                found = _inner(profile, hit, node.func.value)
                form = "attribute" if found is not None else None
            if form is not None:
                return Flow(form, node, found)
        elif isinstance(node, ast.For) and _items_of(node.iter, variable):
            found = _set_in(profile, hit, node)
            if found is not None:
                return Flow("loop", node, found)
        elif isinstance(node, ast.Return) and node.value is not None and _gives(node.value, variable):
            flow = _returned(profile, path, hit)
            if flow is not None:
                return Flow(flow.form, node, flow.reached)
    return None


def _nodes(function: ast.AST | None) -> Iterator[ast.AST]:
    return ast.walk(function) if function is not None else iter(())


def _names(node: ast.expr, variable: str) -> bool:
    return isinstance(node, ast.Name) and node.id == variable


def _updates(call: ast.Call, variable: str) -> bool:
    return getattr(call.func, "attr", "") == "update" and any(_names(a, variable) for a in call.args)


def _items_of(node: ast.expr, variable: str) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr == "items" and _names(called.value, variable)


def _set_in(profile: Profile, hit: Hit, loop: ast.For) -> Reached | None:
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and len(node.args) == 3 and called(node) in ("setattr", "__setattr__"):
            return reached(profile, node.args[0], hit.way, hit.module)
    return None


def called(call: ast.Call) -> str:
    """Return the name of what a call calls, without what it is an attribute of."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _gives(node: ast.expr, variable: str) -> bool:
    """Tell whether a returned expression is a variable, or a dictionary that takes it in."""
    if isinstance(node, ast.Dict):
        return any(k is None and _names(v, variable) for k, v in zip(node.keys, node.values, strict=True))
    if isinstance(node, ast.BinOp):
        return _gives(node.left, variable) or _gives(node.right, variable)
    return _names(node, variable)
