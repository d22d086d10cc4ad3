"""Know in which attributes of which classes settings lie: a section of vLLM may name one otherwise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from tools.settings.blocks import outline
from tools.settings.reach import CLASS, Profile, config_files
from tools.settings.types import SourceTree

_FIELD = re.compile(rb"^    (\w+)[ \t]*:", re.MULTILINE)

Slots = Mapping[str, Mapping[str, str]]
"""Attribute to, by the class that has it, the setting that it holds."""


def slots_of(tree: SourceTree, profile: Profile, names: Iterable[str]) -> Slots:
    """Return in which attributes of which classes settings lie, under their own name or another."""
    found: dict[str, dict[str, str]] = {}
    if profile.engine != "vllm":
        return {name: dict.fromkeys(sorted(set(profile.classes.values())), name) for name in names}
    carried = _carried(tree.read("engine/arg_utils.py") or b"", tuple(sorted(profile.classes)))
    for name in sorted(names, key=lambda name: "." in name):
        section, _, plain = name.rpartition(".")
        if section:
            cls = profile.names.get(section.rpartition(".")[2])
            if cls is not None:
                found.setdefault(plain, {}).setdefault(cls, name)
        elif name in carried:
            for cls, attribute in carried[name]:
                found.setdefault(attribute, {}).setdefault(cls, name)
        else:
            for cls in _defined(config_files(tree)).get(name, ()):
                found.setdefault(name, {})[cls] = name
    return found


def twins_of(profile: Profile, slots: Slots, names: Iterable[str]) -> Mapping[str, str]:
    """Return the names with a section that stand for the same attribute as a name without, with that one."""
    found = {}
    for name in names:
        section, _, plain = name.rpartition(".")
        cls = profile.names.get(section.rpartition(".")[2]) if section else None
        other = slots.get(plain, {}).get(cls, name) if cls is not None else name
        if other != name:
            found[name] = other
    return found


@lru_cache(maxsize=16)
def _carried(arguments: bytes, classes: tuple[str, ...]) -> Mapping[str, list[tuple[str, str]]]:
    """Return, for every field of the arguments' class, where its value is carried on to."""
    module = outline(arguments).whole()
    found: dict[str, list[tuple[str, str]]] = {}
    if module is None:
        return found
    for cls in (s for s in module.tree.body if isinstance(s, ast.ClassDef) and s.name == "EngineArgs"):
        for statement in cls.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = [
                    ("EngineArgs", statement.target.id),
                    *_default_of(statement.value, classes),
                ]
        for node in ast.walk(cls):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in classes:
                for name, keyword in _passed(node):
                    if name in found and (node.func.id, keyword) not in found[name]:
                        found[name].append((node.func.id, keyword))
    return found


def _default_of(value: ast.expr | None, classes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the field that a default is taken from: ``ModelConfig.x``, ``get_field(ModelConfig, "x")``."""
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id in classes:
        yield value.value.id, value.attr
    elif isinstance(value, ast.Call) and len(value.args) == 2 and isinstance(value.args[0], ast.Name):
        second = value.args[1]
        if value.args[0].id in classes and isinstance(second, ast.Constant):
            yield value.args[0].id, str(second.value)


def _passed(call: ast.Call) -> Iterator[tuple[str, str]]:
    for keyword in call.keywords:
        value = keyword.value
        own = isinstance(value, ast.Attribute) and getattr(value.value, "id", "") == "self"
        if keyword.arg and own and isinstance(value, ast.Attribute):
            yield value.attr, keyword.arg


@lru_cache(maxsize=16)
def _defined(configs: tuple[bytes, ...]) -> Mapping[str, list[str]]:
    """Return the classes that define a field, by its name."""
    found: dict[str, list[str]] = {}
    for data in configs:
        marks = [(m.start(), m[1].decode()) for m in CLASS.finditer(data)]
        for place in _FIELD.finditer(data):
            owner = next((name for start, name in reversed(marks) if start < place.start()), None)
            if owner is not None:
                found.setdefault(place[1].decode(), []).append(owner)
    return found
