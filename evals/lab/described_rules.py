"""Decide which rules of a described service hold: names, conditions, templates. Standard library only.

A name is one of: ``--flag`` of the process's own command line, ``$VARIABLE`` of its environment, ``/path`` of
the host (with ``#REGEX``: what the first group finds in it), ``unit.Setting`` of its unit as it was started,
``host.fact``, ``request.field`` of a request's body, or a value: one of the scenario's own, or of `LIVE`.
A path may be a template: ``{folder}/index``, also with a leading ``~``.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.lab.inside.limits import numbers

LIVE = ("running", "waiting", "requests", "uptime_s", "cpu_quota", "pid", "prompt_tokens", "tokens_s",
        "prompt_tokens_s", "kv_usage", "step", "version", "site", "tenants",
        "allowed_cpus")  # fmt: skip
"""Values every service has; those in the middle are of the present moment."""
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: bool(a == b),
    "ne": lambda a, b: bool(a != b),
    "gt": lambda a, b: a is not None and a > b,
    "ge": lambda a, b: a is not None and a >= b,
    "lt": lambda a, b: a is not None and a < b,
    "le": lambda a, b: a is not None and a <= b,
    "in": lambda a, b: a in b,
    "contains": lambda a, b: a is not None and str(b) in str(a),
    "matches": lambda a, b: a is not None and re.search(str(b), str(a)) is not None,
}
_PREFIXES = ("-", "$", "/", "unit.", "host.", "request.")
_HOLE = re.compile(r"\{(--?[\w-]+|\$\w+|[a-z][\w.]*)(?::([^{}]*))?\}")
_FILE_BYTES = 1 << 20


def known(name: str, values: Mapping[str, Any]) -> bool:
    """Tell whether a name means something."""
    return name in values or name in LIVE or name.startswith(_PREFIXES)


def check(when: Any) -> None:
    """Raise `ValueError` for conditions that cannot be judged."""
    if not isinstance(when, Mapping):
        raise ValueError("must be an object: name -> what it must be")
    for name, wanted in when.items():
        if name in ("any", "all"):
            if not isinstance(wanted, Sequence) or isinstance(wanted, str):
                raise ValueError(f"`{name}` holds a list of conditions")
            for one in wanted:
                check(one)
        elif name == "not":
            check(wanted)
        elif isinstance(wanted, Mapping):
            unknown = sorted(set(wanted) - set(_COMPARE))
            if unknown or not wanted:
                raise ValueError(f"{name}: unknown comparison {unknown}; use {', '.join(_COMPARE)}")


def flags(argv: Sequence[str]) -> dict[str, Any]:
    """Return the flags of a command line: text or number, True for one without a value; the last wins."""
    found: dict[str, Any] = {}
    name = ""
    for word in argv[1:]:
        if re.match(r"--?[A-Za-z]", word):
            name, equals, value = word.partition("=")
            name = name.replace("_", "-") if name.startswith("--") else name
            found[name] = plain(value) if equals else True
            name = "" if equals else name
        elif name:
            found[name], name = plain(word), ""
    return found


def plain(text: str) -> Any:
    """Return a number where the text is one."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() and re.fullmatch(r"[+-]?\d+", text) else number


@dataclass(slots=True)
class Machine:
    """Hold what a process can be asked about: its own launch, its unit, its host."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    unit: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    flags: dict[str, Any] = field(init=False)
    _files: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flags = flags(self.argv)

    def of(self, name: str) -> Any:
        """Return what a name stands for; None when there is no such thing here."""
        if "{" in name.partition("#")[0]:
            name = str(Path(self.fill(name)).expanduser())
        if name in self.values:
            return next((v for v in map(self._source, self.values[name]) if v is not None), None)
        if name.startswith("--"):
            return self.flags.get(name.replace("_", "-"))
        if name.startswith("-"):
            return self.flags.get(name)
        if name.startswith("$"):
            value = self.environ.get(name[1:])
            return None if value is None else plain(value)
        if name.startswith("/"):
            return self._file(*name.partition("#")[::2])
        kind, dot, rest = name.partition(".")
        if dot and kind == "unit":
            return plain(self.unit[rest]) if rest in self.unit else None
        if dot and kind in ("host", "request"):
            return self._inside(self.host if kind == "host" else self.request, rest)
        if name == "allowed_cpus":
            return len(numbers(str(self.unit.get("AllowedCPUs", "")))) or self.host.get("cpus")
        return self._quota() if name == "cpu_quota" else self.live.get(name)

    def _source(self, source: Any) -> Any:
        if isinstance(source, str) and source.startswith("@"):
            return self.of(source[1:])
        return self.of(source) if isinstance(source, str) and source.startswith(_PREFIXES) else source

    @staticmethod
    def _inside(tree: Any, path: str) -> Any:
        for part in path.split("."):
            tree = tree.get(part) if isinstance(tree, Mapping) else None
        return tree

    def _quota(self) -> float | None:
        share = str(self.unit.get("CPUQuota", "")).rstrip("%")
        return float(share) / 100 if re.fullmatch(r"\d+(\.\d+)?", share) else None

    def _file(self, path: str, pattern: str) -> Any:
        """Return a file's text as of the process's start, or what a pattern's first group finds in it."""
        if path not in self._files:
            try:
                self._files[path] = Path(path).read_bytes()[:_FILE_BYTES].decode("utf-8", "replace")
            except OSError:
                self._files[path] = "" if Path(path).is_dir() else None
        text = self._files[path]
        if text is None or not pattern:
            return text
        found = re.search(pattern, text, re.MULTILINE)
        return plain(found[1] if found.groups() else found[0]) if found else None

    def holds(self, when: Mapping[str, Any]) -> bool:
        """Tell whether all conditions hold now."""
        return all(self._holds(name, wanted) for name, wanted in when.items())

    def _holds(self, name: str, wanted: Any) -> bool:
        if name in ("any", "all"):
            return (any if name == "any" else all)(self.holds(one) for one in wanted)
        if name == "not":
            return not self.holds(wanted)
        value = self.of(name)
        if isinstance(wanted, Mapping):
            return all(_compared(how, value, self.number(operand)) for how, operand in wanted.items())
        if isinstance(wanted, bool):
            return (value is not None and value is not False) == wanted
        return bool(value == self.number(wanted))

    def number(self, value: Any) -> Any:
        """Return a value, or for ``@name`` what the name stands for."""
        return self.of(value[1:]) if isinstance(value, str) and value.startswith("@") else value

    def fill(self, text: str) -> str:
        """Fill a template: ``{name}``, ``{name:FORMAT}``, ``{time:STRFTIME}``; what is unknown stays."""

        def hole(match: re.Match[str]) -> str:
            name, form = match[1], match[2]
            if name == "time":
                return time.strftime(form or "%Y-%m-%d %H:%M:%S")
            value = self.of(name)
            if value is None:
                return match[0]
            return format(value, form) if form else str(value)

        return _HOLE.sub(hole, text)

    def filled(self, tree: Any) -> Any:
        """Fill every text of a JSON value; a text that is just ``@name`` becomes what the name stands for."""
        if isinstance(tree, str):
            return self.number(tree) if tree.startswith("@") else self.fill(tree)
        if isinstance(tree, list):
            return [self.filled(one) for one in tree]
        if isinstance(tree, dict):
            return {key: self.filled(value) for key, value in tree.items()}
        return tree


def _compared(how: str, value: Any, operand: Any) -> bool:
    try:
        return _COMPARE[how](value, operand)
    except TypeError:  # a text beside a number: neither is greater
        return False


_LISTS = ("log",)
_TABLES = ("metrics", "answers", "writes")


def merged(rules: Sequence[Mapping[str, Any]], machine: Machine) -> dict[str, Any]:
    """Return what the rules that hold say together: a later one wins, lines and tables add up."""
    out: dict[str, Any] = {"log": [], "metrics": {}, "answers": {}, "writes": {}}
    for rule in _holding(rules, machine):
        for key, value in rule.items():
            if key == "when" or value is None:
                continue
            if key in _LISTS:
                out[key] = [*out[key], *value]
            elif key in _TABLES:
                out[key] = {**out[key], **value}
            elif key == "start":
                out[key] = out.get(key, "") + value + ("" if not value or value.endswith("\n") else "\n")
            else:
                out[key] = value
    return out


def _holding(rules: Sequence[Mapping[str, Any]], machine: Machine) -> Iterator[Mapping[str, Any]]:
    yield from (rule for rule in rules if machine.holds(rule.get("when") or {}))


def step_ms(spec: Any, running: int, machine: Machine) -> float:
    """Return the milliseconds of one decode step of so many requests."""
    spec = 20.0 if spec is None else spec
    if not isinstance(spec, Mapping):
        return float(machine.number(spec))
    if spec.get("base") is not None:
        each = float(machine.number(spec.get("per_request") or 0.0))
        return float(machine.number(spec["base"])) + each * (running - 1)
    points = sorted((int(count), float(ms)) for count, ms in spec["at"].items())
    return _between(points, running)


def _between(points: Sequence[tuple[int, float]], at: int) -> float:
    """Return the value of a line through points; beyond its ends, the value there."""
    if at <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in itertools.pairwise(points):
        if at <= right:
            return low + (high - low) * (at - left) / (right - left)
    return points[-1][1]


def dumps(tree: Any) -> bytes:
    """Return a JSON value as bytes, as servers print it."""
    return json.dumps(tree).encode()
