"""Judge conditions from the source true, false or unknown, by the settings of a running process."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from tools.definitions import HIDDEN, Definitions, Overwrite, is_secret
from tools.evaluate import Resolver, evaluate
from tools.guards import guards_of
from tools.launch_values import launch_values
from tools.scopes import UNKNOWN, Module, Step, enclosing_class, statements, steps_to, targets

Verdict = Literal["true", "false", "unknown"]
Origin = Literal["flag", "default", "effective", "overwrite"]

_MOST_WORLDS: Final = 64


@dataclass(frozen=True, slots=True)
class Known:
    """Hold a value that a setting has or had, and where that is said (``line`` of the settings file)."""

    name: str
    value: Any
    origin: Origin
    line: int | None = None

    def describe(self) -> str:
        """Return ``False (default, line 702)``."""
        place = f", line {self.line}" if self.line else ""
        value = HIDDEN if is_secret(self.name) else repr(self.value)[:120]
        return f"{value} ({self.origin}{place})"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Hold a verdict, one line that says why, and the values that decide it."""

    verdict: Verdict
    because: str
    decided_by: tuple[Known, ...] = ()


@dataclass(slots=True)
class Judge:
    """Know the settings of one process: from its launch line, the defaults, and the server if it answered."""

    definitions: Definitions
    launched: Mapping[str, Any]
    effective: Mapping[str, Any]
    _memo: dict[tuple[str, bool, int], list[Known] | str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, definitions: Definitions, argv: Sequence[str], effective: Mapping[str, Any] | None = None
    ) -> Judge:
        """Build a judge for a process by its command line and what ``/server_info`` says."""
        return cls(definitions, launch_values(definitions, argv), effective or {})

    def judge(self, condition: ast.expr, resolve: Resolver, *, inside: bool = False) -> Judgement:
        """Judge a condition; ``inside`` says that it stands in the class that defines the settings."""
        return self._truth(condition, resolve, inside, depth=2)

    def candidates(self, name: str, *, inside: bool, depth: int = 2) -> list[Known] | str:
        """Return every value that a setting may have had at some point, or why that cannot be said."""
        key = (name, inside, depth)
        if key not in self._memo:
            self._memo[key] = self._candidates(name, inside, depth)
        return self._memo[key]

    def initial(self, name: str) -> Known | str:
        """Return the value that the class is built with, or why it cannot be told."""
        if name in self.launched:
            value = self.launched[name]
            return (
                f"the value given for {name} cannot be read"
                if value is UNKNOWN
                else Known(name, value, "flag")
            )
        if "config" in self.launched:
            return f"{name} may be set by the configuration file that the launch line names"
        found = self.definitions.fields[name]
        renamed = self.definitions.renames.get(name)
        option = self.definitions.option_of(name)
        if renamed is not None and option is None:
            return f"{name} is computed from other arguments"
        if option is None or option.action == "elsewhere" or option.default == found.default:
            default, line = found.default, found.line
        else:
            default, line = option.default, option.line
            if isinstance(default, str) and option.type != "str":
                default = UNKNOWN
        return (
            f"the default of {name} is not a constant"
            if default is UNKNOWN
            else Known(name, default, "default", line)
        )

    def _candidates(self, name: str, inside: bool, depth: int) -> list[Known] | str:
        initial = self.initial(name)
        writes = [w for w in self._class_writes(name) if depth == 0 or self._may_run(w, depth)]
        outside = [w for w in self.definitions.outside.get(name, []) if not inside or w.on == "args"]
        known = Known(name, self.effective[name], "effective") if name in self.effective else None
        if isinstance(initial, str):
            return [known] if known is not None and not writes and not outside else initial
        constants = [Known(name, w.value, "overwrite", w.line) for w in writes if w.value is not UNKNOWN]
        if known is not None:
            found = [initial, known, *(constants if depth else [])]
        elif any(w.value is UNKNOWN for w in [*writes, *outside]):
            return f"{name} is overwritten ({_places(writes, outside)}) and its effective value is not known"
        else:
            outer = [Known(name, w.value, "overwrite") for w in outside]
            found = [initial, *constants, *outer]
        return _distinct(found)

    def _class_writes(self, name: str) -> list[Overwrite]:
        overwrites = self.definitions.overwrites
        return [*overwrites.get(name, []), *overwrites.get("*", [])]

    def _may_run(self, write: Overwrite, depth: int) -> bool:
        """Tell whether an assignment in the class is not excluded by its own conditions."""
        module = self.definitions.module
        key = ("guards", write.line, write.column)
        if key not in module.memo:
            module.memo[key] = guards_of(module, steps_to(module, write.line, write.column))
        resolve = inside_resolver(self.definitions)
        return all(
            self._truth(guard.condition, resolve, True, depth - 1).verdict != "false"
            for guard in module.memo[key]
        )

    def _truth(self, node: ast.expr, resolve: Resolver, inside: bool, depth: int) -> Judgement:
        if isinstance(node, ast.BoolOp):
            parts = [self._truth(value, resolve, inside, depth) for value in node.values]
            return _joined(parts, decisive="false" if isinstance(node.op, ast.And) else "true")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._truth(node.operand, resolve, inside, depth)
            flipped: dict[Verdict, Verdict] = {"true": "false", "false": "true", "unknown": "unknown"}
            return Judgement(flipped[inner.verdict], inner.because, inner.decided_by)
        return self._atom(node, resolve, inside, depth)

    def _atom(self, node: ast.expr, resolve: Resolver, inside: bool, depth: int) -> Judgement:
        choices: dict[str, list[Known]] = {}
        for name in dict.fromkeys(_settings_in(node, resolve)):
            found = self.candidates(name, inside=inside, depth=depth)
            if isinstance(found, str):
                return Judgement("unknown", found)
            choices[name] = found
        worlds = list(itertools.islice(itertools.product(*choices.values()), _MOST_WORLDS + 1))
        if len(worlds) > _MOST_WORLDS:
            return Judgement("unknown", f"{_short(node)} has too many possible values")
        results = set()
        for world in worlds:
            value = evaluate(node, resolve, {known.name: known.value for known in world})
            if value is UNKNOWN:
                return Judgement("unknown", _why_unknown(node))
            results.add(bool(value))
        everything = [known for found in choices.values() for known in found]
        if len(results) != 1:
            return Judgement("unknown", f"{_listed(everything)}, and these disagree")
        firm = tuple(known for known in everything if known.origin != "overwrite")
        because = _listed(list(firm)) if everything else f"{_short(node)} is constant"
        if len(firm) < len(everything):
            because += "; no overwrite that may run changes the answer"
        return Judgement("true" if results.pop() else "false", because, firm)


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
    aliases = _aliases(definitions, module, cls) if cls is not None else {}

    def resolve(node: ast.expr) -> str | None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return aliases.get(node.attr)
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
        binding = rf"^\s*(?:self\.)?(?:{names})(?:: \w+)? = (?P<value>.+)$"
        plain = rf"(?:await )?(?:\w+\.)*(?:{names})|(?:{'|'.join(definitions.engine.calls) or 'none'})\(\)"
        module.memo["rebinds"] = any(
            not re.fullmatch(plain, found["value"].strip())
            for found in re.finditer(binding, module.data.decode("utf-8", "replace"), re.MULTILINE)
        )
    return bool(module.memo["rebinds"])


def _aliases(definitions: Definitions, module: Module, cls: ast.ClassDef) -> dict[str, str]:
    """Return attributes of a class that are only ever assigned one setting, with that setting."""
    key = ("aliases", cls.name, cls.lineno)
    if key not in module.memo:
        module.memo[key] = dict(_find_aliases(definitions, module, cls))
    found: dict[str, str] = module.memo[key]
    return found


def _find_aliases(definitions: Definitions, module: Module, cls: ast.ClassDef) -> Iterator[tuple[str, str]]:
    sources: dict[str, set[str | None]] = {}
    for statement in statements(cls.body):
        for target in targets(statement):
            if isinstance(target, ast.Attribute):
                plain = isinstance(statement, ast.Assign) and statement.targets == [target]
                value = statement.value if plain and isinstance(statement, ast.Assign) else None
                source = _through_name(definitions, value) if value is not None else None
                sources.setdefault(target.attr, set()).add(source)
    for name, found in sources.items():
        source = next(iter(found)) if len(found) == 1 else None
        if source is not None:
            yield name, source


def _settings_in(node: ast.expr, resolve: Resolver) -> Iterator[str]:
    waiting: list[ast.AST] = [node]
    while waiting:
        current = waiting.pop()
        name = resolve(current) if isinstance(current, ast.expr) else None
        if name is not None:
            yield name
        else:
            waiting.extend(ast.iter_child_nodes(current))


def _joined(parts: list[Judgement], decisive: Verdict) -> Judgement:
    """Join the parts of an ``and`` (one false decides) or an ``or`` (one true decides)."""
    deciding = next((part for part in parts if part.verdict == decisive), None)
    if deciding is not None:
        return deciding
    unknown = [part for part in parts if part.verdict == "unknown"]
    if unknown:
        return Judgement("unknown", "; ".join(dict.fromkeys(part.because for part in unknown))[:400])
    because = "; ".join(dict.fromkeys(part.because for part in parts))
    return Judgement(parts[0].verdict, because, tuple(known for part in parts for known in part.decided_by))


def _distinct(found: list[Known]) -> list[Known]:
    kept: list[Known] = []
    for known in found:
        if not any(type(k.value) is type(known.value) and k.value == known.value for k in kept):
            kept.append(known)
    return kept


def _listed(values: list[Known]) -> str:
    by_name: dict[str, list[Known]] = {}
    for known in values:
        by_name.setdefault(known.name, []).append(known)
    return "; ".join(
        f"{name} is {' or '.join(known.describe() for known in found)}" for name, found in by_name.items()
    )


def _places(writes: list[Overwrite], outside: list[Overwrite]) -> str:
    lines = ", ".join(str(write.line) for write in writes[:5])
    files = ", ".join(dict.fromkeys(f"{write.path}:{write.line}" for write in outside[:3]))
    more = " and more" if len(writes) > 5 or len(outside) > 3 else ""
    return "; ".join(part for part in (f"line {lines}" if lines else "", files) if part) + more


def _short(node: ast.expr) -> str:
    return ast.unparse(node)[:120]


def _why_unknown(node: ast.expr) -> str:
    text = _short(node)
    return (
        text.strip("<>") + " cannot be told"
        if text.startswith("<")
        else f"{text} does not follow from settings"
    )
