"""Find where a package reads environment variables outside of the place that declares them, by text alone.

Parsing every file that reads one would cost seconds; only the call itself is parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tools.settings.trees import cite
from tools.settings.types import Definition, SourceTree
from tools.statements import UNKNOWN, constant

WORDS: Final = ("environ", "getenv", "env_var", "_env(")
"""What every file that reads a variable holds one of."""
_READ: Final = re.compile(
    rb"""(?P<call>\b\w*(?:getenv|env_var|_env|env_(?:bool|int|float|str|flag))\w*|\benviron\.get)\(\s*"""
    rb"""(?P<quote>["'])(?P<name>[A-Z][A-Z0-9_]{2,})(?P=quote)|"""
    rb"""\benviron\[\s*["'](?P<item>[A-Z][A-Z0-9_]{2,})["']\s*\](?!\s*=[^=])|"""
    rb"""["'](?P<member>[A-Z][A-Z0-9_]{2,})["']\s+(?:not\s+)?in\s+os\.environ\b"""
)
_HINT: Final = re.compile(rb"environ|getenv|env_var|_env|env_[bifs]")
_NOT_READS: Final = re.compile(rb"set|del|pop|deprecat|warn|print|require|check|patch|skip", re.IGNORECASE)
_LONGEST: Final = 600
_YES: Final = ("true", "1", "yes", "y")


@dataclass(frozen=True, slots=True)
class Read:
    """Hold one place that reads a variable, and what it takes when the variable is not set."""

    name: str
    path: str
    line: int
    type: str
    default: Any
    text: str


def reads(files: Iterable[tuple[str, bytes]]) -> Iterator[Read]:
    """Yield every read of a variable by its literal name."""
    for path, data in files:
        for match in _matches(data):
            start = data.rfind(b"\n", 0, match.start()) + 1
            if data[start : match.start()].lstrip().startswith(b"#"):
                continue
            found = _read(path, data, match)
            if found is not None:
                yield found


def _matches(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield what reads a variable; the slow pattern is tried only on lines that hold a word of it."""
    end = 0
    for hint in _HINT.finditer(data):
        start = max(end, data.rfind(b"\n", 0, hint.start()) + 1)
        match = _READ.search(data, start, hint.end() + _LONGEST) if hint.start() >= end else None
        if match is not None and match.start() <= hint.end():
            end = match.end()
            yield match


def variables(tree: SourceTree, found: Iterable[Read]) -> dict[str, Definition]:
    """Return one definition for each variable; where readers take different defaults, none is known."""
    by_name: dict[str, list[Read]] = {}
    for each in found:
        by_name.setdefault(each.name, []).append(each)
    return {name: _definition(tree, name, places) for name, places in sorted(by_name.items())}


def _definition(tree: SourceTree, name: str, places: list[Read]) -> Definition:
    saying = [each for each in places if each.text] or places
    texts = list(dict.fromkeys(each.text for each in saying))
    first = saying[0]
    same = len({repr(each.default) for each in saying}) == 1 and first.default is not UNKNOWN
    return Definition(
        name,
        "environment",
        first.path,
        cite(tree, first.path, first.line),
        type=first.type if len({each.type for each in saying}) == 1 else None,
        default=first.default if same else None,
        default_known=same,
        default_text=" or ".join(texts),
    )


def _read(path: str, data: bytes, match: re.Match[bytes]) -> Read | None:
    line = data.count(b"\n", 0, match.start()) + 1
    if match["item"]:
        return Read(match["item"].decode(), path, line, "str", UNKNOWN, "required")
    if match["member"]:
        return Read(match["member"].decode(), path, line, "str", None, "")
    called = match["call"]
    if _NOT_READS.search(called.rpartition(b".")[2]):
        return None
    call = _call(data, match.start())
    if call is None:
        return None
    named = {k.arg: k.value for k in call.keywords}
    node = call.args[1] if len(call.args) > 1 else named.get("default", named.get("default_value"))
    kind = next((each for each in ("bool", "int", "float") if each.encode() in called), "str")
    text = ast.unparse(node) if node is not None else "None"
    return Read(match["name"].decode(), path, line, kind, _typed(kind, node), text)


def _typed(kind: str, node: ast.expr | None) -> Any:
    """Return a reader's default as the type that it makes of it."""
    if node is None:
        return None if kind == "str" else UNKNOWN
    value = constant(node)
    if kind == "bool" and isinstance(value, str):
        return value.lower() in _YES
    if kind == "int" and isinstance(value, str):
        return int(value) if value.lstrip("-").isdigit() else UNKNOWN
    return value


def _call(data: bytes, start: int) -> ast.Call | None:
    """Parse the call that starts at a place: up to the parenthesis that closes it."""
    depth = 0
    for match in re.finditer(rb"""[()\[\]{}]|"[^"\n]*"|'[^'\n]*'""", data[start : start + _LONGEST]):
        token = match.group()
        depth += 1 if token in b"([{" else -1 if token in b")]}" else 0
        if depth == 0 and token == b")":
            text = data[start : start + match.end()].decode("utf-8", "replace")
            try:
                found = ast.parse(f"({text})", mode="eval").body
            except SyntaxError:
                return None
            return found if isinstance(found, ast.Call) else None
    return None
