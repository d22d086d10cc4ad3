"""What pydantic makes of one value where a type is wanted: checked, and converted as its lax mode does."""

from __future__ import annotations

import ast
import collections.abc
import dataclasses
import pathlib
import types
import typing
from typing import Any, Final, Literal, NoReturn, Union

from tools.interpreter.operators import equal
from tools.interpreter.values import (
    External,
    Function,
    GuestClass,
    GuestRaise,
    Instance,
    Undecided,
    Unknown,
    needs_of,
)

_TRUE: Final = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE: Final = frozenset({"0", "off", "f", "false", "n", "no"})
_SEQUENCES: Final = (list, tuple, set, frozenset)


class ValidationError(ValueError):
    """Stand for pydantic's error."""


class FieldInfo:
    """Hold a field as ``pydantic.Field()`` describes it."""

    def __init__(self, default: Any = dataclasses.MISSING, **options: Any) -> None:
        self.default = default
        self.default_factory = options.pop("default_factory", None)
        self.init = options.pop("init", None)
        self.kw_only = options.pop("kw_only", None)
        self.alias = options.get("alias")
        self.options = options


class SkipValidation:
    """Mark a type whose values are taken as they are."""

    def __class_getitem__(cls, item: Any) -> Any:
        return typing.Annotated[item, cls()]


def refuse(message: str) -> NoReturn:
    """Raise pydantic's error in the source."""
    raise GuestRaise(ValidationError(message))


def convert(own: Any, cls: GuestClass | None, kind: Any, value: Any, info: FieldInfo | None) -> Any:
    """Return what a value becomes; ``own`` makes objects, ``cls`` is where the type was written."""
    found = _Conversion(own, cls).of(kind, value)
    return _bounded(found, info.options if info is not None else {})


def _bounded(value: Any, options: dict[str, Any]) -> Any:
    if value is None or isinstance(value, Unknown):
        return value
    tests = {
        "ge": lambda limit: value >= limit,
        "gt": lambda limit: value > limit,
        "le": lambda limit: value <= limit,
        "lt": lambda limit: value < limit,
        "multiple_of": lambda limit: value % limit == 0,
        "min_length": lambda limit: len(value) >= limit,
        "max_length": lambda limit: len(value) <= limit,
    }
    for name, limit in options.items():
        if name in tests and limit is not None and not isinstance(limit, Unknown):
            try:
                kept = tests[name](limit)
            except Undecided:
                continue
            except TypeError:
                kept = False
            if not kept:
                refuse(f"input should satisfy {name}={limit}")
    return value


class _Conversion:
    """Convert values for types that one class names."""

    def __init__(self, own: Any, cls: GuestClass | None) -> None:
        self.own = own
        self.cls = cls

    def of(self, kind: Any, value: Any, *, strict: bool = False) -> Any:
        """Return what a value becomes; raise the source's `ValidationError`."""
        kind = self._resolved(kind)
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            return self._annotated(kind, value, strict)
        if isinstance(value, Unknown):
            return self._unknown(kind, value)
        if kind is Any or kind is object or isinstance(kind, (External, Unknown)):
            return value
        if kind is None or kind is type(None):
            return None if value is None else refuse("input should be None")
        if origin is Literal:
            return self._literal(typing.get_args(kind), value)
        if origin in (Union, types.UnionType):
            return self._union(typing.get_args(kind), value)
        if isinstance(kind, GuestClass):
            return self._guest(kind, value, strict)
        if kind in _SCALARS:
            return _SCALARS[kind](value, strict)
        return self._container(kind, origin or kind, value, strict)

    def _resolved(self, kind: Any) -> Any:
        if isinstance(kind, typing.ForwardRef):
            kind = kind.__forward_arg__
        if isinstance(kind, str):
            if self.cls is None:
                return Any
            try:
                return self._resolved(
                    self.own.machine.annotation(self.cls, ast.parse(kind, mode="eval").body)
                )
            except (SyntaxError, GuestRaise):
                return Any
        return kind

    def _annotated(self, kind: Any, value: Any, strict: bool) -> Any:
        inner, *marks = typing.get_args(kind)
        if any(isinstance(m, SkipValidation) or m is SkipValidation for m in marks):
            return value
        found = self.of(inner, value, strict=strict)
        for mark in marks:
            if isinstance(mark, FieldInfo):
                found = _bounded(found, mark.options)
        return found

    def _unknown(self, kind: Any, value: Unknown) -> Any:
        """Keep the options of an unknown value where they stay what they are."""
        if not value.options or kind is Any:
            return value
        kept = []
        for option in value.options:
            try:
                found = self.of(kind, option)
            except GuestRaise:
                continue
            if found is not option and found != option:
                return Unknown(value.needs)
            kept.append(found)
        if len(kept) == 1:
            return kept[0]
        return Unknown(value.needs, tuple(kept))

    def _literal(self, options: tuple[Any, ...], value: Any) -> Any:
        for option in options:
            if type(option) is type(value) and option == value:
                return option
            if isinstance(option, Instance) and option is value:
                return option
        for option in options:
            if isinstance(value, Instance) and value.native == option and isinstance(option, str):
                return option
        return refuse(f"input should be one of {list(options)}")

    def _union(self, members: tuple[Any, ...], value: Any) -> Any:
        for attempt in (self._exact, self._strict, self._lax):
            for member in members:
                try:
                    found = attempt(member, value)
                except GuestRaise as raised:
                    if not isinstance(raised.value, (ValueError, AssertionError)):
                        raise
                    continue
                if found is not _NO:
                    return found
        return refuse(
            "input matches none of the types: "
            f"{str(value)[:60] if isinstance(value, str) else type(value).__name__}"
        )

    def _exact(self, member: Any, value: Any) -> Any:
        member = self._resolved(member)
        plain = typing.get_origin(member) or member
        if plain is typing.Annotated:
            return self._exact(typing.get_args(member)[0], value)
        if plain is Literal or member is None or member is type(None):
            return self.of(member, value)
        if isinstance(member, GuestClass):
            return self.of(member, value) if isinstance(value, Instance) and member in value.cls.mro else _NO
        if isinstance(member, (External, Unknown)):
            return value if isinstance(value, (External, Instance, Function)) else _NO
        return (
            self.of(member, value, strict=True) if isinstance(plain, type) and type(value) is plain else _NO
        )

    def _strict(self, member: Any, value: Any) -> Any:
        return (
            self.of(member, value, strict=True)
            if not isinstance(self._resolved(member), (External, Unknown))
            else _NO
        )

    def _lax(self, member: Any, value: Any) -> Any:
        return self.of(member, value)

    def _guest(self, kind: GuestClass, value: Any, strict: bool) -> Any:
        if kind.members is not None:
            return self._member(kind, value, strict)
        if kind.kind == "typed dict":
            return value if isinstance(value, dict) else refuse(f"{kind.name}: input should be a dictionary")
        if isinstance(value, Instance) and kind in value.cls.mro:
            return self.own.nested(kind, value)
        if isinstance(value, Instance) and any(isinstance(c, External) for c in value.cls.mro):
            return value
        base = kind.native_base()
        if base is not None and isinstance(value, base):
            return self.own.machine.instantiate(kind, (value,), {})
        if kind.record is not None and not strict:
            return self.own.nested(kind, value)
        if isinstance(value, External):
            return value
        return refuse(f"input should be an instance of {kind.name}")

    def _member(self, kind: GuestClass, value: Any, strict: bool) -> Any:
        if isinstance(value, Instance) and value.cls is kind:
            return value
        if strict:
            return refuse(f"input should be an instance of {kind.name}")
        for member in (kind.members or {}).values():
            if equal(member.attrs["_value_"], value) is True:
                return member
        if kind.native_base() is int and isinstance(value, (str, float)):
            return self._member(kind, _int(value, False), strict)
        missing = kind.find("_missing_")
        if not isinstance(missing, (type(None),)) and hasattr(missing, "get"):
            found = self.own.machine.call(missing.get, (kind, value), {})
            if isinstance(found, Instance):
                return found
        return refuse(f"input should be a value of {kind.name}")

    def _container(self, kind: Any, plain: Any, value: Any, strict: bool) -> Any:
        args = typing.get_args(kind)
        held = (
            value.native
            if isinstance(value, Instance) and isinstance(value.native, (dict, *_SEQUENCES))
            else value
        )
        if plain in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
            if not isinstance(held, dict):
                return refuse("input should be a dictionary")
            return (
                {self.of(args[0], k): self.of(args[1], v) for k, v in held.items()}
                if len(args) == 2
                else dict(held)
            )
        if plain in (list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable):
            made = plain if plain in (list, set, frozenset) else type(held)
            accepted = (made,) if strict and plain in (list, set, frozenset) else _SEQUENCES
            if not isinstance(held, accepted):
                return refuse(f"input should be a {getattr(plain, '__name__', 'list').lower()}")
            items = [self.of(args[0], v) for v in held] if args else list(held)
            return made(items) if not needs_of(items) or made is list else Unknown(needs_of(items))
        if plain is tuple:
            return self._tuple(args, held, strict)
        return self._other(plain, value)

    def _tuple(self, args: tuple[Any, ...], held: Any, strict: bool) -> Any:
        if not isinstance(held, tuple if strict else _SEQUENCES):
            return refuse("input should be a tuple")
        items = list(held)
        if not args:
            return tuple(items)
        if len(args) == 2 and args[1] is ...:
            return tuple(self.of(args[0], v) for v in items)
        if len(args) != len(items):
            return refuse(f"a tuple of {len(args)} items is wanted")
        return tuple(self.of(a, v) for a, v in zip(args, items, strict=True))

    def _other(self, plain: Any, value: Any) -> Any:
        if plain in (pathlib.Path, pathlib.PurePath, pathlib.PurePosixPath):
            if isinstance(value, str):
                return pathlib.PurePosixPath(value)
            return value if isinstance(value, pathlib.PurePath) else refuse("input is not a valid path")
        if plain is type or plain is collections.abc.Callable:
            plainly = (str, int, float, bool, list, dict, tuple, type(None))
            return refuse("input should be callable") if isinstance(value, plainly) else value
        if isinstance(plain, type) and isinstance(
            value, (str, int, float, bool, list, dict, tuple, type(None))
        ):
            return (
                value
                if isinstance(value, plain)
                else refuse(f"input should be an instance of {plain.__name__}")
            )
        return value


_NO: Final = object()


def _of_member(value: Any) -> Any:
    """Return what a member of an enumeration stands for, where pydantic takes it for that without a check."""
    held = (
        value.attrs.get("_value_") if isinstance(value, Instance) and value.cls.members is not None else None
    )
    return held


def _native(value: Any) -> Any:
    return value.native if isinstance(value, Instance) and value.native is not None else value


def _bool(value: Any, strict: bool) -> Any:
    if isinstance(value, bool):
        return value
    value = _native(value)
    if not strict:
        if isinstance(value, (int, float)) and value in (0, 1):
            return bool(value)
        if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
            return value.lower() in _TRUE
    return refuse("input should be a valid boolean")


def _int(value: Any, strict: bool) -> Any:
    member, value = _of_member(value), _native(value)
    if isinstance(value, int) and not (strict and isinstance(value, bool)):
        return int(value)
    if not strict:
        if member is not None:
            return member
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str):
            try:
                number = float(value.strip().replace("_", "")) if "." in value else int(value.strip())
            except ValueError:
                refuse("input should be a valid integer")
            if number == int(number):
                return int(number)
    return refuse("input should be a valid integer")


def _float(value: Any, strict: bool) -> Any:
    member, value = _of_member(value), _native(value)
    value = member if isinstance(member, (int, float)) and not strict else value
    if isinstance(value, (int, float)) and not (strict and isinstance(value, bool)):
        return float(value)
    if not strict and isinstance(value, str):
        try:
            return float(value.strip())
        except ValueError:
            pass
    return refuse("input should be a valid number")


def _str(value: Any, strict: bool) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Instance) and isinstance(value.native, str):
        return value if not strict else refuse("input should be a valid string")
    member = _of_member(value)
    return str(member) if member is not None and not strict else refuse("input should be a valid string")


def _bytes(value: Any, strict: bool) -> Any:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) and not strict else refuse("input should be valid bytes")


_SCALARS: Final[dict[Any, Any]] = {bool: _bool, int: _int, float: _float, str: _str, bytes: _bytes}
