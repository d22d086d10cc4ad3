"""Methods of plain values: what they change is remembered, what they may change is unknown."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, cast

from tools.interpreter.base import Base
from tools.interpreter.environment import Environment
from tools.interpreter.expressions import merge
from tools.interpreter.journal import joined
from tools.interpreter.library.command_line import ParserValue
from tools.interpreter.library.surroundings import PATH_METHODS, Logger, path_method
from tools.interpreter.lookups import any_of
from tools.interpreter.operators import natively, settled, spread
from tools.interpreter.values import (
    MISSING,
    External,
    Function,
    GuestRaise,
    Instance,
    Maybe,
    Undecided,
    Unknown,
    holed,
    unknown_of,
)

_MUTATORS: Final[dict[type, frozenset[str]]] = {
    list: frozenset({"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"}),
    dict: frozenset({"update", "setdefault", "pop", "popitem", "clear", "move_to_end"}),
    set: frozenset(
        {
            "add",
            "update",
            "discard",
            "remove",
            "pop",
            "clear",
            "difference_update",
            "intersection_update",
            "symmetric_difference_update",
        }
    ),
    deque: frozenset({"append", "appendleft", "extend", "extendleft", "pop", "popleft", "clear"}),
}
_STORING: Final = frozenset({"append", "insert", "setdefault", "get", "pop", "add", "appendleft"})
"""Methods that take an unknown value as such; others give an unknown for one."""
_GROWING: Final = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs", "to_bytes", "format_map"})


@dataclass(eq=False, slots=True)
class NativeMethod:
    """Hold a method of a plain value."""

    held: Any
    name: str
    machine: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it for native code that calls back."""
        return self.machine.from_native(self, args, kwargs)


class Methods(Base):
    """Call methods of plain values, and go through values."""

    def call_method(self, method: NativeMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of a plain value; what it changes is remembered, what it may change is unknown."""
        held, name = method.held, method.name
        if isinstance(held, Environment):
            return self._of_environment(held, name, args, kwargs)
        if isinstance(held, (Logger, ParserValue)):
            return held.call(name, args, kwargs)
        if isinstance(held, PurePath) and name in PATH_METHODS:
            return path_method(self, held, name, args)
        kind = next((k for k in _MUTATORS if isinstance(held, k)), None)
        mutates = kind is not None and name in _MUTATORS[kind]
        unknown = [a for a in (*args, *kwargs.values()) if isinstance(a, Unknown)]
        if isinstance(held, (list, dict, set)):
            needs = self.journal.tainted(held) if self.journal.any_tainted else None
            if needs is not None:
                return Unknown(needs)
            if not isinstance(held, set) and name != "append" and (hole := holed(held)) is not None:
                return self._of_holed(held, name, args, kwargs, hole)
        if (
            name == "update"
            and isinstance(held, dict)
            and any(isinstance(a, dict) and holed(a) is not None for a in args)
        ):
            self.journal.touch(held)
            for part in (*args, kwargs):
                merge(held, part)
            return None
        if name == "get" and isinstance(held, dict) and args and isinstance(args[0], Unknown):
            return any_of(held, args[0], self.journal.links, *(args[1:] or (None,)))
        if (
            unknown
            and not (name in _STORING and not isinstance(args[0] if args else None, Unknown))
            and name != "append"
        ):
            if mutates:
                self.journal.taint(held, unknown_of(*unknown).needs)
            return unknown_of(*unknown)
        if mutates and isinstance(held, (list, dict, set)):
            self.journal.touch(held)
        if isinstance(held, str) and (name in _GROWING or name == "format"):
            return self._grown(held, name, args, kwargs)
        if isinstance(held, (str, bytes)):  # `" ".join(d)` goes through the names of a dict
            args = tuple(spread(a, self.iterate) for a in args)
        found = settled(lambda: getattr(held, name)(*args, **kwargs), args, kwargs)
        if isinstance(found, Unknown) and mutates and name != "pop":
            self.journal.taint(held, found.needs)
        return found

    def _of_holed(
        self, held: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], hole: Maybe
    ) -> Any:
        """Call a method of a list or dict of which some items may be absent."""
        if name in ("copy", "extend"):
            self.journal.touch(held)
            return natively(getattr(held, name), *args)
        if not isinstance(held, dict) or name not in (
            "get",
            "pop",
            "setdefault",
            "update",
            "items",
            "keys",
            "values",
        ):
            self.journal.taint(held, hole.needs)
            return Unknown(hole.needs)
        if name in ("items", "keys", "values"):
            return [self._entry(name, key, value) for key, value in held.items()]
        self.journal.touch(held)
        if name == "update":
            for part in (*args, kwargs):
                if not isinstance(part, dict):
                    self.journal.taint(held, hole.needs)
                    return None
                merge(held, part)
            return None
        if isinstance(args[0], Unknown):
            return unknown_of(args[0], hole)
        return self._open_entry(held, name, args)

    def _open_entry(self, held: dict[Any, Any], name: str, args: tuple[Any, ...]) -> Any:
        found = held.get(args[0], MISSING)
        if type(found) is not Maybe:
            return natively(getattr(held, name), *args)
        value = joined(found.value, args[1] if len(args) > 1 else None, found.needs)
        if name == "pop":
            del held[args[0]]
        elif name == "setdefault":
            held[args[0]] = value
        return value

    def _entry(self, name: str, key: Any, value: Any) -> Any:
        inner = value.value if type(value) is Maybe else value
        entry = {"items": (key, inner), "keys": key, "values": inner}[name]
        return Maybe(entry, value.needs) if type(value) is Maybe else entry

    def _grown(self, held: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "format":
            if "__" in held or "._" in held or "[" in held:
                return unknown_of(need="str.format of attributes")
            if any(ch.isdigit() for ch in held) and ":" in held and len(held) > 5000:
                return unknown_of(need="str.format")
            return natively(lambda: held.format(*args, **kwargs))
        if any(isinstance(a, int) and abs(a) > 10_000 for a in args):
            return unknown_of(need="a text too long to build")
        return natively(lambda: getattr(held, name)(*args, **kwargs))

    def _of_environment(
        self, held: Environment, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if name in ("get", "pop", "setdefault", "update"):
            return getattr(held, name)(*args, **kwargs)
        if name in ("items", "keys", "values", "copy"):
            names = held.names_of()
            if isinstance(names, Unknown):
                return names
            return {
                "items": list(held.names.items()),
                "keys": names,
                "values": list(held.names.values()),
                "copy": dict(held.names),
            }[name]
        if name == "__contains__":
            return held.has(*args)
        return Unknown((f"os.environ.{name}",))

    def iterated(self, value: Any) -> Iterator[Any] | Unknown:
        """Return an iterator over a value, or an unknown."""
        if (
            isinstance(value, Unknown)
            and value.options
            and all(isinstance(o, (list, tuple)) for o in value.options)
        ):
            items = {id(item): item for option in value.options for item in option}
            return iter([Maybe(item, value.needs) for item in items.values()])
        if isinstance(value, (Unknown, External)):
            return unknown_of(value, need=value.path if isinstance(value, External) else "")
        if isinstance(value, (list, dict, set)):
            needs = self.journal.tainted(value) if self.journal.any_tainted else None
            if needs is None and isinstance(value, dict) and holed(value) is not None:
                return iter([self._entry("keys", key, item) for key, item in value.items()])
            return Unknown(needs) if needs is not None else iter(list(value))
        if isinstance(value, Instance):
            found = value.cls.find("__iter__")
            if isinstance(found, Function):
                return self.iterated(self.call(self.bind(found, value), (), {}))
            if isinstance(value.native, (list, dict, set, tuple, str)):
                return iter(list(value.native))
            return unknown_of(need=f"iterating a {value.cls.name}")
        if isinstance(value, Environment):
            names = value.names_of()
            return names if isinstance(names, Unknown) else iter(names)
        try:
            return cast(Iterator[Any], iter(value))
        except Undecided as undecided:
            return Unknown(undecided.needs)
        except TypeError as error:
            raise GuestRaise(error) from None
