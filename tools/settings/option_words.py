"""Find, for every word of a launch line, the option of this version that it stands for, as argparse does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.settings.types import Definition, Engine

Fit = Literal["exact", "shortened", "ambiguous", "unknown"]

NUMBER = re.compile(r"-\d+|-\d*\.\d+")
"""What argparse takes for a value although it begins with a dash."""
_HELP = ("-h", "--help")
_UNDERSCORES = re.compile(r"(?<=--)[^.]*")
_LEVEL = re.compile(r"-O=?(?P<level>[^.].*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Spelling:
    """Hold one option string of a version, and what it sets; ``definition`` is None for ``--help``."""

    text: str
    definition: Definition | None
    negative: bool = False
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """Hold one option of a launch line: what it stands for, and the words that follow it."""

    place: int
    word: str
    """As it was written, an attached value left out."""
    name: str
    """As the engine's parser looks it up."""
    fit: Fit
    spellings: tuple[Spelling, ...]
    """One when it fits; every candidate when it is ambiguous."""
    values: tuple[str, ...] = ()
    attached: str | None = None
    """The value after ``=``."""
    keys: tuple[str, ...] = ()
    """Of ``--compilation-config.pass_config.x``: what follows the option."""

    @property
    def spelling(self) -> Spelling | None:
        """Return what it stands for, when that is clear."""
        return self.spellings[0] if self.fit in ("exact", "shortened") else None

    @property
    def definition(self) -> Definition | None:
        """Return the setting it stands for, when that is clear."""
        return self.spelling.definition if self.spelling else None


def spellings_of(definitions: Mapping[str, Definition], engine: Engine) -> dict[str, Spelling]:
    """Return every option string of a version; of settings that share one, the first has it."""
    found = {text: Spelling(text, None) for text in _HELP} if is_argparse(engine) else {}
    for definition in definitions.values():
        if definition.kind != "field":
            continue
        for text in definition.flags:
            found.setdefault(text, Spelling(text, definition))
        for text in definition.negative_flags:
            found.setdefault(text, Spelling(text, definition, negative=True))
        for text in definition.deprecated_flags:
            found.setdefault(text, Spelling(text, definition, deprecated=True))
    return found


def is_argparse(engine: Engine) -> bool:
    """Tell whether the engine's parser is Python's, which completes shortened options."""
    return engine in ("sglang", "vllm")


def read_options(
    words: Sequence[str], spellings: Mapping[str, Spelling], engine: Engine
) -> tuple[list[str], list[Given]]:
    """Return the words before the first option, and the options with the words that follow each."""
    leading: list[str] = []
    found: list[Given] = []
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":  # what follows are no options
            break
        given = _given(place, word, words, spellings, engine)
        place += 1
        if given is None:
            leading.append(word)
            continue
        if given.attached is None:
            last = place + 1 if given.keys else _end_of_values(words, place, spellings, engine)
            given = _with_values(given, words[place:last])
            place = min(last, len(words))
        found.append(given)
    return leading, found


def _with_values(given: Given, values: Sequence[str]) -> Given:
    return Given(
        given.place, given.word, given.name, given.fit, given.spellings, tuple(values), None, given.keys
    )


def _end_of_values(
    words: Sequence[str], place: int, spellings: Mapping[str, Spelling], engine: Engine
) -> int:
    while place < len(words) and words[place] != "--":
        if _given(place, words[place], words, spellings, engine) is not None:
            break
        place += 1
    return place


def _given(
    place: int, word: str, words: Sequence[str], spellings: Mapping[str, Spelling], engine: Engine
) -> Given | None:
    """Return what a word stands for as an option; None when it is a value."""
    if not word.startswith("-") or len(word) == 1 or (word in spellings and engine == "sglang"):
        return Given(place, word, word, "exact", (spellings[word],)) if word in spellings else None
    if engine == "vllm":
        if (level := _level(place, word, words, spellings)) is not None:
            return level
        if (dotted := _dotted(place, word, spellings)) is not None:
            return dotted
    head, equals, value = word.partition("=")
    attached = value if equals else None
    name = _dashed(head) if engine == "vllm" else head
    if name in spellings:
        return Given(place, head, name, "exact", (spellings[name],), attached=attached)
    if is_argparse(engine) and (short := _shortened(place, word, name, head, attached, spellings)):
        return short
    if NUMBER.fullmatch(word) or " " in word:
        return None
    return Given(place, head, name, "unknown", (), attached=attached)


def _dashed(name: str) -> str:
    """Return an option's name as vLLM's parser turns it round: dashes, up to the first full stop."""
    return _UNDERSCORES.sub(lambda match: match[0].replace("_", "-"), name, count=1)


def _shortened(
    place: int, word: str, name: str, head: str, attached: str | None, spellings: Mapping[str, Spelling]
) -> Given | None:
    """Complete the beginning of an option; a short one may have its value glued on."""
    near = [spelling for text, spelling in spellings.items() if text.startswith(name)]
    if not name.startswith("--"):
        glued = spellings.get(name[:2])
        if glued is not None and not near:
            return Given(place, name[:2], name[:2], "exact", (glued,), attached=word[2:])
        near += [glued] if glued is not None else []
    if not near:
        return None
    fit: Fit = "shortened" if len(near) == 1 else "ambiguous"
    return Given(place, head, name, fit, tuple(near), attached=attached)


def _level(place: int, word: str, words: Sequence[str], spellings: Mapping[str, Spelling]) -> Given | None:
    """Read vLLM's ``-O3``, ``-O=3`` and ``-O 3``."""
    match = _LEVEL.fullmatch(word)
    option = spellings.get("--optimization-level") or spellings.get("-O")
    if match is None or option is None:
        return None
    keys = () if option.text == "--optimization-level" else ("level",)
    if match["level"] is not None:
        return Given(place, "-O", option.text, "exact", (option,), attached=match["level"], keys=keys)
    after = words[place + 1] if place + 1 < len(words) else ""
    if word == "-O" and after in ("0", "1", "2", "3"):
        return Given(place, "-O", option.text, "exact", (option,), keys=keys)
    return None


def _dotted(place: int, word: str, spellings: Mapping[str, Spelling]) -> Given | None:
    """Read vLLM's ``--compilation-config.mode 3``, one key of an option that takes JSON."""
    head, equals, value = word.partition("=")
    if "." not in head or NUMBER.fullmatch(word):
        return None
    name, *keys = _dashed(head).removesuffix("+").split(".")
    attached = value if equals else None
    near = [spelling for text, spelling in spellings.items() if text.startswith(name)]
    if name in spellings:
        return Given(place, head, name, "exact", (spellings[name],), attached=attached, keys=tuple(keys))
    fit: Fit = "unknown" if not near else "shortened" if len(near) == 1 else "ambiguous"
    return Given(place, head, name, fit, tuple(near), attached=attached, keys=tuple(keys))
