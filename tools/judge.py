"""Judge conditions from the source true, false or unknown, by the settings of a running process."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tools.definitions import HIDDEN, Definitions, Overwrite, is_secret
from tools.evaluate import Resolver, evaluate
from tools.guards import guards_of
from tools.launch_values import launch_values
from tools.resolvers import inside_resolver
from tools.statements import UNKNOWN
from tools.syntax import steps_to

Verdict = Literal["true", "false", "unknown"]
Origin = Literal["flag", "default", "effective", "overwrite"]

_MOST_WORLDS: Final = 64
_LEAVES: Final = (ast.Name, ast.Constant, ast.expr_context, ast.cmpop, ast.operator, ast.unaryop)


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


@dataclass(frozen=True, slots=True)
class _View:
    """Say how a condition is looked at: what it reads, from where, how deep, whether a reason is wanted."""

    resolve: Resolver
    inside: bool
    depth: int
    explain: bool = True


@dataclass(slots=True)
class Judge:
    """Know the settings of one process: from its launch line, the defaults, and the server if it answered."""

    definitions: Definitions
    launched: Mapping[str, Any]
    effective: Mapping[str, Any]
    _memo: dict[tuple[str, bool, int], list[Known] | str] = field(default_factory=dict)
    _running: dict[tuple[int, int, int], bool] = field(default_factory=dict)
    _inside: dict[tuple[int, int], tuple[ast.expr, Verdict]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, definitions: Definitions, argv: Sequence[str], effective: Mapping[str, Any] | None = None
    ) -> Judge:
        """Build a judge for a process by its command line and what ``/server_info`` says."""
        return cls(definitions, launch_values(definitions, argv), effective or {})

    def judge(self, condition: ast.expr, resolve: Resolver, *, inside: bool = False) -> Judgement:
        """Judge a condition; ``inside`` says that it stands in the class that defines the settings."""
        return self._truth(condition, _View(resolve, inside, depth=2))

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
        place = (write.line, write.column, depth)
        if place not in self._running:
            self._running[place] = self._is_possible(write, depth)
        return self._running[place]

    def _is_possible(self, write: Overwrite, depth: int) -> bool:
        module = self.definitions.module
        key = ("guards", write.line, write.column)
        if key not in module.memo:
            module.memo[key] = guards_of(module, steps_to(module, write.line, write.column))
        return all(self._truth_inside(guard.condition, depth - 1) != "false" for guard in module.memo[key])

    def _truth_inside(self, node: ast.expr, depth: int) -> Verdict:
        """Judge a condition of the class once: an early return is one of every statement that follows."""
        key = (id(node), depth)
        if key not in self._inside:
            view = _View(inside_resolver(self.definitions), inside=True, depth=depth, explain=False)
            self._inside[key] = node, self._truth(node, view).verdict
        return self._inside[key][1]

    def _truth(self, node: ast.expr, view: _View) -> Judgement:
        if isinstance(node, ast.BoolOp):
            decisive: Verdict = "false" if isinstance(node.op, ast.And) else "true"
            parts = []
            for value in node.values:
                parts.append(self._truth(value, view))
                if parts[-1].verdict == decisive:
                    return parts[-1]
            return _joined(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._truth(node.operand, view)
            flipped: dict[Verdict, Verdict] = {"true": "false", "false": "true", "unknown": "unknown"}
            return Judgement(flipped[inner.verdict], inner.because, inner.decided_by)
        return self._atom(node, view)

    def _atom(self, node: ast.expr, view: _View) -> Judgement:
        choices: dict[str, list[Known]] = {}
        for name in dict.fromkeys(_settings_in(node, view.resolve)):
            found = self.candidates(name, inside=view.inside, depth=view.depth)
            if isinstance(found, str):
                return Judgement("unknown", found)
            choices[name] = found
        worlds = list(itertools.islice(itertools.product(*choices.values()), _MOST_WORLDS + 1))
        if len(worlds) > _MOST_WORLDS:
            return Judgement("unknown", f"{_short(node)} has too many possible values")
        results = set()
        for world in worlds:
            value = evaluate(node, view.resolve, {known.name: known.value for known in world})
            if value is UNKNOWN:
                return Judgement("unknown", _why_unknown(node) if view.explain else "")
            results.add(bool(value))
        everything = [known for found in choices.values() for known in found]
        if not view.explain:
            return Judgement("unknown" if len(results) != 1 else "true" if results.pop() else "false", "")
        if len(results) != 1:
            return Judgement("unknown", f"{_listed(everything)}, and these disagree")
        firm = tuple(known for known in everything if known.origin != "overwrite")
        because = _listed(list(firm)) if everything else f"{_short(node)} is constant"
        if len(firm) < len(everything):
            because += "; no overwrite that may run changes the answer"
        return Judgement("true" if results.pop() else "false", because, firm)


def _settings_in(node: ast.expr, resolve: Resolver) -> Iterator[str]:
    waiting: list[ast.AST] = [node]
    while waiting:
        current = waiting.pop()
        name = resolve(current) if isinstance(current, ast.expr) else None
        if name is not None:
            yield name
        elif not isinstance(current, _LEAVES):
            waiting.extend(ast.iter_child_nodes(current))


def _joined(parts: list[Judgement]) -> Judgement:
    """Join the parts of an ``and`` (or an ``or``) none of which decides it alone."""
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
