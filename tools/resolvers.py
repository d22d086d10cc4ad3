"""Tell which setting of an engine an expression reads, at a place in the engine's source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tools.definitions import Definitions
from tools.evaluate import Resolver
from tools.scopes import enclosing_class
from tools.statements import statements, targets
from tools.syntax import Module, Step


def inside_resolver(definitions: Definitions) -> Resolver:
    """Return a resolver for code of the class that defines the settings: ``self.X``."""

    def resolve(node: ast.expr) -> str | None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return node.attr if node.attr in definitions.fields else None
        return _through_name(definitions, node)

    return resolve


def resolver_at(
    definitions: Definitions,
    module: Module,
    path: str,
    way: list[Step],
    launched: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Resolver, bool]:
    """Return the resolver for a place in a file (``path`` below the package), and whether it is inside.

    Switches that are ``launched`` may also be read from the objects that they are copied into.
    """
    engine, cls = definitions.engine, enclosing_class(way)
    if path == engine.file:
        inside = cls is not None and cls.name == engine.cls
        return (inside_resolver(definitions) if inside else _nothing), inside
    if not path.startswith(engine.scope) or _rebinds_settings(definitions, module):
        return _nothing, False

    def resolve(node: ast.expr) -> str | None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return _alias(definitions, module, cls, node.attr) if cls is not None else None
        return _through_name(definitions, node) or _copied(definitions, node, launched)

    return resolve, False


def _copied(definitions: Definitions, node: ast.expr, launched: Mapping[str, Any]) -> str | None:
    """Resolve ``anything.model_config.X`` for a switch that the launch line turns on."""
    if not isinstance(node, ast.Attribute) or launched.get(node.attr) is not True:
        return None
    holder = node.value
    name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
    return node.attr if node.attr in definitions.engine.copied.get(name, ()) else None


def _nothing(node: ast.expr) -> str | None:
    return None


def _through_name(definitions: Definitions, node: ast.expr) -> str | None:
    """Resolve ``server_args.X``, ``anything.server_args.X`` and ``get_global_server_args().X``."""
    if not isinstance(node, ast.Attribute) or node.attr not in definitions.fields:
        return None
    holder, engine = node.value, definitions.engine
    if isinstance(holder, ast.Name):
        return node.attr if holder.id in engine.names else None
    if isinstance(holder, ast.Attribute):
        return node.attr if holder.attr in engine.names else None
    called = holder.func if isinstance(holder, ast.Call) and not holder.args else None
    return node.attr if isinstance(called, ast.Name) and called.id in engine.calls else None


def _rebinds_settings(definitions: Definitions, module: Module) -> bool:
    """Tell whether a file builds or copies settings of its own, which may then differ."""
    if "rebinds" not in module.memo:
        names = "|".join(definitions.engine.names)
        binding = re.compile(rf"\s*(?:self\.)?(?:{names})(?:: \w+)? = (?P<value>.+)")
        plain = rf"(?:await )?(?:\w+\.)*(?:{names})|(?:{'|'.join(definitions.engine.calls) or 'none'})\(\)"
        lines = {
            line for name in definitions.engine.names for line in _lines_with(module.data, name.encode())
        }
        bound = (binding.fullmatch(line.decode("utf-8", "replace")) for line in lines)
        module.memo["rebinds"] = any(
            not re.fullmatch(plain, found["value"].strip()) for found in bound if found is not None
        )
    return bool(module.memo["rebinds"])


def _lines_with(data: bytes, word: bytes) -> Iterator[bytes]:
    place = data.find(word)
    while place >= 0:
        end = data.find(b"\n", place)
        yield data[data.rfind(b"\n", 0, place) + 1 : end if end >= 0 else len(data)]
        place = data.find(word, end) if end >= 0 else -1


def _alias(definitions: Definitions, module: Module, cls: ast.ClassDef, name: str) -> str | None:
    """Return the setting that an attribute of a class is a copy of, if it is only ever assigned that one."""
    key = ("alias", id(cls), name)
    if key not in module.memo:
        module.memo[key] = _find_alias(definitions, module, cls, name)
    found: str | None = module.memo[key]
    return found


def _find_alias(definitions: Definitions, module: Module, cls: ast.ClassDef, name: str) -> str | None:
    if name not in _copies(definitions, module):
        return None
    try:
        module.read_where(re.compile(rb"\.\s*%s\b" % name.encode()), cls)
    except SyntaxError:
        return None
    sources = {source for s in cls.body for source in _assigned(definitions, module, s).get(name, ())}
    return next(iter(sources)) if len(sources) == 1 else None


def _copies(definitions: Definitions, module: Module) -> set[str]:
    """Return the attributes that the text of a file assigns from an expression with settings in it."""
    if "copies" not in module.memo:
        engine = definitions.engine
        holders = "|".join([*engine.names, *engine.calls])
        # The value stands on the same line, or in parentheses that begin there.
        value = rf"(?:[ \t]*\((?:[^()]|\(\))*|[^\n]*|[ \t]*\\\n[^\n]*)\b(?:{holders})\b"
        pattern = re.compile(rf"\.\s*(\w+)[\s)]*=(?!=)(?={value})".encode())
        module.memo["copies"] = {name.decode() for name in pattern.findall(module.data)}
    found: set[str] = module.memo["copies"]
    return found


def _assigned(definitions: Definitions, module: Module, statement: ast.stmt) -> dict[str, set[str | None]]:
    """Return the attributes assigned below a statement of a class, each with the settings in its values."""
    key = ("assigned", id(statement))
    if key not in module.memo:
        sources: dict[str, set[str | None]] = {}
        for inner in statements([statement]):
            for target in targets(inner):
                if isinstance(target, ast.Attribute):
                    plain = isinstance(inner, ast.Assign) and inner.targets == [target]
                    value = inner.value if plain and isinstance(inner, ast.Assign) else None
                    source = _through_name(definitions, value) if value is not None else None
                    sources.setdefault(target.attr, set()).add(source)
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):  # what is below may yet be read
            return sources
        module.memo[key] = sources
    found: dict[str, set[str | None]] = module.memo[key]
    return found
