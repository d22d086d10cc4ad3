"""Read systemd unit text: drop-ins in order, line continuations, and systemd's own quoting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_ESCAPES = {"n": "\n", "t": "\t", "s": " ", "r": "\r", "b": "\b", "a": "\a", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[0-7]{3}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_HEADER = re.compile(r"^# (/\S.*)$")


@dataclass(slots=True)
class UnitText:
    """Hold what `systemctl cat` printed: files in order, and the values of each setting by section."""

    files: list[str] = field(default_factory=list)
    settings: dict[str, list[str]] = field(default_factory=dict)

    def all(self, key: str) -> list[str]:
        """Return all values of ``Section.Key`` that were not reset by an empty one."""
        return self.settings.get(key, [])

    def last(self, key: str) -> str:
        """Return the last value of ``Section.Key``, or an empty text."""
        return (self.all(key) or [""])[-1]


def _joined(text: str) -> Iterator[str]:
    """Yield lines with continuations joined; comments inside a continued line are dropped."""
    held = ""
    for line in text.splitlines():
        if held and line.lstrip().startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        yield held + line
        held = ""
    if held:
        yield held


def parse(text: str) -> UnitText:
    """Return the settings of a unit and its drop-ins; an empty value resets what came before it."""
    unit = UnitText()
    section = ""
    for raw in _joined(text):
        line = raw.strip()
        if header := _HEADER.match(line):
            unit.files.append(header.group(1))
        elif line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif line and line[0] not in "#;" and "=" in line:
            key, _, value = line.partition("=")
            values = unit.settings.setdefault(f"{section}.{key.strip()}", [])
            if value.strip():
                values.append(value.strip())
            else:
                values.clear()
    return unit


def _unescape(match: re.Match[str]) -> str:
    body = match.group(1)
    if body[0] in "xu" and len(body) > 1:
        return chr(int(body[1:], 16))
    if body.isdigit() and len(body) == 3:
        return chr(int(body, 8))
    return _ESCAPES.get(body, body)


def split(value: str) -> list[str]:
    """Split a value into words: single and double quotes, C escapes in both, ``%%`` for a percent sign."""
    words: list[str] = []
    word: list[str] = []
    started = False
    quote = ""
    place = 0
    while place < len(value):
        char = value[place]
        escape = _ESCAPE.match(value, place) if char == "\\" else None
        if escape is not None:
            word.append(_unescape(escape))
            started, place = True, escape.end()
            continue
        place += 1
        if quote:
            quote, word = ("", word) if char == quote else (quote, [*word, char])
        elif char in "\"'":
            quote, started = char, True
        elif char.isspace():
            if started:
                words.append("".join(word))
            word, started = [], False
        else:
            word.append(char)
            started = True
    if started:
        words.append("".join(word))
    return [done.replace("%%", "%") for done in words]


def command(value: str) -> list[str]:
    """Return the argv of an ``ExecStart=`` value, without systemd's prefix characters (``-+!:@``)."""
    words = split(value)
    if words:
        bare = words[0].lstrip("-+!:@")
        if words[0][: len(words[0]) - len(bare)].count("@"):  # the second word is argv[0] only
            words = [bare, *words[2:]]
        words[0] = bare
    return words


def environment(values: list[str]) -> dict[str, str]:
    """Return the variables of ``Environment=`` values; later ones win."""
    out: dict[str, str] = {}
    for value in values:
        for word in split(value):
            name, equals, text = word.partition("=")
            if equals:
                out[name] = text
    return out
