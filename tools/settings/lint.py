"""Lint a launch line for the version that is installed: what it refuses, changes, or does not know.

The definitions of the version decide; where its argument code was evaluated as well, what that code refuses
and silently changes is told too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from tools.settings.config_file import config_words
from tools.settings.counterparts import NAMES, counterpart, same_meaning
from tools.settings.lint_environment import check_environment
from tools.settings.lint_evaluation import check_evaluation
from tools.settings.lint_values import check_values
from tools.settings.option_words import (
    Given,
    Spelling,
    is_argparse,
    read_options,
    spellings_of,
)
from tools.settings.problems import Problem
from tools.settings.started_words import words_for
from tools.settings.types import Cite, Definition, Evaluation, SourceTree

ReadFile = Callable[[str], bytes | None]
_SAYS_SO = re.compile(r"^\W*deprecated\W*", re.IGNORECASE)
"""How a help text begins that says no more than that."""


def lint(
    tree: SourceTree,
    definitions: Mapping[str, Definition],
    argv: Sequence[str],
    environment: Mapping[str, str],
    evaluation: Evaluation | None = None,
    read_file: ReadFile | None = None,
) -> tuple[Problem, ...]:
    """Return what is to be said of a launch line and its variables, the gravest first.

    ``argv`` may begin with the interpreter and the module, or hold the engine's own words alone.
    ``read_file`` reads a file of the host, so that the options in a ``--config`` file are looked at too.
    """
    line = _Line(tree, definitions, argv, read_file)
    found = [*line.problems(), *check_environment(tree, definitions, environment)]
    if evaluation is not None:
        found += check_evaluation(line.given, evaluation, any(one.level == "error" for one in found))
    order = ("error", "warning", "note")
    return tuple(sorted(dict.fromkeys(found), key=lambda problem: order.index(problem.level)))


class _Line:
    """Read a launch line by the options of one version."""

    def __init__(
        self,
        tree: SourceTree,
        definitions: Mapping[str, Definition],
        argv: Sequence[str],
        read_file: ReadFile | None,
    ) -> None:
        self.tree = tree
        self.engine = tree.engine
        fields = getattr(definitions, "fields", None)
        self.known: Mapping[str, Definition] = fields() if callable(fields) else definitions
        self.spellings = spellings_of(self.known, tree.engine)
        self.entry, words = words_for(self.engine, argv)
        self.leading, self.given = read_options(words, self.spellings, tree.engine)
        self.from_file: list[Given] = []
        self.file_problem: Problem | None = None
        if is_argparse(tree.engine) and "--config" in words:
            self._read_config(words, read_file)

    def problems(self) -> Iterator[Problem]:
        """Yield what the definitions say of every word."""
        for given in [*self.from_file, *self.given]:
            yield from self._of_option(given)
        if self.file_problem is not None:
            yield self.file_problem
        yield from self._leading()
        yield from self._required()
        yield from _duplicates(self.given)

    def _of_option(self, given: Given) -> Iterator[Problem]:
        if given.fit == "unknown":
            yield self._unknown(given)
            return
        if given.fit == "ambiguous":
            could = sorted({spelling.text for spelling in given.spellings})
            shown = ", ".join(could[:5]) + (f" and {len(could) - 5} more" if len(could) > 5 else "")
            message = f"{given.word} is the beginning of {shown}; the engine refuses it as ambiguous"
            yield Problem("ambiguous_prefix", given.word, message, given.spellings[0].text)
            return
        spelling = given.spellings[0]
        if given.fit == "shortened":
            message = f"{given.word} is taken as {spelling.text}, which it is the beginning of"
            yield Problem("abbreviated", given.word, message, spelling.text, _cite(spelling))
        definition = spelling.definition
        if definition is not None and (spelling.deprecated or definition.deprecated):
            yield Problem("deprecated", given.word, _deprecation(given, spelling), None, definition.cite)
        if given.word == "--config" and given.attached is not None:
            message = (
                "--config=FILE is not read: this engine looks for the word --config alone, then the file"
            )
            yield Problem("silently_changed", given.word, message, "--config FILE", _cite(spelling))
        yield from check_values(given, self.engine)

    def _unknown(self, given: Given) -> Problem:
        named = f"{self.engine} {self.tree.version}".strip()
        sure = is_argparse(self.engine) and not any(one.shallow for one in self.known.values())
        found = counterpart(given.name, self.engine, self.spellings)
        if found is not None:
            mine = NAMES.get(self.engine, self.engine)
            message = f"{given.word} is an option of {NAMES[found.engine]} ({found.means}); "
            message += f"in {mine} it is {found.here}" if found.here else f"{mine} has no counterpart"
            message += f" ({found.note})" if found.note else ""
            return Problem("other_engine", given.word, message, found.here, sure=sure)
        successor = same_meaning(given.name, self.engine, self.spellings)
        if successor is not None:
            message = f"{named} has no option {given.word}; {successor} means the same in this version"
            return Problem("unknown_flag", given.word, message, successor, sure=sure)
        near = nearest(given.name, self.spellings)
        message = f"{named} has no option {given.word}" + (f"; the nearest is {near}" if near else "")
        if near and _opposite(given.name, near):
            spelling = self.spellings[near]
            negative = spelling.definition.negative_flags if spelling.definition is not None else ()
            message += ", which means the opposite"
            near = negative[0] if negative and not spelling.negative else None
        if near and near == given.word.replace("_", "-"):
            message += " (it does not take underscores for dashes)"
        return Problem("unknown_flag", given.word, message, near, sure=sure)

    def _leading(self) -> Iterator[Problem]:
        """Yield words before the first option, where the engine takes none there."""
        takes_model = self.entry == "serve" or not self.entry or not is_argparse(self.engine)
        if takes_model and len(self.leading) <= 1:
            return
        extra = self.leading[1:] if takes_model else self.leading
        for word in extra:
            yield Problem("unknown_flag", word, f"{word[:80]} is neither an option nor the value of one")

    def _required(self) -> Iterator[Problem]:
        """Yield options that a whole launch line must give."""
        if not self.entry or self.engine != "sglang" or self.leading or self.entry == "serve":
            return
        if any(given.word == "--config" and given.values for given in self.given) and not self.from_file:
            return
        given = {one.definition.name for one in [*self.from_file, *self.given] if one.definition is not None}
        for definition in self.known.values():
            if definition.default_text == "required" and definition.flags and definition.name not in given:
                message = f"{definition.flags[0]} has to be given"
                yield Problem(
                    "missing_value", definition.flags[0], message, definition.flags[0], definition.cite
                )

    def _read_config(self, words: Sequence[str], read_file: ReadFile | None) -> None:
        place = words.index("--config")
        path = words[place + 1] if place + 1 < len(words) else ""
        if not path or read_file is None:
            return
        try:
            more = config_words(path, read_file(path), self.spellings)
        except ValueError as error:
            self.file_problem = Problem("rejected", "--config", str(error))
            return
        except OSError:
            return  # it cannot be told what the file holds
        self.from_file = read_options(more, self.spellings, self.engine)[1]


def _opposite(one: str, other: str) -> bool:
    """Tell whether of two options one switches on and one off."""
    off = [any(part in ("no", "disable") for part in word.strip("-").split("-")[:1]) for word in (one, other)]
    return off[0] is not off[1]


def nearest(flag: str, spellings: Mapping[str, Spelling]) -> str | None:
    """Return the option that a misspelt one is likeliest meant for; None when none is near."""
    plain = {text.replace("_", "-").lower(): text for text in reversed(list(spellings))}
    found = difflib.get_close_matches(flag.replace("_", "-").lower(), plain, n=1, cutoff=0.72)
    if found:
        return plain[found[0]]
    words = set(flag.strip("-").replace("_", "-").split("-"))
    near = [text for text in plain if words == set(text.strip("-").split("-"))]
    return plain[near[0]] if near else None


def _cite(spelling: Spelling) -> Cite | None:
    return spelling.definition.cite if spelling.definition is not None else None


def _deprecation(given: Given, spelling: Spelling) -> str:
    definition = spelling.definition
    said = _SAYS_SO.sub("", " ".join(definition.deprecated.split()))[:140] if definition is not None else ""
    if said and said != "deprecated":
        return f"{given.word} is deprecated; the source says: {said}"
    if definition is not None and definition.flags and spelling.deprecated:
        return f"{given.word} is deprecated; {definition.flags[0]} sets the same"
    return f"{given.word} is deprecated"


def _duplicates(given: Sequence[Given]) -> Iterator[Problem]:
    """Yield settings that stand more than once: the last one counts, whatever name it has."""
    seen: dict[str, list[Given]] = {}
    for one in given:
        if one.definition is not None:
            seen.setdefault(".".join([one.definition.name, *one.keys]), []).append(one)
    for several in seen.values():
        names = list(dict.fromkeys(one.word for one in several))
        if len(several) < 2:
            continue
        last = several[-1]
        said = " ".join([last.word, *([last.attached] if last.attached is not None else last.values)])
        if len(names) == 1:
            message = f"{names[0]} stands {len(several)} times; only the last one counts: {said}"
        else:
            message = f"{' and '.join(names)} set the same; only the last one counts: {said}"
        yield Problem(
            "duplicate", last.word, message, None, last.definition.cite if last.definition else None
        )
