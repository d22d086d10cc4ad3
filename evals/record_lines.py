"""Understand a line that a person types: a tool with JSON or ``key=value``, or a short form. No I/O.

Short forms: ``hypothesis "STATEMENT" rank=1 for=PATTERN against=PATTERN``,
``cite H1 P2 KIND ARTIFACT "QUOTE" [lines=10-12] [note=...]``, and ``claim TYPE key=value ...``, which is kept
for the ``conclude`` that follows.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from agent.errors import UsageError
from agent.models import ToolSchema

SHORT_FORMS = ("cite", "claim")

Arguments = dict[str, Any]


def understand(line: str, tools: Sequence[ToolSchema], claims: list[Any]) -> tuple[str, Arguments] | None:
    """Return tool and arguments of a line; None for a claim, which is added to ``claims``.

    Raises `UsageError` for what is no call of these tools.
    """
    word, _, rest = line.strip().partition(" ")
    known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    if word == "cite":
        return "hypothesis", _cite(_words(rest))
    if word == "claim":
        claims.append(_claim(rest))
        return None
    if word not in known:
        raise UsageError(f"no tool {word!r}", do=f"there are: {', '.join([*known, *SHORT_FORMS])}")
    if rest.lstrip().startswith("{"):
        arguments = _object(rest)
    elif word == "hypothesis":
        arguments = _hypothesis(_words(rest))
    else:
        arguments = _arguments(_words(rest), known[word])
    if word == "conclude":
        arguments = {"claims": [*claims, *arguments.pop("claims", [])]} | arguments
    return word, arguments


def fields_of(tool: str, tools: Sequence[ToolSchema]) -> Mapping[str, Any]:
    """Return the fields of a tool's arguments with their schemas."""
    for one in tools:
        if one["function"]["name"] == tool:
            fields: Mapping[str, Any] = one["function"]["parameters"].get("properties", {})
            return fields
    return {}


def choices_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the values that a field may have, when they are few."""
    parts = [schema, *schema.get("anyOf", ())]
    found = [str(value) for part in parts for value in part.get("enum", ())]
    return found or (["true", "false"] if any(part.get("type") == "boolean" for part in parts) else [])


def _words(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"cannot be taken apart: {error}", do="close the quotes") from error


def _object(text: str) -> Arguments:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"not JSON: {error}", do="write one object, or key=value") from error
    if not isinstance(value, dict):
        raise UsageError("not an object", do="write one object, or key=value")
    return value


def _pairs(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the words without a key, and those with one."""
    plain = [
        word
        for word in words
        if "=" not in word or not word.partition("=")[0].replace(".", "").isidentifier()
    ]
    pairs = [(key, value) for word in words if word not in plain for key, _, value in [word.partition("=")]]
    return plain, pairs


def _arguments(words: Sequence[str], schema: Mapping[str, Any]) -> Arguments:
    plain, pairs = _pairs(words)
    if plain:
        raise UsageError(f"{plain[0]!r} has no key", do="write key=value, or one JSON object")
    fields = schema.get("properties", {})
    arguments: Arguments = {}
    for key, text in pairs:
        if "." in key:
            _put(arguments, key.split("."), _guess(text))
            continue
        kinds = _types(fields.get(key, {}))
        if "array" in kinds and not text.startswith("["):
            arguments.setdefault(key, []).append(
                _guess(text) if "string" not in _items(fields[key]) else text
            )
        else:
            arguments[key] = text if "string" in kinds else _guess(text)
    return arguments


def _types(schema: Mapping[str, Any]) -> set[str]:
    found = {str(part["type"]) for part in [schema, *schema.get("anyOf", ())] if "type" in part}
    return found | ({"string"} if "enum" in schema else set())


def _items(schema: Mapping[str, Any]) -> set[str]:
    parts = [schema, *schema.get("anyOf", ())]
    return {kind for part in parts if isinstance(part.get("items"), dict) for kind in _types(part["items"])}


def _guess(text: str) -> Any:
    """Return a number, a truth value, a list or an object for what is one in JSON, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _put(arguments: Arguments, way: Sequence[str], value: Any) -> None:
    for name in way[:-1]:
        arguments = arguments.setdefault(name, {})
        if not isinstance(arguments, dict):
            raise UsageError(f"{'.'.join(way)}: {name} has a value already")
    arguments[way[-1]] = value


def _hypothesis(words: Sequence[str]) -> Arguments:
    plain, pairs = _pairs(words)
    checks = [(key, text) for key, text in pairs if key in ("for", "against")]
    if len(plain) != 1 or not {"for", "against"} <= {key for key, _ in checks}:
        raise UsageError(
            "a hypothesis needs a statement and what would speak for and against it",
            do='write: hypothesis "STATEMENT" rank=1 for=PATTERN against=PATTERN',
        )
    predictions = [
        {"id": f"P{n}", "favours": key, "says": f"what is cited matches {text}", "check": _text(text)}
        for n, (key, text) in enumerate(checks, 1)
    ]
    rank = _guess(dict(pairs).get("rank", "1"))
    return {"add": [{"statement": plain[0], "rank": rank, "predictions": predictions}]}


def _text(pattern: str) -> Arguments:
    return {"kind": "text", "pattern": pattern}


def _cite(words: Sequence[str]) -> Arguments:
    if len(words) < 5:
        raise UsageError(
            "a citation names what it is for and where it stands",
            do='write: cite H1 P2 log t4.1 "QUOTE" lines=10-12',
        )
    hypothesis, prediction, kind, artifact, quote, *more = words
    evidence: Arguments = {"prediction": prediction, "kind": kind, "artifact": artifact, "quote": quote}
    for key, text in _pairs(more)[1]:
        evidence[key] = [int(part) for part in text.split("-")][:2] if key == "lines" else _guess(text)
    if len(evidence.get("lines", [0, 0])) == 1:
        evidence["lines"] *= 2
    return {"update": [{"id": hypothesis, "evidence": [evidence]}]}


def _claim(rest: str) -> Arguments:
    if rest.lstrip().startswith("{"):
        return _object(rest)
    kind, *words = _words(rest) or [""]
    _, pairs = _pairs(words)
    claim: Arguments = {"type": kind}
    for key, text in pairs:
        plain = key in ("says", "name", "value", "pattern", "scope", "expression", "cite.quote")
        _put(claim, key.split("."), text if plain and kind != "measurement" else _guess(text))
    return claim
