"""Tell by which expressions an engine's code reaches its settings: ``server_args.x``, ``cfg.x``."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from tools.settings.types import Engine, SourceTree
from tools.statements import statements
from tools.syntax import Module, Step

Way = Literal["own", "settings", "copy", "view", "section"]
"""How an object with settings is reached: ``self`` of its class, the shared object, a copy that is made of
it, a reader of what is resolved so far, or the part of the settings that a getter returns."""

CLASS: Final = re.compile(rb"^class[ \t]+(\w+)(?:\(([^)]*)\))?", re.MULTILINE)
_GETTER = re.compile(rb"^def[ \t]+(get_\w+)\(\)", re.MULTILINE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COPIES: Final = ("copy", "deepcopy", "replace", "_replace", "evolve", "model_copy")
_VIEWS: Final = ("resolving_view", "resolved_view", "ResolvedView", "ResolvingConfig")


@dataclass(frozen=True, slots=True)
class Reached:
    """Hold what an expression is: an object of which settings class, and how it is reached."""

    cls: str
    way: Way


@dataclass(frozen=True, slots=True)
class Profile:
    """Hold the names of one version of an engine by which its code reaches settings."""

    engine: Engine
    scope: str
    """Files below this folder run in the serving process (beside those at the top)."""
    names: Mapping[str, str]
    """Variable, parameter or attribute to the settings class that it holds."""
    calls: Mapping[str, str]
    """Function or class to the settings class that it returns an object of."""
    classes: Mapping[str, str]
    """Settings classes, with their bases and the classes that extend them."""
    getters: frozenset[str] = frozenset()
    """Functions without arguments that return a part of the settings in force."""

    def serves(self, path: str) -> bool:
        """Tell whether a file can run in a serving process, by its folder."""
        parts = path.split("/")
        if any(part in _APART for part in parts[:-1]) or parts[-1].startswith(("bench_", "test_")):
            return False
        return path.startswith(self.scope) or len(parts) == 1


_APART: Final = frozenset({"test", "tests", "benchmarks", "benchmark", "third_party", "examples"})


def profile_of(tree: SourceTree) -> Profile:
    """Return the names by which the code of a package reaches its settings."""
    if tree.engine == "vllm":
        return _vllm(config_files(tree), tree.read("engine/arg_utils.py") or b"")
    return _sglang(tree.read("srt/server_args.py") or b"", tree.read("srt/runtime_context.py") or b"")


@lru_cache(maxsize=16)
def _sglang(arguments: bytes, context: bytes) -> Profile:
    cls = "ServerArgs"
    classes = {cls: cls}
    for name, bases in CLASS.findall(arguments):
        words = re.findall(r"\w+", bases.decode())
        if name.decode() == cls:
            classes |= {word: cls for word in words if word not in ("object", "ABC", "Struct", "msgspec")}
        elif cls in words:
            classes[name.decode()] = cls
    return Profile(
        "sglang",
        "srt/",
        {"server_args": cls},
        dict.fromkeys(("get_global_server_args", "get_server_args", "prepare_server_args", cls), cls),
        classes,
        frozenset(name.decode() for name in _GETTER.findall(context)),
    )


@lru_cache(maxsize=16)
def _vllm(configs: tuple[bytes, ...], arguments: bytes) -> Profile:
    found = [name.decode() for data in configs for name, _ in CLASS.findall(data)]
    classes = {name: name for name in found if name.endswith("Config")}
    names = {_snake(name): name for name in classes}
    for name, bases in CLASS.findall(arguments):
        if name == b"EngineArgs" or b"EngineArgs" in bases:
            classes[name.decode()] = "EngineArgs"
    names["engine_args"] = "EngineArgs"
    calls = {"get_current_vllm_config": "VllmConfig", "get_current_vllm_config_or_none": "VllmConfig"}
    return Profile("vllm", "", names, calls, classes)


def _snake(name: str) -> str:
    """Return the attribute that holds an object of a class: ``kv_transfer_config`` for KVTransferConfig."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def config_files(tree: SourceTree) -> tuple[bytes, ...]:
    """Return the files that define the sections of vLLM's settings."""
    paths = [path for path in tree.paths() if path == "config.py" or path.startswith("config/")]
    return tuple(tree.read(path) or b"" for path in paths)


def reached(profile: Profile, node: ast.expr, way: list[Step], module: Module) -> Reached | None:
    """Return what settings object an expression is, seen from the end of a way; None when it is none."""
    if isinstance(node, ast.Name):
        return _named(profile, node.id, way, module)
    if isinstance(node, ast.Attribute):
        return _attribute(profile, node, way, module)
    if isinstance(node, ast.Call):
        return _called(profile, node, way, module)
    return None


def _attribute(profile: Profile, node: ast.Attribute, way: list[Step], module: Module) -> Reached | None:
    if node.attr in profile.names:
        return Reached(profile.names[node.attr], "settings")
    if _is_copy(profile, node.attr):
        return Reached(_copied(profile, node.attr), "copy")
    if isinstance(node.value, ast.Name) and node.value.id == "self":
        return _kept_in_self(profile, module).get(node.attr)
    inner = reached(profile, node.value, way, module)
    if inner is not None and inner.way == "section":
        return inner
    return None


def _called(profile: Profile, node: ast.Call, way: list[Step], module: Module) -> Reached | None:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in profile.calls:
        return Reached(profile.calls[name], "settings")
    if name in profile.getters and not node.args and not node.keywords:
        return Reached(next(iter(profile.classes.values())), "section")
    inside = node.args[0] if node.args else None
    if inside is not None and name in (*_VIEWS, *_COPIES):
        found = reached(profile, inside, way, module)
        return found and Reached(found.cls, "view" if name in _VIEWS else "copy")
    if name == "from_cli_args" and isinstance(node.func, ast.Attribute):
        owner = getattr(node.func.value, "id", "")
        return Reached(profile.classes[owner], "settings") if owner in profile.classes else None
    return None


def _named(profile: Profile, name: str, way: list[Step], module: Module) -> Reached | None:
    if name == "self" or name == "cls":
        owner = next((s.child for s in reversed(way) if isinstance(s.child, ast.ClassDef)), None)
        if owner is not None and owner.name in profile.classes:
            return Reached(profile.classes[owner.name], "own")
    for step in reversed(way):
        if isinstance(step.child, _FUNCTIONS):
            known = _locals(profile, step.child, way, module)
            if name in known:
                return known[name]
    if name in profile.names:
        return Reached(profile.names[name], "settings")
    return Reached(_copied(profile, name), "copy") if _is_copy(profile, name) else None


def _is_copy(profile: Profile, name: str) -> bool:
    return profile.engine == "sglang" and name.endswith("_server_args") and not name.startswith("get_")


def _copied(profile: Profile, name: str) -> str:
    return next(cls for held, cls in profile.names.items() if name.endswith(held))


def _locals(
    profile: Profile, function: ast.FunctionDef | ast.AsyncFunctionDef, way: list[Step], module: Module
) -> Mapping[str, Reached | None]:
    """Return the parameters and variables of a function that hold settings, and those that surely do not."""
    key = ("settings in locals", id(function))
    if key not in module.memo:
        known: dict[str, Reached | None] = {}
        module.memo[key] = known
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            found = _annotated(profile, argument)
            if found is not None:
                known[argument.arg] = found
        for statement in statements(function.body):
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                found = reached(profile, statement.value, way, module)
                if isinstance(target, ast.Name) and found is not None:
                    known[target.id] = found
    remembered: Mapping[str, Reached | None] = module.memo[key]
    return remembered


def _annotated(profile: Profile, argument: ast.arg) -> Reached | None:
    """Return what a parameter holds by its annotation, or by a name that only readers have."""
    words = re.findall(r"\w+", ast.unparse(argument.annotation)) if argument.annotation else []
    cls = next((profile.classes[word] for word in words if word in profile.classes), None)
    if cls is not None:
        return Reached(cls, "settings")
    if profile.engine == "sglang" and profile.getters and argument.arg in ("view", "cfg"):
        return Reached(next(iter(profile.classes.values())), "view")
    return None


def _kept_in_self(profile: Profile, module: Module) -> Mapping[str, Reached]:
    """Return the attributes of this file's objects that hold the settings under another name."""
    key = "settings in self"
    if key not in module.memo:
        names = "|".join(profile.names)
        pattern = rf"self\.(\w+)(?:: *[\w.\"]+)? = (?:\w+\.)*({names})[ \t]*(?:#.*)?$"
        module.memo[key] = {
            found[1].decode(): Reached(profile.names[found[2].decode()], "settings")
            for found in re.finditer(pattern.encode(), module.data, re.MULTILINE)
        }
    kept: Mapping[str, Reached] = module.memo[key]
    return kept
