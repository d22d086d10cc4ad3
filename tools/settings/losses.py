"""Weigh what a value of a setting leaves out at a test, against another value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools.settings.effects import calls_in, in_endless_loop, lines_of
from tools.settings.judging import Judging
from tools.settings.readers import Reader
from tools.settings.types import Truth

_FAST: Final = re.compile(
    r"graph|overlap|async|prefetch|compile|fus(?:ed|ion)|capture|pipelin|(?:cuda|alt|copy)_?stream|chunked"
    r"|cache|specul|replay|persistent|pinned|batched|radix",
    re.IGNORECASE,
)
"""Words that engines name their fast paths with."""
_SLOW: Final = re.compile(
    r"eager|sync(?:hron\w*)?$|synchronize|fallback|naive|native|normal|slow", re.IGNORECASE
)
_LIBRARY: Final = re.compile(r"^(?:logger|logging|torch\.compiler|print|warnings)\b")
_OFF: Final = ("NONE", "DISABLED", "OFF", "EAGER")
_MAKES: Final = 1.5
_NAMED: Final = 0.8
_LONG: Final = 20


@dataclass(frozen=True, slots=True)
class Loss:
    """Hold what does not run at one place because of a setting's value."""

    reader: Reader
    weight: float
    text: str
    names: tuple[str, ...]
    """What does not run, or runs later."""


def loss_of(judging: Judging, reader: Reader, value: Any, other: Any) -> Loss | None:
    """Return what runs with another value and not with this one; None when that is nothing of speed."""
    branch = reader.branch
    if branch is None or branch.refuses:
        return None
    now = judging.supposed(reader, branch.test, value)
    then = judging.supposed(reader, branch.test, other)
    if now == then or (then == "unknown" and now == "unknown"):
        return None
    lost, gained = _sides(branch.holds, branch.fails, now, then)
    if not lost:
        return None
    moved = _moved(judging, reader, lost, value, other)
    weight, names = _weighed(lost, gained)
    if moved:
        weight, names = weight + 3.0, [moved.partition("(")[0]]
    if not weight:
        return None
    weight += 1.0 if in_endless_loop(reader.way) else 0.0
    weight += 0.5 if lines_of(lost) >= _LONG else 0.0
    through = f" (through {reader.through})" if reader.through else ""
    text = f"with {reader.name} = {value!r}, `{reader.text}`{through} leaves out {', '.join(names[:3])}"
    if moved:
        text = f"with {reader.name} = {value!r}, `{reader.text}` puts off {moved}"
    elif gained and isinstance(gained[-1], ast.Return) and len(gained) == 1:
        text += " by returning early"
    return Loss(reader, round(weight, 2), text, tuple(names))


def switched_off(judging: Judging, reader: Reader, value: Any, other: Any) -> Loss | None:
    """Return what a step of working out the settings switches off because of this one's value."""
    branch = reader.branch
    if branch is None or branch.refuses:
        return None
    now = judging.supposed(reader, branch.test, value)
    then = judging.supposed(reader, branch.test, other)
    if now == then:
        return None
    _, gained = _sides(branch.holds, branch.fails, now, then)
    names = list(dict.fromkeys(_offs(gained)))
    if not names:
        return None
    text = f"with {reader.name} = {value!r}, `{reader.text}` leads to `{'`, `'.join(names[:2])}`"
    return Loss(reader, min(3.0, 1.5 * len(names)), text, tuple(names))


def _offs(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the assignments and calls that give a fast path an off value."""
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            if _FAST.search(node.targets[0].attr) and _is_off(node.value):
                yield ast.unparse(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            arguments = [*node.value.args, *(keyword.value for keyword in node.value.keywords)]
            if any(isinstance(part, ast.Attribute) and _is_off(part) for part in arguments):
                yield ast.unparse(node)


def _is_off(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _OFF
    return isinstance(node, ast.Constant) and (not node.value or str(node.value).upper() in _OFF)


def _sides(
    holds: tuple[ast.AST, ...], fails: tuple[ast.AST, ...], now: Truth, then: Truth
) -> tuple[tuple[ast.AST, ...], tuple[ast.AST, ...]]:
    """Return what may run with the other value alone, and what may run with the one in force alone."""
    if then == "true" or now == "false":
        return holds, fails
    return fails, holds


def _weighed(lost: Sequence[ast.AST], gained: Sequence[ast.AST]) -> tuple[float, list[str]]:
    here = dict(_marks(lost))
    there = dict(_marks(gained))
    named = {name: weight for name, weight in here.items() if name not in there}
    weight = min(3.0, sum(sorted(named.values(), reverse=True)[:3]))
    weight -= min(1.5, sum(list(there.values())[:2]))
    weight += 0.8 if any(_SLOW.search(_short(call)) for call in calls_in(gained)) else 0.0
    return (weight, list(named)) if weight > 0 and named else (0.0, [])


def _marks(nodes: Sequence[ast.AST]) -> list[tuple[str, float]]:
    """Return the calls that the names of fast paths stand in; making an object weighs most."""
    found = []
    for call in calls_in(nodes):
        text = ast.unparse(call.func)
        name = _short(call)
        if _LIBRARY.match(text) or not _FAST.search(name):
            continue
        found.append((f"{name}()", _MAKES if name.lstrip("_")[:1].isupper() else _NAMED))
    return found


def _short(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _moved(judging: Judging, reader: Reader, lost: Sequence[ast.AST], value: Any, other: Any) -> str:
    """Return the call that the function makes later instead, under the opposite test of the same setting."""
    step = next((s for s in reversed(reader.way) if isinstance(s.child, ast.If)), None)
    if step is None or not isinstance(step.child, ast.If) or tuple(step.child.body) != tuple(lost):
        return ""
    block = getattr(step.parent, step.field)
    later = block[step.index + 1 :] if isinstance(block, list) else []
    for index, below in enumerate(later):
        if not isinstance(below, ast.If) or not _reads(below.test, reader):
            continue
        tests = [judging.supposed(reader, below.test, one) for one in (value, other)]
        if tests != ["true", "false"]:
            continue
        again = {ast.dump(call) for call in calls_in(below.body)}
        passed = [name for call in calls_in(later[:index]) if (name := _short(call))]
        for call in calls_in(lost):
            if ast.dump(call) in again and passed:
                return (
                    f"{_short(call)}() from line {call.lineno} to line {below.lineno}, after {passed[-1]}()"
                )
    return ""


def _reads(test: ast.expr, reader: Reader) -> bool:
    word = (reader.through or reader.name).rpartition(".")[2]
    return any(isinstance(node, ast.Attribute | ast.Name) and word in _names(node) for node in ast.walk(test))


def _names(node: ast.Attribute | ast.Name) -> tuple[str, ...]:
    return (node.attr,) if isinstance(node, ast.Attribute) else (node.id,)
