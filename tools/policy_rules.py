"""Judge the arguments of one command by the table in ``policy.yaml``; what is not listed is not accepted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tools.policy_paths import name_denied, read_denied, tree_denied

Taker = Callable[[], str | None]


class Unlisted(Exception):
    """Report an argument that no rule accepts; ``dangerous`` when it would write, run or reveal something."""

    def __init__(self, why: str, *, dangerous: bool = False) -> None:
        super().__init__(why)
        self.dangerous = dangerous


class Rule(BaseModel):
    """Say which arguments of a command are known to only read.

    ``getopt`` commands take ``-abc``, ``-n VALUE``, ``--name[=VALUE]`` and positional arguments in any order;
    long options count only when written out. Of ``words`` commands every argument matches one of ``words``,
    or is a key of ``pairs`` and followed by its value. Of ``line`` commands one of ``words`` matches all
    arguments, joined by spaces. ``verbs`` commands choose a rule by their first argument.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: list[str] = Field(default_factory=list)
    style: Literal["getopt", "words", "line", "verbs"] = "getopt"
    flags: str = Field(default="", description="Short options without a value.")
    long: str = Field(default="", description="Long options without a value, separated by spaces.")
    recursive: list[str] = Field(default_factory=list, description="Options that make `read` a `tree`.")
    values: dict[str, str] = Field(default_factory=dict, description="Short option to the kind of its value.")
    long_values: dict[str, str] = Field(default_factory=dict)
    numeric: bool = Field(default=False, description="Is -5 accepted?")
    args: str | None = Field(default=None, description="Kind of the positional arguments; none by default.")
    first: str | None = Field(default=None, description="Kind of the first of them, where it differs.")
    first_given_by: list[str] = Field(default_factory=list, description="Options that stand for the first.")
    stdin_or_args: bool = Field(default=False, description="Without arguments it must read from a pipe.")
    counted: bool = Field(default=False, description="No arguments, or interval and count.")
    needs: list[str] = Field(default_factory=list, description="One of these options must be given.")
    together: dict[str, str] = Field(default_factory=dict, description="Option that needs another.")
    words: list[str] = Field(default_factory=list)
    pairs: dict[str, str] = Field(default_factory=dict)
    leading: str | None = Field(default=None, description="What the first argument matches.")
    trailing: str | None = Field(default=None, description="What the last argument matches.")
    requires: list[str] = Field(default_factory=list, description="Each must match some argument.")
    conflicts: dict[str, str] = Field(default_factory=dict, description="What may not stand beside what.")
    min: int = 0
    max: int | None = None
    verbs: dict[str, Rule] = Field(default_factory=dict)
    builtin: bool = Field(default=False, description="Is it known to shells only?")
    elsewhere: bool = Field(default=False, description="May it stand below /opt or /usr/local?")
    danger: list[str] = Field(default_factory=list, description="What is refused rather than asked about.")
    hint: str = ""
    accepts: list[str] = Field(default_factory=list)
    rejects: list[str] = Field(default_factory=list)


_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "int": re.compile(r"[+-]?[0-9]+"),
    "count": re.compile(r"[+-]?[0-9]+[A-Za-z]{0,3}"),
    "word": re.compile(r"[A-Za-z0-9_@%+=:,./][A-Za-z0-9_@%+=:,./*-]*"),
    "label": re.compile(r"[A-Za-z0-9_,:.%+@][A-Za-z0-9_,:.%+@-]*"),
    "text": re.compile(r".*"),
}


KINDS: Final = frozenset({*_PATTERNS, "read", "tree", "name"})
"""Kinds of values by name; any other is ``/a pattern/``."""


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern ready for use; the rules hold more than `re` remembers."""
    return re.compile(pattern)


@lru_cache(maxsize=1024)
def _pattern(kind: str) -> re.Pattern[str]:
    if len(kind) > 1 and kind[0] == kind[-1] == "/":
        return compiled(kind[1:-1])
    return _PATTERNS[kind]


def _matches(patterns: Sequence[str], text: str) -> bool:
    return any(compiled(pattern).fullmatch(text) for pattern in patterns)


def _count_fits(rule: Rule, values: Sequence[str]) -> bool:
    return rule.min <= len(values) and (rule.max is None or len(values) <= rule.max)


def _check_shape(rule: Rule, args: Sequence[str]) -> None:
    """Check what concerns the arguments of a ``words`` command together."""
    if not _count_fits(rule, args):
        raise Unlisted("the number of arguments is not the expected one")
    if rule.leading and not (args and compiled(rule.leading).fullmatch(args[0])):
        raise Unlisted(f"{args[0] if args else 'nothing'} is not known to only read")
    if rule.trailing and not (args and compiled(rule.trailing).fullmatch(args[-1])):
        raise Unlisted(f"{args[-1] if args else 'nothing'} is not expected last")
    if any(not any(compiled(pattern).fullmatch(arg) for arg in args) for pattern in rule.requires):
        raise Unlisted("without a bound it does not end")
    for one, other in rule.conflicts.items():
        if any(compiled(one).fullmatch(arg) for arg in args) and any(
            compiled(other).fullmatch(arg) for arg in args
        ):
            raise Unlisted("these options do not go together")


@dataclass(slots=True)
class Judgement:
    """Collect, while arguments are judged, which files the command would open."""

    piped: bool
    reads: list[str] = field(default_factory=list)
    trees: list[str] = field(default_factory=list)

    def value(self, kind: str, value: str, *, recursive: bool = False) -> None:
        """Accept one value of a kind; raise `Unlisted`."""
        if kind in ("read", "tree"):
            self._path(value, tree=kind == "tree" or recursive)
        elif kind == "name":
            if why := name_denied(value):
                raise Unlisted(why)
        elif not _pattern(kind).fullmatch(value):
            raise Unlisted(f"{value!r} is not known to only read")

    def _path(self, path: str, *, tree: bool) -> None:
        if path == "-" and not tree:
            return
        if path.startswith("@"):
            raise Unlisted(f"{path} is a file of options to some programs; write ./{path}")
        if why := read_denied(path):
            raise Unlisted(why, dangerous=True)
        if tree and (why := tree_denied(path)):
            raise Unlisted(why)
        self.reads.append(path)
        if tree:
            self.trees.append(path)

    def judge(self, rule: Rule, args: Sequence[str]) -> None:
        """Accept the arguments of a command; raise `Unlisted`."""
        try:
            self._judge(rule, args)
        except Unlisted as problem:
            dangerous = any(compiled(pattern).fullmatch(arg) for pattern in rule.danger for arg in args)
            why = f"{problem}; {rule.hint}" if rule.hint else str(problem)
            raise Unlisted(why, dangerous=problem.dangerous or dangerous) from None

    def _judge(self, rule: Rule, args: Sequence[str]) -> None:
        if rule.style == "verbs":
            verb = args[0] if args and args[0] in rule.verbs else ""
            if verb not in rule.verbs:
                raise Unlisted(f"{args[0] if args else 'no verb'} is not known to only read")
            self._judge(rule.verbs[verb], args[1:] if verb else args)
            return
        if rule.style == "words":
            self._words(rule, args)
            return
        if rule.style == "line":
            if any(" " in arg or not arg for arg in args) or not _matches(rule.words, " ".join(args)):
                raise Unlisted(f"{' '.join(args)} is not known to only read")
            return
        given, positional = self._options(rule, args)
        self._positional(rule, given, positional)

    def _words(self, rule: Rule, args: Sequence[str]) -> None:
        _check_shape(rule, args)
        rest = iter(args)
        for arg in rest:
            if arg in rule.pairs:
                value = next(rest, None)
                if value is None:
                    raise Unlisted(f"{arg} needs a value")
                self.value(rule.pairs[arg], value)
            elif _matches(rule.words, arg):
                continue
            elif rule.args is not None and not arg.startswith("-"):
                self.value(rule.args, arg)
            else:
                raise Unlisted(f"{arg} is not known to only read")

    def _options(self, rule: Rule, args: Sequence[str]) -> tuple[set[str], list[str]]:
        """Take options as getopt does, where they may stand anywhere; return their names and the rest."""
        given: set[str] = set()
        positional: list[str] = []
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                positional += rest
            elif arg.startswith("--"):
                self._long(rule, arg, rest_value=lambda: next(rest, None), given=given)
            elif arg.startswith("-") and arg != "-":
                if not (rule.numeric and arg[1:].isdigit()):
                    self._cluster(rule, arg, rest_value=lambda: next(rest, None), given=given)
            else:
                positional.append(arg)
        return given, positional

    def _long(self, rule: Rule, arg: str, *, rest_value: Taker, given: set[str]) -> None:
        name, equals, attached = arg[2:].partition("=")
        given.add(name)
        if not equals and (name in rule.long.split() or name in rule.recursive):
            return
        if name not in rule.long_values:
            raise Unlisted(f"--{name} is not known to only read")
        self._option_value(f"--{name}", rule.long_values[name], attached if equals else rest_value())

    def _cluster(self, rule: Rule, arg: str, *, rest_value: Taker, given: set[str]) -> None:
        for position, letter in enumerate(arg[1:], start=1):
            given.add(letter)
            if letter in rule.values:
                attached = arg[position + 1 :]
                self._option_value(f"-{letter}", rule.values[letter], attached or rest_value())
                return
            if letter not in rule.flags and letter not in rule.recursive:
                raise Unlisted(f"-{letter} is not known to only read")

    def _option_value(self, option: str, kind: str, value: str | None) -> None:
        if value is None:
            raise Unlisted(f"{option} needs a value")
        self.value(kind, value)

    def _positional(self, rule: Rule, given: set[str], positional: list[str]) -> None:
        if rule.needs and not given & set(rule.needs):
            raise Unlisted(f"it needs -{rule.needs[0]}")
        for one, other in rule.together.items():
            if one in given and other not in given:
                raise Unlisted(f"with -{one} it needs --{other}")
        if not _count_fits(rule, positional):
            raise Unlisted("the number of arguments is not the expected one")
        if rule.counted and len(positional) not in (0, 2):
            raise Unlisted("give interval and count, or neither: without a count it does not end")
        if rule.first and positional and not given & set(rule.first_given_by):
            self.value(rule.first, positional.pop(0))
        recursive = bool(given & set(rule.recursive))
        if not positional and (recursive or (rule.stdin_or_args and ("files" in given or not self.piped))):
            raise Unlisted("name the directory to search, with its full path")
        for value in positional:
            if rule.args is None:
                raise Unlisted(f"{value} is not expected")
            self.value(rule.args, value, recursive=recursive)
