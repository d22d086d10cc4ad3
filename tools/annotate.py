"""Say of each match in a Python file what it is, where, and under which judged conditions it is reached."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools.definitions import HIDDEN, is_secret
from tools.evaluate import Resolver
from tools.guards import Guard, branch_test, guards_of
from tools.judge import Judge, Judgement, Known, Verdict
from tools.resolvers import resolver_at
from tools.scopes import Use, identifier_at, symbol_of, use_at
from tools.search import Hit
from tools.statements import UNKNOWN, statements, targets, text_of
from tools.syntax import Module, Step

DEFINITION_CHARS = 2000
"""Longest definition of a setting shown with a fact that it decides."""


@dataclass(frozen=True, slots=True)
class Place:
    """Tie a parsed file to the judge of a process; ``path`` is below the package, where it is in one."""

    module: Module
    path: str
    judge: Judge | None
    shown: Sequence[bytes]
    """Lines as they may be shown (redacted), by index."""
    settings_artifact: str | None = None
    """Handle of the settings file, where that is another file than this one."""


def annotate(place: Place, hit: Hit, *, conditions: bool = True) -> dict[str, Any]:
    """Return the parts of a match's view that come from the syntax tree."""
    start, end = _best_span(hit)
    way, use = use_at(place.module, hit.line, start, end)
    view: dict[str, Any] = {"kind": use.kind, "symbol": symbol_of(way)}
    if use.kind in ("write", "definition") and use.value is not UNKNOWN:
        view["value"] = json_value(use.value)
    view |= _pairing(place.module, way, use)
    if not conditions:
        return view
    if not use.in_code:
        return view | {"guards": [], "verdict": "unknown"}
    resolve, inside = _resolver(place, way)
    guards = [_guard_view(place, guard, resolve, inside) for guard in guards_of(place.module, way)]
    view |= {"guards": guards, "verdict": _overall([guard["verdict"] for guard in guards])}
    tested = branch_test(way)
    if tested is not None:
        view["test"] = _test_view(place, tested, resolve, inside)
    return view


def json_value(value: Any) -> Any:
    """Return a constant in JSON types; what has no JSON form becomes text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, list | tuple | set | frozenset):
        parts = list(value) if isinstance(value, list | tuple) else sorted(value, key=repr)
        return [json_value(part) for part in parts[:50]]
    return repr(value)[:200]


def _best_span(hit: Hit) -> tuple[int, int]:
    """Return the span that is a whole name, if there is one: ``x`` before the ``x`` in ``backup_x``."""
    for start, end in hit.spans:
        if identifier_at(hit.text, start, end) == hit.text[start:end].strip(b". ="):
            return start, end
    return hit.spans[0] if hit.spans else (0, len(hit.text))


def _resolver(place: Place, way: list[Step]) -> tuple[Resolver, bool]:
    if place.judge is None:
        return (lambda node: None), False
    return resolver_at(place.judge.definitions, place.module, place.path, way, place.judge.launched)


def _judged(place: Place, condition: ast.expr, resolve: Resolver, inside: bool) -> Judgement:
    if place.judge is None:
        return Judgement("unknown", "no engine process to judge by")
    return place.judge.judge(condition, resolve, inside=inside)


def _guard_view(place: Place, guard: Guard, resolve: Resolver, inside: bool) -> dict[str, Any]:
    judgement = _judged(place, guard.condition, resolve, inside)
    return {
        "line": guard.line,
        "condition": guard.text[:300],
        "source": shown_lines(place, guard.line, guard.last_line),
        "verdict": judgement.verdict,
        "because": judgement.because[:400],
        "decided_by": [_fact_view(place, known) for known in judgement.decided_by],
    }


def _test_view(place: Place, branch: ast.If, resolve: Resolver, inside: bool) -> dict[str, Any]:
    """Judge the test that a match stands in, and say what the branch does when it holds."""
    test = branch.test
    guard = Guard(branch.lineno, test, test.end_lineno or branch.lineno)
    return _guard_view(place, guard, resolve, inside) | {
        "then": ast.unparse(branch.body[0]).splitlines()[0][:100]
    }


def shown_lines(place: Place, first: int, last: int) -> str:
    """Return lines as they stand in the file, at most 8 of them, so that they can be quoted."""
    lines = place.shown[first - 1 : min(last, first + 7)]
    return b"\n".join(lines).decode("utf-8", "replace").strip()[:600]


def _fact_view(place: Place, known: Known) -> dict[str, Any]:
    value = HIDDEN if is_secret(known.name) else json_value(known.value)
    fact = {"name": known.name, "value": value, "origin": known.origin, "line": known.line}
    if known.line and place.judge is not None:
        definitions = place.judge.definitions
        defined = definitions.fields.get(known.name)
        last = defined.last_line if defined and defined.line == known.line else known.line
        text = b"\n".join(definitions.module.lines[known.line - 1 : last]).decode("utf-8", "replace").strip()
        if len(text) <= DEFINITION_CHARS:  # a longer one could not be quoted whole
            fact |= {"text": text, "last_line": last}
        if place.settings_artifact is not None:
            fact["artifact"] = place.settings_artifact
    return fact


def _overall(verdicts: list[Verdict]) -> Verdict:
    if "false" in verdicts:
        return "false"
    return "true" if all(verdict == "true" for verdict in verdicts) else "unknown"


def _pairing(module: Module, way: list[Step], use: Use) -> dict[str, Any]:
    """Mark the halves of a pair that saves a value and restores it later in the same function."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    function = next((s.child for s in reversed(way) if isinstance(s.child, functions)), None)
    node = way[-1].child if way else None
    if function is None or not isinstance(node, ast.Attribute):
        return {}
    key = ("pairs", id(function))
    if key not in module.memo:
        module.memo[key] = _pairs(function)
    for name, saved, restored in module.memo[key]:
        if name != node.attr:
            continue
        if node.lineno == saved and use.kind == "read":
            return {"note": f"saved here, restored at line {restored}"}
        if use.kind == "write" and saved < node.lineno < restored:
            return {"note": f"temporary: saved at line {saved}, restored at line {restored}"}
        if use.kind == "write" and node.lineno == restored:
            return {"restores": True, "note": f"restores what line {saved} saved"}
    return {}


def _pairs(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, int, int]]:
    """Return attribute, line of the save and line of the restore for each pair in a function."""
    saves: dict[str, tuple[str, int]] = {}
    writes: dict[str, list[int]] = {}
    pairs = []
    for statement in statements(function.body):
        if not isinstance(statement, ast.Assign):
            continue
        value = statement.value
        saved, line = saves.get(text_of(value), ("", 0)) if saves and _is_name(value) else ("", 0)
        for target in targets(statement):
            if isinstance(target, ast.Attribute):
                # Without another write in between it is a copy, not a pair.
                if target.attr == saved and any(line < other for other in writes.get(saved, [])):
                    pairs.append((saved, line, target.end_lineno or statement.lineno))
                writes.setdefault(target.attr, []).append(target.lineno)
            if isinstance(value, ast.Attribute):
                saves[text_of(target)] = (value.attr, statement.lineno)
    return pairs


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute)
