"""Read what a release of ``transformers`` makes of a configuration, from its source, without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from evals.model_classes_rules import UNKNOWN, Rules, Scope, plain

Record = dict[str, Any]

_FILES: Final = (
    "configuration_utils.py",
    "modeling_rope_utils.py",
    "backbone_utils.py",
    "utils/backbone_utils.py",
    "generation/configuration_utils.py",
    "integrations/heterogeneity/*.py",
    "models/auto/configuration_auto.py",
    "models/*/configuration_*.py",
    "models/deprecated/*/configuration_*.py",
)
_BASES: Final = ("PretrainedConfig", "PreTrainedConfig")
_OUTSIDE: Final = frozenset({"PushToHubMixin", "ABC", "object", "dict", "Generic", "Protocol"})
_WANTED: Final = frozenset({"__init__", "__post_init__", "get_text_config", "validate_rope"})
_FOREIGN: Final = frozenset({"__getattribute__", "__setattr__", "__getattr__", "__getitem__", "from_dict"})
_UNDERSTOOD: Final = frozenset({*_BASES, "HeterogeneousConfigMixin"})
"""Classes whose attribute access is known: renames, and plain access while no layer has its own values."""
_LEFT_OUT: Final = re.compile(r"base_model_\w+_plan|keys_to_ignore_at_inference|_auto_class")


@dataclass
class Found:
    """Hold a class statement with the file that it stands in."""

    node: ast.ClassDef
    scope: Scope
    module: str
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)


class Release:
    """Read one unpacked release; ``root`` is the folder that holds the package."""

    def __init__(self, root: Path) -> None:
        self.package = root / "transformers"
        self.version = _version(root)
        self.classes: dict[str, Found] = {}
        self.functions: dict[str, tuple[ast.FunctionDef, Scope]] = {}
        for pattern in _FILES:
            for path in sorted(self.package.glob(pattern)):
                self._file(path)
        base = next(self.classes[name] for name in reversed(_BASES) if name in self.classes)
        self.dataclasses = "__init__" not in base.methods
        self.configurations = {name for name in self.classes if self._derives(name)}

    def _file(self, path: Path) -> None:
        scope = Scope(self)
        module = ".".join(path.relative_to(self.package).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found = Found(node, scope, module)
                found.methods = {
                    m.name: m for m in node.body if isinstance(m, ast.FunctionDef) and not _part(m)
                }
                self.classes.setdefault(node.name, found)
            elif isinstance(node, ast.FunctionDef):
                self.functions.setdefault(node.name, (node, scope))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                scope.constants[node.targets[0].id] = node.value
            elif isinstance(node, ast.Assign) and path.name == "configuration_auto.py":
                continue

    def _derives(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        if name in _BASES:
            return True
        found = self.classes.get(name)
        if found is None or name in seen:
            return False
        return any(self._derives(_name(base), seen | {name}) for base in found.node.bases)

    # --- the parts of the table -------------------------------------------------------------------

    def types(self) -> dict[str, str]:
        """Return the class of each model type that ``AutoConfig`` knows."""
        known: dict[str, str] = {}
        for path in ("auto_mappings.py", "configuration_auto.py"):
            file = self.package / "models/auto" / path
            if file.is_file():
                for node in ast.parse(file.read_text()).body:
                    known.update(_pairs(node))
        return known

    def traits(self) -> dict[str, bool]:
        """Return what else differs between releases when a configuration is loaded."""
        auto = (self.package / "models/auto/configuration_auto.py").read_text()
        base = (self.package / "configuration_utils.py").read_text()
        return {
            "commit hash": "self._commit_hash" in base,
            "registered first": "explicit_local_code" in auto,
            "ministral": 'config_dict["model_type"] = "ministral"' in auto,
            "by name": "if pattern in str(pretrained_model_name_or_path)" in auto,
        }

    def records(self) -> tuple[dict[str, Record], dict[str, Record]]:
        """Return what is known of every configuration class and mixin, and of functions that they call."""
        rules = Rules(self)
        wanted = [name for name in self.classes if name in {*self.configurations, "GenerationConfig"}]
        done: dict[str, Record] = {}
        while wanted:
            name = wanted.pop()
            if name in done or name not in self.classes:
                continue
            done[name] = self._record(name, rules)
            wanted += [base for base in done[name]["bases"] if base not in _OUTSIDE]
        functions: dict[str, Record] = {}
        while rules.called - functions.keys():
            for name in sorted(rules.called - functions.keys()):
                node, scope = self.functions[name]
                functions[name] = rules.function(node, scope)
        return done, functions

    def _record(self, name: str, rules: Rules) -> Record:
        found = self.classes[name]
        record: Record = {
            "bases": [b for b in map(_name, found.node.bases) if b not in _OUTSIDE],
            "in": found.module,
        }
        for base in record["bases"]:
            if base not in self.classes:
                record["odd"] = [f"derives from {base}"]
        if any("strict" in ast.unparse(d) for d in found.node.decorator_list):
            record["strict"] = True
        self._members(found, record, rules)
        for method in self._methods(found, record, rules):
            if method.name in _FOREIGN and name not in _UNDERSTOOD:
                self._foreign(method, record)
        return record

    def _members(self, found: Found, record: Record, rules: Rules) -> None:
        fields: dict[str, Any] = {}
        constants: dict[str, Any] = {}
        for node in found.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name, value = node.target.id, node.value
                is_field = self.dataclasses and "ClassVar" not in ast.unparse(node.annotation)
                if value is None and not is_field:
                    continue
                told = _default(value) if value is not None and is_field else value
                (fields if is_field else constants)[name] = self._value(told, rules, found)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                constants[node.targets[0].id] = self._value(node.value, rules, found)
        if isinstance(constants.get("model_type"), str):
            record["type"] = constants["model_type"]
        if isinstance(fields.get("model_type"), str):
            record["type"] = fields["model_type"]
        constants = {
            n: UNKNOWN if _LEFT_OUT.fullmatch(n) and v is not None else v for n, v in constants.items()
        }
        for key, part in (("fields", fields), ("constants", constants)):
            if part:
                record[key] = part

    def _value(self, node: ast.expr | None, rules: Rules, found: Found) -> Any:
        return UNKNOWN if node is None else rules.constant(node, found.scope)

    def _methods(self, found: Found, record: Record, rules: Rules) -> Iterator[ast.FunctionDef]:
        methods: dict[str, Record] = {}
        properties: dict[str, Record] = {}
        for node in found.node.body:
            if not isinstance(node, ast.FunctionDef):
                continue
            kind = _part(node)
            if kind:
                properties.setdefault(node.name, {})[kind] = rules.function(node, found.scope)
            elif self._reached(node.name, found):
                methods[node.name] = rules.function(node, found.scope)
            else:
                record.setdefault("also", []).append(node.name)
            yield node
        if methods:
            record["methods"] = methods
        if properties:
            record["properties"] = properties

    def _reached(self, name: str, found: Found) -> bool:
        return name in _WANTED or name in self.called_on_self

    @property
    def called_on_self(self) -> frozenset[str]:
        """Return the names of the methods that some constructor, or what it calls, calls on its object."""
        if not hasattr(self, "_called"):
            methods = [
                m for f in self.classes.values() for m in f.node.body if isinstance(m, ast.FunctionDef)
            ]
            calls: dict[str, set[str]] = {}
            for method in methods:
                calls.setdefault(" property" if _part(method) else method.name, set()).update(
                    _self_calls(method)
                )
            wanted, left = set(_WANTED), {" property", *_WANTED}
            while left:
                left = calls.get(left.pop(), set()) - wanted | left
                wanted |= left - {" property"}
            self._called = frozenset(
                n
                for n in wanted
                if not n.startswith(("validate_", "_validate", "_check")) or n == "validate_rope"
            )
        return self._called

    def _foreign(self, method: ast.FunctionDef, record: Record) -> None:
        text = ast.unparse(method)
        if method.name in ("__getattribute__", "__setattr__") and "'text_config'" in text:
            record["delegates"] = sorted(
                {
                    n.value
                    for n in ast.walk(method)
                    if isinstance(n, ast.List)
                    for n in n.elts
                    if isinstance(n, ast.Constant)
                }
            )
        else:
            record.setdefault("odd", []).append(f"defines {method.name}")


def _version(root: Path) -> str:
    for path in root.glob("transformers-*.dist-info"):
        return path.name.removeprefix("transformers-").removesuffix(".dist-info")
    raise FileNotFoundError(f"no transformers-*.dist-info in {root}")


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else "?"


def _part(node: ast.FunctionDef) -> str:
    """Return ``get`` or ``set`` for the two halves of a property."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Name) and decorator.id == "property":
            return "get"
        if isinstance(decorator, ast.Attribute) and decorator.attr == "setter":
            return "set"
    return ""


def _self_calls(node: ast.FunctionDef) -> set[str]:
    return {
        call.func.attr
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and (
            (isinstance(call.func.value, ast.Name) and call.func.value.id == "self")
            or (isinstance(call.func.value, ast.Call) and _name(call.func.value.func) == "super")
        )
    }


def _default(node: ast.expr) -> ast.expr | None:
    """Return the default that a field is given, also through what makes validated fields."""
    if not isinstance(node, ast.Call):
        return node
    for keyword in node.keywords:
        if keyword.arg == "default":
            return keyword.value
        if keyword.arg == "default_factory":
            made = keyword.value
            if isinstance(made, ast.Lambda):
                return made.body
            return (
                ast.Call(made, [], []) if isinstance(made, ast.Name) and made.id in ("list", "dict") else None
            )
    return None


def _pairs(node: ast.stmt) -> dict[str, str]:
    named = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""
    updates = isinstance(node, ast.Expr) and ast.unparse(node.value).startswith("CONFIG_MAPPING_NAMES.update")
    if named != "CONFIG_MAPPING_NAMES" and not updates:
        return {}
    found: dict[str, str] = {}
    for inner in ast.walk(node):
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            pairs = [(inner.elts[0], inner.elts[1])]
        elif isinstance(inner, ast.Dict):
            pairs = list(zip(inner.keys, inner.values, strict=True))
        for key, value in pairs:
            told = plain(key) if key is not None else UNKNOWN, plain(value)
            if isinstance(told[0], str) and isinstance(told[1], str):
                found[told[0]] = told[1]
    return found
