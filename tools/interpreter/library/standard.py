"""The pure part of the standard library: called natively, or modelled where it meets the source's values."""

from __future__ import annotations

import ast
import collections
import collections.abc
import datetime
import enum
import fnmatch
import functools
import io
import ipaddress
import itertools
import json
import math
import numbers
import operator
import pathlib
import re
import ssl
import string
import textwrap
import types
import typing
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import typing_extensions

from tools.interpreter.callables import natives
from tools.interpreter.classes import Auto
from tools.interpreter.operators import natively
from tools.interpreter.values import (
    MISSING,
    Descriptor,
    External,
    Function,
    GuestClass,
    Instance,
    Native,
    Unknown,
    needs_of,
    unknown_of,
)

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_PURE: Final[dict[str, Any]] = {
    m.__name__: m
    for m in (
        math,
        re,
        itertools,
        collections,
        collections.abc,
        typing,
        typing_extensions,
        string,
        textwrap,
        fnmatch,
        numbers,
        datetime,
        urllib.parse,
        ipaddress,
        functools,
    )
}
_REFUSED: Final = frozenset(
    {"functools.singledispatch", "functools.singledispatchmethod", "datetime.datetime.now"}
)
_OPERATORS: Final = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and_",
    "or_",
    "not_",
    "neg",
    "itemgetter",
    "contains",
    "truth",
)
_TYPES: Final = (
    "SimpleNamespace",
    "MappingProxyType",
    "NoneType",
    "UnionType",
    "FunctionType",
    "ModuleType",
    "GenericAlias",
    "MethodType",
)


def install(machine: Machine) -> None:
    """Add the standard library."""
    add = machine.library
    add["resolve"] = lambda path: _resolved(path, add)
    _add_values(add)
    _add_functions(machine)


def _add_values(add: dict[str, Any]) -> None:
    """Add what is used as it is: operators, types, constants, errors."""
    for name in _OPERATORS:
        add[f"operator.{name}"] = getattr(operator, name)
    for name in _TYPES:
        add[f"types.{name}"] = getattr(types, name)
    for path in ("Path", "PurePath", "PosixPath", "PurePosixPath"):
        add[f"pathlib.{path}"] = pathlib.PurePosixPath
    add["os.PathLike"] = pathlib.PurePosixPath
    for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"):
        add[f"enum.{name}"] = getattr(enum, name)
    add["typing.TYPE_CHECKING"] = False
    add["json.JSONDecodeError"] = json.JSONDecodeError
    add["json.decoder.JSONDecodeError"] = json.JSONDecodeError
    add["orjson.JSONDecodeError"] = json.JSONDecodeError
    add["abc.ABC"] = object
    add["types.CodeType"] = External("types.CodeType")
    for name in ("CERT_NONE", "CERT_OPTIONAL", "CERT_REQUIRED"):
        add[f"ssl.{name}"] = getattr(ssl, name)
    add["sys.maxsize"] = 2**63 - 1
    add["__future__.annotations"] = None


def _add_functions(machine: Machine) -> None:
    """Add what is called with the source's values, or decorates its functions."""
    add = machine.library
    own = Standard(machine)
    runs: dict[str, Callable[..., Any]] = {
        "functools.lru_cache": own.cached,
        "functools.cache": own.cached,
        "functools.wraps": lambda *a, **k: Native("wraps", lambda f: f, machine),
        "functools.cached_property": lambda f: Descriptor("cached", f),
        "functools.partial": own.partial,
        "functools.update_wrapper": lambda wrapper, wrapped, *a, **k: wrapper,
        "copy.copy": own.copied,
        "copy.deepcopy": own.deeply,
        "json.loads": own.loads,
        "json.load": own.load,
        "json.dumps": own.dumps,
        "yaml.safe_load": own.load_yaml,
        "orjson.loads": own.loads_strictly,
        "enum.auto": Auto,
        "enum.unique": lambda cls: cls,
        "abc.abstractmethod": lambda f: f,
        "contextlib.contextmanager": own.manager,
        "typing.cast": lambda kind, value: value,
        "typing.overload": lambda f: Unknown(("an overload",)),
        "typing.final": lambda f: f,
        "typing.runtime_checkable": lambda f: f,
        "typing.get_type_hints": own.hints,
        "typing.TypeVar": lambda *a, **k: External("typing.TypeVar()"),
        "typing.ParamSpec": lambda *a, **k: External("typing.ParamSpec()"),
        "typing.NewType": lambda name, kind: Native(name, lambda value: value, machine),
        "typing.is_typeddict": lambda cls: getattr(cls, "kind", "") == "typed dict",
        "collections.namedtuple": own.named_tuple,
    }
    made = natives(machine, runs)
    add.update(made)
    for path, native in made.items():
        if path.startswith("typing."):
            add[path.replace("typing.", "typing_extensions.", 1)] = native
    for name in ("dataclass_transform", "deprecated"):
        add[f"typing_extensions.{name}"] = Native(
            name, lambda *a, **k: Native("plain", lambda f: f, machine), machine
        )
        add[f"typing.{name}"] = add[f"typing_extensions.{name}"]
    add["importlib.import_module"] = Native("import_module", own.imported, machine)


def _resolved(path: str, known: dict[str, Any]) -> Any:
    """Return a name of a pure module itself; anything else stays a symbol."""
    module, _, name = path.rpartition(".")
    if module in _PURE and not name.startswith("_") and path not in _REFUSED:
        found = getattr(_PURE[module], name, MISSING)
        if found is not MISSING and not isinstance(found, types.ModuleType):
            return found
    held = known.get(module, MISSING)
    if isinstance(held, type) and not name.startswith("_"):
        return getattr(held, name, External(path))
    return External(path)


def _no_constant(name: str) -> Any:
    raise json.JSONDecodeError(f"unexpected {name}", name, 0)


def _bounded(digits: str) -> int | float:
    value = int(digits)
    return value if -(2**63) <= value < 2**64 else float(digits)


class Standard:
    """Hold the functions that must know the values of the source."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def cached(self, *args: Any, **options: Any) -> Any:
        """Remember the results of a function for the same plain arguments."""
        if args and isinstance(args[0], (Function, Native, Descriptor)):
            return self._remembering(args[0])
        return Native("cache", self._remembering, self.machine)

    def _remembering(self, function: Any) -> Any:
        if isinstance(function, Descriptor):
            return function
        results: dict[Any, Any] = {}

        module = function.module if isinstance(function, Function) else self.machine.frame.module

        def run(*args: Any, **kwargs: Any) -> Any:
            key = self._key(args, kwargs)
            if key is None:
                return self.machine.call(function, args, kwargs)
            if key not in results:
                with self.machine.apart(module):
                    results[key] = self.machine.call(function, args, kwargs)
            return results[key]

        made = Native(getattr(function, "name", "cached"), run, self.machine)
        return made

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        parts = (*args, *(v for _, v in sorted(kwargs.items())))
        plain = (str, int, float, bool, type(None), GuestClass, type)
        if not all(isinstance(p, plain) for p in parts):
            return None
        return (
            tuple((type(p), p) for p in args),
            tuple(sorted((k, type(v), v) for k, v in kwargs.items() if isinstance(v, plain[:5]))),
        )

    def partial(self, function: Any, *args: Any, **kwargs: Any) -> Native:
        """Bind some arguments of a function."""

        def run(*more: Any, **named: Any) -> Any:
            return self.machine.call(function, (*args, *more), {**kwargs, **named})

        return Native("partial", run, self.machine)

    def copied(self, value: Any) -> Any:
        """Copy one level."""
        if isinstance(value, Instance):
            made = Instance(value.cls, dict(value.attrs), value.native)
            made.tracked = value.tracked
            return made
        return value.copy() if isinstance(value, (list, dict, set)) else value

    def deeply(self, value: Any, *memo: Any) -> Any:
        """Copy every level."""
        return self._deep(value, {}, 0)

    def _deep(self, value: Any, seen: dict[int, Any], depth: int) -> Any:
        if id(value) in seen:
            return seen[id(value)]
        if depth > 40:
            return unknown_of(need="a copy that is too deep")
        if (
            isinstance(value, (list, dict, set))
            and (needs := self.machine.journal.tainted(value)) is not None
        ):
            return Unknown(needs)
        if isinstance(value, list):
            found: list[Any] = []
            seen[id(value)] = found
            found.extend(self._deep(v, seen, depth + 1) for v in value)
            return found
        if isinstance(value, dict) and type(value) in (
            dict,
            collections.OrderedDict,
            collections.defaultdict,
        ):
            copy = value.copy()
            copy.clear()
            seen[id(value)] = copy
            copy.update((k, self._deep(v, seen, depth + 1)) for k, v in value.items())
            return copy
        if type(value) is tuple:
            return tuple(self._deep(v, seen, depth + 1) for v in value)
        if isinstance(value, Instance) and value.cls.members is None:
            made = Instance(value.cls, {}, value.native)
            made.tracked = value.tracked
            seen[id(value)] = made
            made.attrs.update((k, self._deep(v, seen, depth + 1)) for k, v in value.attrs.items())
            return made
        return value.copy() if type(value) is set else value

    def loads(self, text: Any, **options: Any) -> Any:
        """Read JSON."""
        if isinstance(text, Unknown) or options:
            return unknown_of(text, need="json.loads()")
        return natively(json.loads, text)

    def loads_strictly(self, text: Any = None, *rest: Any, **options: Any) -> Any:
        """Read JSON as ``orjson`` does: no NaN, and integers beyond 64 bits as floats."""
        if isinstance(text, Unknown) or rest or options:
            return unknown_of(text, need="orjson.loads()")
        return natively(lambda: json.loads(text, parse_constant=_no_constant, parse_int=_bounded))

    def load(self, file: Any, **options: Any) -> Any:
        """Read JSON from a file of the host."""
        if not isinstance(file, (io.StringIO, io.BytesIO)):
            return unknown_of(file, need="a file")
        return natively(json.load, file)

    def load_yaml(self, source: Any, **options: Any) -> Any:
        """Read YAML, from a text or from a file of the host."""
        if isinstance(source, (io.StringIO, io.BytesIO)):
            source = source.read()
        if not isinstance(source, (str, bytes)) or options:
            return unknown_of(source, need="yaml.safe_load()")
        import yaml

        return natively(yaml.safe_load, source)

    def dumps(self, value: Any, **options: Any) -> Any:
        """Write JSON."""
        needs = needs_of(value, 8)
        if needs or any(isinstance(o, (Function, GuestClass)) for o in options.values()):
            return Unknown(needs or ("json.dumps()",))
        return natively(lambda: json.dumps(value, **options))

    def manager(self, function: Any) -> Any:
        """Make a context manager of a generator function."""
        if not isinstance(function, Function):
            return unknown_of(need="contextmanager")
        return Native(function.name, lambda *a, **k: self.machine.managed(function, a, k), self.machine)

    def hints(self, held: Any, *rest: Any, include_extras: bool = False, **options: Any) -> Any:
        """Return the annotations of a class, evaluated."""
        if not isinstance(held, GuestClass):
            return unknown_of(need="typing.get_type_hints()")
        found: dict[str, Any] = {}
        for cls in reversed(held.mro):
            if isinstance(cls, GuestClass):
                for name, node in cls.namespace.get("__annotations__", {}).items():
                    hint = self.machine.annotation(cls, node) if isinstance(node, ast.expr) else node
                    if not include_extras and hasattr(hint, "__metadata__"):
                        hint = hint.__origin__
                    found[name] = hint
        return found

    def named_tuple(self, name: Any, fields: Any, **options: Any) -> Any:
        """Make a named tuple class."""
        return natively(lambda: collections.namedtuple(name, fields, **options))

    def imported(self, name: Any, package: Any = None) -> Any:
        """Import a module by name."""
        if not isinstance(name, str) or name.startswith("."):
            return unknown_of(name, need="importlib.import_module()")
        self.machine._require(name, None)
        return self.machine.module_or_symbol(name)
