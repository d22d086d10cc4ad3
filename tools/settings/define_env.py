"""Find the environment variables that a package declares: SGLang's ``Envs``, vLLM's ``envs.py``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from tools.settings.define_expressions import Names
from tools.settings.define_fields import parameters
from tools.settings.define_static import Default, Static
from tools.settings.define_values import Values, written
from tools.settings.trees import cite_node, parsed
from tools.settings.types import Definition
from tools.statements import UNKNOWN
from tools.syntax import Module

_TYPES: Final = {
    "Bool": "bool",
    "Int": "int",
    "Float": "float",
    "Str": "str",
    "Tuple": "tuple",
    "JSON": "json",
}
_WITH_CHOICES: Final = frozenset({"env_with_choices", "env_list_with_choices", "env_set_with_choices"})


class EnvironmentStatic(Static):
    """Evaluate expressions as they come out when no variable is set."""

    def _attribute(self, path: str, node: ast.Attribute, names: Names, depth: int) -> Any:
        if written(node) == "os.environ":
            return {}
        return super()._attribute(path, node, names, depth)

    def _call(self, path: str, node: ast.Call, names: Names, depth: int) -> Any:
        if written(node.func) in ("os.getenv", "getenv") and not node.keywords:
            return self.value(path, node.args[1], names, depth) if len(node.args) > 1 else None
        called = getattr(node.func, "id", "")
        if called.startswith("maybe_convert_") and len(node.args) == 1:
            held = self.value(path, node.args[0], names, depth)
            return None if held is None else UNKNOWN
        return super()._call(path, node, names, depth)


def of_class(values: Values, path: str, name: str) -> Iterator[Definition]:
    """Yield the variables that a class declares by one descriptor each, renamed ones with their old names."""
    found = values.find(path, name)
    module = parsed(values.tree, path)
    if found is None or module is None or not isinstance(found[1], ast.ClassDef):
        return
    static = EnvironmentStatic(values)
    old = _renamed(values, path, module)
    for statement in found[1].body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                yield from _of_descriptor(static, path, module, name, target.id, statement, old)
    for before, after in old.items():
        yield _old(values, path, module, name, before, after)


def _of_descriptor(
    static: Static,
    path: str,
    module: Module,
    owner: str,
    name: str,
    statement: ast.Assign,
    old: dict[str, str],
) -> Iterator[Definition]:
    call = statement.value
    assert isinstance(call, ast.Call)
    named = {k.arg: k.value for k in call.keywords}
    node = call.args[0] if call.args else named.get("default")
    default = static.default(path, node) if node is not None else Default(True, None, "None")
    place = static.values.place(path, node) if isinstance(node, ast.Name) else None
    if place is not None and isinstance(place[1], ast.FunctionDef):
        default = Default(False, None, f"{default.text}()")
    before = [each for each, after in old.items() if after == name]
    alias = static.value(path, named.get("deprecated_name"))
    if isinstance(alias, str):
        before.append(alias)
        if alias not in old:
            yield _old(static.values, path, module, owner, alias, name, statement)
    kind = getattr(call.func, "attr", getattr(call.func, "id", ""))
    yield Definition(
        name,
        "environment",
        owner,
        cite_node(static.values.tree, path, statement),
        type=_TYPES.get(kind.removeprefix("Env").removesuffix("WithAlias")),
        default=default.value,
        default_known=default.known,
        default_text=default.text,
        help=_unless_heading(comment(module, statement)),
        deprecated_flags=tuple(dict.fromkeys(before)),
    )


def _old(
    values: Values, path: str, module: Module, owner: str, before: str, after: str, at: ast.stmt | None = None
) -> Definition:
    """Return the definition of a variable's former name."""
    lines = [i for i, line in enumerate(module.lines, 1) if before.encode() in line]
    where = at or ast.Pass(lineno=lines[0] if lines else 1, end_lineno=lines[0] if lines else 1)
    return Definition(
        before,
        "environment",
        owner,
        cite_node(values.tree, path, where),
        default=None,
        deprecated=f"use {after}" if after else "has no effect any more, or goes",
    )


def _renamed(values: Values, path: str, module: Module) -> dict[str, str]:
    """Return former names to present ones, from the calls that say so when the module is loaded."""
    found: dict[str, str] = {}
    place = values.find(path, "_print_deprecated_env")
    if place is None or not isinstance(place[1], ast.FunctionDef):
        return found
    order = [argument.arg for argument, _ in parameters(place[1])]
    static = Static(values)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_print_deprecated_env":
            given = dict(zip(order, (static.value(path, each) for each in node.args), strict=False))
            given |= {k.arg: static.value(path, k.value) for k in node.keywords if k.arg}
            before, after = given.get("old_name"), given.get("new_name")
            if isinstance(before, str):
                found[before] = after if isinstance(after, str) else ""
    return found


def of_table(values: Values, path: str, name: str) -> Iterator[Definition]:
    """Yield the variables of a dictionary from name to a function that reads it."""
    place = values.find(path, name)
    module, bound = parsed(values.tree, path), values.bindings(path)
    table = getattr(place[1], "value", None) if place else None
    if module is None or bound is None or not isinstance(table, ast.Dict):
        return
    static = EnvironmentStatic(values)
    for key, reader in zip(table.keys, table.values, strict=True):
        variable = static.value(path, key)
        if key is None or not isinstance(variable, str):
            continue
        default, choices = _of_reader(static, path, reader)
        declared = bound.typed.get(variable)
        annotation = declared.annotation if isinstance(declared, ast.AnnAssign) else None
        yield Definition(
            variable,
            "environment",
            path.removesuffix(".py").replace("/", "."),
            cite_node(values.tree, path, ast.Expr(reader, lineno=key.lineno, end_lineno=reader.end_lineno)),
            type=written(annotation) if annotation is not None else None,
            default=default.value,
            default_known=default.known,
            default_text=default.text,
            choices=choices,
            help=comment(module, key),
        )


def _of_reader(static: Static, path: str, reader: ast.expr) -> tuple[Default, tuple[Any, ...] | None]:
    """Return what a variable's reader gives when it is not set, and what it accepts."""
    if isinstance(reader, ast.Lambda):
        value = static.value(path, reader.body)
        return Default(value is not UNKNOWN, None if value is UNKNOWN else value, written(reader.body)), None
    called = getattr(getattr(reader, "func", None), "id", "")
    if isinstance(reader, ast.Call) and called in _WITH_CHOICES:
        given: dict[str | None, ast.expr] = dict(
            zip(("env_name", "default", "choices"), reader.args, strict=False)
        )
        given |= {k.arg: k.value for k in reader.keywords}
        choices = static.value(path, given.get("choices"))
        known = tuple(choices) if isinstance(choices, list | tuple) else None
        return static.default(path, given.get("default")), known
    return Default(False, None, written(reader)), None


def _unless_heading(text: str) -> str:
    """Return a comment that says something of one variable, not what heads a group of them."""
    return text if len(text.split()) > 5 else ""


def comment(module: Module, node: ast.stmt | ast.expr) -> str:
    """Return the comment that stands right above a line, else behind it."""
    found: list[str] = []
    line = node.lineno - 2
    while line >= 0 and module.lines[line].lstrip().startswith(b"#"):
        found.insert(0, module.lines[line].strip().lstrip(b"# ").decode("utf-8", "replace"))
        line -= 1
    if found:
        return " ".join(found)
    _, mark, behind = module.lines[(node.end_lineno or node.lineno) - 1].rpartition(b"  # ")
    return behind.decode("utf-8", "replace").strip() if mark else ""
