"""Check the words that follow an option against what this version takes there."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any, Final, Literal

from tools.settings.option_words import Given
from tools.settings.problems import Problem
from tools.settings.types import Definition, Engine

_SUFFIXED: Final = re.compile(r"\d+(\.\d+)?[kKmMgGtT]")
_SUFFIXED_IN_JSON: Final = re.compile(r"[:\[,]\s*\d+(\.\d+)?[kKmMgGtT]\b")
_OBJECT: Final = re.compile(r"\s*\{.*\}\s*", re.DOTALL)
_JSON_TYPE: Final = re.compile(r"\b[Dd]ict\b|Config\b")
_CONFIG: Final = re.compile(r"(?:Optional\[)?[A-Z]\w*Config(?:\])?(?: \| None)?")
_PLAIN: Final = frozenset({"str", "int", "float", "bool", "dict", "list"})
_NOTHING: Final = ("", "None")
_WRAPPED: Final = re.compile(
    r"(?:Optional|SkipValidation|optional_type|parse_type|List|list|set|Set)[\[(](.*)[\])]"
)


def check_values(given: Given, engine: Engine) -> Iterator[Problem]:
    """Yield what is wrong with the words of one option, when that is certain."""
    definition, spelling = given.definition, given.spelling
    if definition is None or spelling is None or given.keys:
        return
    takes = "unknown" if spelling.deprecated and not definition.deprecated else definition.takes
    words = [given.attached] if given.attached is not None else list(given.values)
    if takes == "none" or spelling.negative:
        if words:
            yield _problem(
                "bad_type",
                given,
                f"{given.word} is a switch and takes no value; {_listed(words)} stands behind it",
            )
        return
    if takes in ("one", "some") and not words:
        yield _problem("missing_value", given, f"{given.word} needs a value and none follows it")
        return
    if takes in ("one", "optional") and len(words) > 1:
        extra = _listed(words[1:])
        yield _problem(
            "bad_type", given, f"{given.word} takes one value; {extra} is left over behind {words[0]}"
        )
        words = words[:1]
    if takes != "unknown":
        for word in words:
            yield from _check_word(given, definition, word, engine)


def _problem(kind: Literal["bad_type", "bad_choice", "missing_value"], given: Given, message: str) -> Problem:
    cite = given.definition.cite if given.definition is not None else None
    return Problem(kind, given.word, message, cite=cite)


def _listed(words: list[str]) -> str:
    return " ".join(words)[:80]


def _check_word(given: Given, definition: Definition, word: str, engine: Engine) -> Iterator[Problem]:
    kind = number_kind(definition.reader)
    if engine == "vllm" and word in _NOTHING and _takes_nothing(definition):
        return
    if kind is not None and not _is_number(word, kind, engine):
        yield _problem("bad_type", given, f"{given.word} takes {_NAMED[kind]}, not {word[:80]!r}")
    elif definition.choices is not None and not _is_choice(word, definition.choices):
        listed = [str(choice) for choice in definition.choices if choice is not None]
        near = difflib.get_close_matches(word, listed, n=1, cutoff=0.5)
        shown = ", ".join(listed[:12]) + (f" and {len(listed) - 12} more" if len(listed) > 12 else "")
        message = f"{given.word} takes one of {shown}; not {word[:80]!r}"
        message += f" (did you mean {near[0]}?)" if near else ""
        nearest = near[0] if near else None
        yield Problem(
            "bad_choice", given.word, message, nearest, definition.cite, _is_type(definition.reader)
        )
    elif _is_broken_json(word, definition.reader, engine):
        yield _problem(
            "bad_type", given, f"{given.word} is given {word[:60]!r}, which is no JSON that it takes"
        )


_NAMED: Final = {"int": "a whole number", "float": "a number"}


def number_kind(reader: str) -> Literal["int", "float"] | None:
    """Return which number an option's words are read as; None for any other, or several, types."""
    text = reader.strip()
    while (match := _WRAPPED.fullmatch(text)) is not None:
        text = match[1].strip()
    parts = {part.strip() for part in text.split("|")} - {"None"}
    if parts == {"int"}:
        return "int"
    return "float" if parts == {"float"} else None


def _takes_nothing(definition: Definition) -> bool:
    return definition.default is None or "None" in definition.reader or "ptional" in definition.reader


def _is_number(word: str, kind: Literal["int", "float"], engine: Engine) -> bool:
    try:
        float(word) if kind == "float" else int(word)
    except ValueError:
        # vLLM reads 16k and auto for some of its whole numbers, whatever the type of the field.
        return engine == "vllm" and kind == "int" and (word == "auto" or bool(_SUFFIXED.fullmatch(word)))
    return True


def _is_choice(word: str, choices: tuple[Any, ...]) -> bool:
    if any(str(choice) == word for choice in choices):
        return True
    numbers = [choice for choice in choices if isinstance(choice, int | float)]
    try:
        return bool(numbers) and float(word) in numbers
    except ValueError:
        return False


def _is_type(reader: str) -> bool:
    """Tell whether words are taken as they are: the reader is a type, not a function that changes them."""
    return "(" not in reader and "lambda" not in reader and (reader in _PLAIN or not reader.islower())


def _is_broken_json(word: str, reader: str, engine: Engine) -> bool:
    if engine == "vllm" and _CONFIG.fullmatch(reader) and not _OBJECT.fullmatch(word):
        return True  # these take nothing but an object
    objects = (
        engine == "vllm" and _JSON_TYPE.search(reader) is not None and _OBJECT.fullmatch(word) is not None
    )
    if not ("json.loads" in reader or objects) or _SUFFIXED_IN_JSON.search(word):
        return False
    try:
        json.loads(word)
    except ValueError:
        return True
    except RecursionError:
        return False
    return False
