"""Read an engine's settings from its own source: defaults, launch options, and where they are overwritten."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools.statements import UNKNOWN, constant, statements, targets, text_of, write_value
from tools.syntax import Module

HIDDEN: Final = "[value hidden]"
_SECRET = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
_NOT_SECRET = re.compile(r"token(s|izer|ization|_)|_tokens", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Engine:
    """Say where an engine defines its settings and by which names its code reaches them."""

    name: str
    file: str
    cls: str
    names: tuple[str, ...]
    calls: tuple[str, ...] = ()
    scope: str = ""
    """Files below this folder of the package run in the serving process and use these settings."""
    copied: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By the object they are copied into: switches that stay on there when the launch line gives them."""


ENGINES: Final = {
    "sglang": Engine(
        "sglang",
        "srt/server_args.py",
        "ServerArgs",
        ("server_args",),
        ("get_global_server_args", "get_server_args"),
        "srt/",
    ),
    "vllm": Engine(
        "vllm",
        "engine/arg_utils.py",
        "EngineArgs",
        ("engine_args",),
        copied={"model_config": frozenset({"enforce_eager"})},
    ),
}


@dataclass(frozen=True, slots=True)
class Field:
    """Hold one setting of the class: its lines, annotation and default (`UNKNOWN` unless a constant)."""

    name: str
    line: int
    annotation: str
    default: Any
    last_line: int = 0


@dataclass(frozen=True, slots=True)
class Option:
    """Hold one command-line option as the source declares it."""

    names: tuple[str, ...]
    dest: str
    action: str
    type: str
    nargs: Any
    default: Any
    const: Any
    line: int


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Hold one assignment to a setting after its definition; ``path`` is set in another file."""

    line: int
    value: Any
    column: int = 0
    path: str = ""
    on: str = "self"
    """The name that the setting was reached by."""


@dataclass(slots=True)
class Definitions:
    """Hold what one version of an engine says about its settings."""

    engine: Engine
    module: Module
    fields: dict[str, Field]
    options: dict[str, Option]
    renames: dict[str, str]
    """Setting to the ``dest`` its option is parsed into, where the two differ (None: computed)."""
    overwrites: dict[str, list[Overwrite]]
    outside: dict[str, list[Overwrite]] = field(default_factory=dict)
    """Assignments in other files of the package, found by text."""
    by_dest: dict[str, Option] = field(default_factory=dict)

    def option_of(self, name: str) -> Option | None:
        """Return the option that sets a field."""
        if not self.by_dest:
            self.by_dest = {option.dest: option for option in reversed(self.options.values())}
        return self.by_dest.get(self.renames.get(name, name))


def read_definitions(engine: Engine, module: Module) -> Definitions:
    """Read a settings file; raise `SyntaxError` when it lacks the class."""
    module.read_all()
    cls = next((s for s in module.tree.body if isinstance(s, ast.ClassDef) and s.name == engine.cls), None)
    if cls is None:
        raise SyntaxError(f"no class {engine.cls} in it")
    constants = {
        s.targets[0].id: constant(s.value)
        for s in module.tree.body
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
    }
    fields = {found.name: found for s in cls.body if (found := _field(s, constants))}
    methods = {s.name: s for s in cls.body if isinstance(s, ast.FunctionDef)}
    declaring = methods.get("add_cli_args")
    options: dict[str, Option] = {}
    for call in _declarations(declaring.body) if declaring else ():
        option = _option(call, engine.cls, fields)
        if option is not None:
            options.update(dict.fromkeys(option.names, option))
    building = methods.get("from_cli_args")
    renames = _renames(building) if building else {}
    return Definitions(engine, module, fields, options, renames, _overwrites(cls))


_OUTSIDE = re.compile(
    r"^(?P<path>.+?):(?P<line>\d+):.*?(?P<on>\w+(?:\(\))?)\.(?P<name>\w+)\s*(?P<op>[-+*/|&]?=)\s*(?P<value>[^=].*)$"
)


def read_outside(definitions: Definitions, listing: str) -> None:
    """Add the assignments in other files, from lines ``path:line:text`` of a search."""
    for row in listing.splitlines():
        found = _OUTSIDE.match(row)
        if not found or found["name"] not in definitions.fields:
            continue
        if found["path"].endswith(definitions.engine.file):
            continue
        try:
            value = ast.literal_eval(found["value"]) if found["op"] == "=" else UNKNOWN
        except (ValueError, SyntaxError, TypeError):
            value = UNKNOWN
        entry = Overwrite(int(found["line"]), value, path=found["path"], on=found["on"])
        definitions.outside.setdefault(found["name"], []).append(entry)


def outside_pattern(engine: Engine) -> str:
    """Return the pattern (of rg and ``grep -E`` alike) that finds assignments in other files."""
    names = "|".join([*engine.names, "args", *(f"{call}[(][)]" for call in engine.calls)])
    return rf"(^|[^A-Za-z0-9_])({names})[.][A-Za-z0-9_]+ *[-+*/|&]?=[^=]"


def is_secret(name: str) -> bool:
    """Tell whether a setting or variable of this name holds a secret (counts of tokens do not)."""
    return bool(_SECRET.search(name)) and not _NOT_SECRET.search(name)


def _field(statement: ast.stmt, constants: dict[str, Any]) -> Field | None:
    if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
        return None
    annotation, value = text_of(statement.annotation), statement.value
    if annotation.startswith("ClassVar"):
        return None
    default = constant(value)
    if isinstance(value, ast.Name):
        default = constants.get(value.id, UNKNOWN)
    if isinstance(value, ast.Call) and text_of(value.func) in ("field", "dataclasses.field"):
        named = {keyword.arg: keyword.value for keyword in value.keywords}
        default = constant(named.get("default"))
        factory = named.get("default_factory")
        if isinstance(factory, ast.Name) and factory.id in ("list", "dict"):
            default = [] if factory.id == "list" else {}
    last = statement.end_lineno or statement.lineno
    return Field(statement.target.id, statement.lineno, annotation, default, last)


def _declarations(body: list[ast.stmt]) -> list[ast.Call]:
    """Return the ``add_argument`` calls among statements, branches included."""
    calls = []
    for statement in body:
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if value.func.attr == "add_argument":
                calls.append(value)
        else:
            for name in ("body", "orelse"):
                calls += _declarations(getattr(statement, name, []))
    return calls


def _option(call: ast.Call, cls: str, fields: dict[str, Field]) -> Option | None:
    names = tuple(n for n in map(constant, call.args) if isinstance(n, str) and n.startswith("-"))
    long = [name for name in names if name.startswith("--")]
    if not long:
        return None
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    dest = constant(named.get("dest"))
    if not isinstance(dest, str):
        dest = long[0].lstrip("-").replace("-", "_")
    action = constant(named.get("action"))
    if not isinstance(action, str):
        action = text_of(named["action"]) if "action" in named else "store"
    if None in named:  # ``**kwargs``: only the name is declared here
        action = "elsewhere"
    return Option(
        names,
        dest,
        action,
        text_of(named["type"]) if "type" in named else "str",
        constant(named["nargs"]) if "nargs" in named else None,
        _option_default(named.get("default"), action, cls, fields),
        constant(named.get("const")),
        call.lineno,
    )


def _option_default(node: ast.expr | None, action: str, cls: str, fields: dict[str, Field]) -> Any:
    if node is None:
        return {"store_true": False, "store_false": True, "store": None}.get(action, UNKNOWN)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == cls:
        return fields[node.attr].default if node.attr in fields else UNKNOWN
    return constant(node)


def _renames(function: ast.FunctionDef) -> dict[str, str]:
    """Return ``args.setting = args.dest`` statements; a computed setting maps to no option."""
    renames = {}
    for statement in function.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Attribute):
            continue
        target, value = statement.targets[0].attr, statement.value
        plain = isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name)
        renames[target] = value.attr if plain and isinstance(value, ast.Attribute) else f"computed {target}"
    return renames


def _overwrites(cls: ast.ClassDef) -> dict[str, list[Overwrite]]:
    found: dict[str, list[Overwrite]] = {}
    for statement in statements(cls.body):
        for target in targets(statement) if not isinstance(statement, ast.Expr) else ():
            if isinstance(target, ast.Attribute) and _is_self(target.value):
                line, column = target.end_lineno or target.lineno, (target.end_col_offset or 1) - 1
                entry = Overwrite(line, write_value(statement), column)
                found.setdefault(target.attr, []).append(entry)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and _sets_on_self(call):
            name = constant(call.args[1])
            key = name if isinstance(name, str) else "*"
            found.setdefault(key, []).append(Overwrite(call.lineno, UNKNOWN, call.col_offset))
    return found


def _sets_on_self(call: ast.Call) -> bool:
    if len(call.args) != 3 or not _is_self(call.args[0]):
        return False
    return text_of(call.func) in ("setattr", "object.__setattr__")


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
