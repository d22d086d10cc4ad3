"""Parse the command lines that `journalctl` takes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_WITH_VALUE = {
    "-u": "unit", "-n": "lines", "-o": "output", "-p": "priority", "-g": "grep", "-t": "identifier",
    "-S": "since", "-U": "until", "-b": "boot", "-c": "cursor",
}  # fmt: skip
_LONG_VALUES = frozenset(
    {
        *("unit", "lines", "output", "priority", "grep", "identifier", "since", "until", "boot", "cursor"),
        *("after-cursor", "directory", "namespace", "facility", "case-sensitive", "output-fields"),
    }
)
_FLAGS = {
    "k": "dmesg",
    "r": "reverse",
    "q": "quiet",
    "f": "follow",
    "a": "all",
    "e": "pager-end",
    "x": "catalog",
}
_LONG_FLAGS = frozenset(
    {
        *(
            "dmesg",
            "reverse",
            "quiet",
            "follow",
            "all",
            "pager-end",
            "catalog",
            "no-pager",
            "no-full",
            "full",
        ),
        *("no-hostname", "utc", "list-boots", "show-cursor", "system", "user", "merge", "no-tail", "version"),
    }
)


class BadRequest(Exception):
    """Report a command line that journalctl would refuse."""


@dataclass(slots=True)
class Query:
    """Hold a parsed command line."""

    flags: set[str] = field(default_factory=set)
    values: dict[str, list[str]] = field(default_factory=dict)
    matches: list[tuple[str, str]] = field(default_factory=list)

    def last(self, name: str, default: str = "") -> str:
        """Return the last value given for an option."""
        return (self.values.get(name) or [default])[-1]


def parse(argv: list[str]) -> Query:
    """Parse a command line; raise `BadRequest` for what journalctl does not know."""
    query = Query()
    words = list(argv)
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            _long(query, word, words)
        elif word.startswith("-") and len(word) > 1:
            _short(query, word, words)
        elif "=" in word:
            name, _, value = word.partition("=")
            query.matches.append((name, value))
        else:
            raise BadRequest(f"Failed to add match '{word}': Invalid argument")
    return query


def _long(query: Query, word: str, words: list[str]) -> None:
    name, equals, value = word[2:].partition("=")
    if name in _LONG_FLAGS:
        query.flags.add(name)
    elif name not in _LONG_VALUES:
        raise BadRequest(f"journalctl: unrecognized option '--{name}'")
    elif equals:
        query.values.setdefault(name, []).append(value)
    else:
        query.values.setdefault(name, []).append(_value(name, words))


def _short(query: Query, word: str, words: list[str]) -> None:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        name = _WITH_VALUE.get("-" + letter)
        if name is not None:
            query.values.setdefault(name, []).append(letters or _value(name, words))
            return
        if letter not in _FLAGS:
            raise BadRequest(f"journalctl: invalid option -- '{letter}'")
        query.flags.add(_FLAGS[letter])


def _value(name: str, words: list[str]) -> str:
    if name == "lines":
        return words.pop(0) if words and re.fullmatch(r"\+?\d+|all", words[0]) else "10"
    if name == "boot":
        return words.pop(0) if words and re.fullmatch(r"[+-]?\d+|[0-9a-f]{32}([+-]\d+)?", words[0]) else "0"
    if not words:
        raise BadRequest(f"journalctl: option '--{name}' requires an argument")
    return words.pop(0)
