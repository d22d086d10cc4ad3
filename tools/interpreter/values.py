"""The values that are not plain Python: unknowns, symbols of other packages, functions, classes, objects."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tools.interpreter.callables import BoundMethod, Descriptor, Function, Native
from tools.interpreter.signals import GuestRaise, Stopped, Undecided
from tools.interpreter.symbols import External, Marker

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

MISSING: Final = type("Missing", (), {"__slots__": (), "__repr__": lambda self: "missing"})()
"""Stands for a name that is not bound."""

_MOST_OPTIONS: Final = 6
_MOST_NEEDS: Final = 6
_MOST_CALLABLES: Final = 256
"""Functions of the source of which one may be called: each is followed."""


def _undecided(self: Unknown, *args: object, **kwargs: object) -> NoReturn:
    raise Undecided(self.needs)


class Unknown:
    """Stand for a value that is not known: ``needs`` says what would decide it.

    ``options`` holds the plain values it may have; empty when anything is possible. Every native use raises
    `Undecided`, so that no operation can mistake it for a value.
    """

    __slots__ = ("needs", "options")

    def __init__(self, needs: tuple[str, ...] = (), options: tuple[Any, ...] = ()) -> None:
        self.needs = tuple(dict.fromkeys(needs))[:_MOST_NEEDS]
        most = _MOST_CALLABLES if options and all(map(is_followed, options)) else _MOST_OPTIONS
        few = len(options) <= most and not any(option is MISSING for option in options)
        self.options = options if few else ()

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _undecided
    __hash__ = __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = _undecided
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _undecided
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = _undecided
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __abs__ = _undecided
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __round__ = _undecided
    __str__ = __repr__ = __format__ = __int__ = __float__ = __index__ = __call__ = __bytes__ = _undecided


def is_followed(value: Any) -> bool:
    """Tell whether a value is a function of the source, several of them, or none."""
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, Function) for item in value)
    return isinstance(value, Function) or value is None


class Maybe(Unknown):
    """Stand for an item that a list or dict may hold: either this value, or nothing in its place."""

    __slots__ = ("value",)

    def __init__(self, value: Any, needs: tuple[str, ...]) -> None:
        super().__init__(needs)
        self.value = value


def holed(container: Any) -> Maybe | None:
    """Return an item of a list, tuple or dict that may be absent, if it has one."""
    items = container.values() if isinstance(container, dict) else container
    return next((item for item in items if type(item) is Maybe), None)


def unknown_of(*values: Any, need: str = "") -> Unknown:
    """Return an unknown that needs what the unknown ones among values need (lists and dicts looked into)."""
    needs = [need] if need else []
    for value in values:
        needs += needs_of(value)
    return Unknown(tuple(needs))


def needs_of(value: Any, depth: int = 3) -> tuple[str, ...]:
    """Return what an unknown value, or one inside a container, needs."""
    if isinstance(value, Unknown):
        return value.needs
    if depth and isinstance(value, (list, tuple, set, frozenset)):
        return tuple(need for item in value for need in needs_of(item, depth - 1))[:_MOST_NEEDS]
    if depth and isinstance(value, dict):
        return tuple(need for item in value.values() for need in needs_of(item, depth - 1))[:_MOST_NEEDS]
    return ()


class GuestClass:
    """Hold a class of the source; callable, so that the real ``typing`` accepts it in annotations."""

    def __init__(
        self, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], machine: Machine, module: str
    ) -> None:
        self.name = name
        self.bases = bases
        self.namespace = namespace
        self.machine = machine
        self.module = module
        self.node: ast.ClassDef | None = None
        self.path = ""
        self.mro = (self, *linear(bases))
        self.record: Any = None
        """How instances are made, when it is a dataclass or one of its kind."""
        self.members: dict[str, Any] | None = None
        """The members of an enumeration."""
        self.kind = ""
        """``str`` for an enumeration whose text is its value, ``typed dict``, ``named tuple``."""

    def __repr__(self) -> str:
        return f"<class {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make an object for native code that calls back."""
        return self.machine.from_native(self, args, kwargs)

    def __or__(self, other: Any) -> Any:
        import typing

        return typing.Union[self, other]  # noqa: UP007 - an expression, not an annotation

    def __ror__(self, other: Any) -> Any:
        import typing

        return typing.Union[other, self]  # noqa: UP007

    def __iter__(self) -> Iterator[Any]:
        if self.members is None:
            raise TypeError(f"'type' object is not iterable: {self.name}")
        return iter(list(dict.fromkeys(self.members.values())))

    def __len__(self) -> int:
        if self.members is None:
            raise TypeError(f"object of type 'type' has no len(): {self.name}")
        return len(dict.fromkeys(self.members.values()))

    def __contains__(self, item: Any) -> bool:
        if self.members is None:
            raise TypeError(f"argument of type 'type' is not iterable: {self.name}")
        return any(item is m or item == m.attrs.get("_value_", MISSING) for m in self.members.values())

    def __bool__(self) -> bool:
        return True

    def find(self, name: str) -> Any:
        """Return what the class or its bases bind to a name, or `MISSING`; `Unknown` past a foreign base."""
        for cls in self.mro:
            if isinstance(cls, GuestClass):
                if name in cls.namespace:
                    return cls.machine.forced(cls.namespace, name)
            elif isinstance(cls, External) and not isinstance(cls, Marker):
                return Unknown((f"{cls.path}.{name}",))
        return MISSING

    def native_base(self) -> type | None:
        """Return the built-in class that it derives from (``str``, ``dict``, ``Exception``), if any."""
        return next((c for c in self.mro if isinstance(c, type) and c is not object), None)


def linear(bases: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the order in which bases are searched: depth first, the last mention of each kept."""
    found: list[Any] = []
    for base in bases:
        found += [base, *base.mro[1:]] if isinstance(base, GuestClass) else [base]
    kept: list[Any] = []
    for position, base in enumerate(found):
        if not any(base is later for later in found[position + 1 :]):
            kept.append(base)
    return tuple(kept)


class Instance:
    """Hold an object of a class of the source; ``native`` is its value when that derives from a built-in."""

    __slots__ = ("attrs", "cls", "native", "tracked")

    def __init__(self, cls: GuestClass, attrs: dict[str, Any] | None = None, native: Any = None) -> None:
        self.cls = cls
        self.attrs = {} if attrs is None else attrs
        self.native = native
        self.tracked = False

    def __repr__(self) -> str:
        return f"<{self.cls.name}>"

    def _special(self, name: str, *args: Any) -> Any:
        method = self.cls.find(name)
        if method is MISSING:
            return MISSING
        return self.cls.machine.call(self.cls.machine.bind(method, self), args, {})

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        found = self._special("__eq__", other)
        if found is not MISSING and found is not NotImplemented:
            return decided(found)
        if self.cls.record is not None and isinstance(other, Instance) and other.cls is self.cls:
            return bool(self.cls.record.eq) and {n: self.attrs.get(n) for n in self.cls.record.fields} == {
                n: other.attrs.get(n) for n in self.cls.record.fields
            }
        if self.native is not None:
            return bool(self.native == (other.native if isinstance(other, Instance) else other))
        return False

    def __hash__(self) -> int:
        found = self._special("__hash__")
        if found is not MISSING and found is not None:
            return int(found)
        if self.native is not None:
            return hash(self.native)
        record = self.cls.record
        if record is not None and record.eq and record.frozen:
            try:
                return hash(tuple(self.attrs.get(n) for n in record.fields))
            except Undecided as undecided:
                raise TypeError("unhashable: a part of it is unknown") from undecided
        return id(self) >> 4

    def __bool__(self) -> bool:
        for name in ("__bool__", "__len__"):
            found = self._special(name)
            if found is not MISSING:
                return decided(found) if name == "__bool__" else bool(found)
        return True if self.native is None or isinstance(self.native, BaseException) else bool(self.native)

    def _required(self, name: str, *args: Any) -> Any:
        found = self._special(name, *args)
        if found is MISSING:
            if self.native is not None and hasattr(type(self.native), name):
                return getattr(type(self.native), name)(self.native, *args)
            raise TypeError(f"'{self.cls.name}' object has no {name}")
        return found

    def __len__(self) -> int:
        return int(self._required("__len__"))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._required("__iter__"))

    def __next__(self) -> Any:
        return self._required("__next__")

    def __contains__(self, item: Any) -> bool:
        found = self._special("__contains__", item)
        if found is not MISSING:
            return decided(found)
        return item in (self.native if self.native is not None else list(self))

    def __getitem__(self, key: Any) -> Any:
        return self._required("__getitem__", key)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it for native code that calls back."""
        return self.cls.machine.from_native(self, args, kwargs)

    def __str__(self) -> str:
        for name in ("__str__", "__repr__"):
            found = self._special(name)
            if found is not MISSING:
                return text_of(found)
        if self.cls.members is not None and self.cls.kind != "str":
            return f"{self.cls.name}.{self.attrs.get('_name_', '')}"
        if self.native is not None:
            return str(self.native)
        raise Undecided((f"the text of a {self.cls.name}",))

    def __format__(self, spec: str) -> str:
        if self.cls.members is not None and self.native is not None and self.cls.kind != "str":
            raise Undecided(("how this Python formats an enumeration",))
        return format(self.native if self.native is not None and not self.cls.members else str(self), spec)

    def __lt__(self, other: Any) -> bool:
        return decided(self._required("__lt__", _plain(other)))

    def __gt__(self, other: Any) -> bool:
        return decided(self._required("__gt__", _plain(other)))

    def __le__(self, other: Any) -> bool:
        return decided(self._required("__le__", _plain(other)))

    def __ge__(self, other: Any) -> bool:
        return decided(self._required("__ge__", _plain(other)))

    def __int__(self) -> int:
        return int(self._required("__int__"))

    def __index__(self) -> int:
        return int(self._required("__index__"))


def _plain(value: Any) -> Any:
    return value.native if isinstance(value, Instance) and value.native is not None else value


def decided(value: Any) -> bool:
    """Return the truth of a value; raise `Undecided` for an unknown one."""
    return bool(value)


def text_of(value: Any) -> str:
    """Return a text; raise `Undecided` when it is not known."""
    if isinstance(value, Unknown):
        raise Undecided(value.needs)
    return str(value)


__all__ = [
    "MISSING",
    "BoundMethod",
    "Descriptor",
    "External",
    "Function",
    "GuestClass",
    "GuestRaise",
    "Instance",
    "Marker",
    "Maybe",
    "Native",
    "Stopped",
    "Undecided",
    "Unknown",
    "decided",
    "holed",
    "is_followed",
    "linear",
    "needs_of",
    "text_of",
    "unknown_of",
]
