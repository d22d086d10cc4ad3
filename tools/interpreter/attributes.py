"""Attributes: of objects and classes of the source, of modules, of plain values."""

from __future__ import annotations

import argparse
import ast
import types
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

from tools.interpreter.classes import Parent
from tools.interpreter.environment import Environment
from tools.interpreter.journal import joined
from tools.interpreter.library.command_line import ParserValue
from tools.interpreter.library.surroundings import PATH_METHODS, Logger
from tools.interpreter.methods import Methods, NativeMethod
from tools.interpreter.module import ModuleValue
from tools.interpreter.records import Field
from tools.interpreter.values import (
    MISSING,
    BoundMethod,
    Descriptor,
    External,
    Function,
    GuestClass,
    GuestRaise,
    Instance,
    Marker,
    Native,
    Unknown,
    unknown_of,
)

_HIDDEN_ALLOWED: Final = frozenset(
    {
        "__name__",
        "__doc__",
        "__args__",
        "__origin__",
        "__metadata__",
        "__module__",
        "__members__",
        "__qualname__",
        "__class__",
        "__cause__",
        "_name",
    }
)


class Attributes(Methods):
    """Read, bind and search attributes."""

    def attribute(self, held: Any, name: str) -> Any:
        """Return ``held.name``; raise the source's `AttributeError` when there is none."""
        found = self.find_attribute(held, name)
        if found is MISSING:
            kind = held.cls.name if isinstance(held, Instance) else type(held).__name__
            raise GuestRaise(AttributeError(f"'{kind}' object has no attribute '{name}'"))
        return found

    def find_attribute(self, held: Any, name: str) -> Any:
        """Return an attribute, or `MISSING`."""
        if isinstance(held, Instance):
            return self._of_instance(held, name)
        if isinstance(held, Unknown):
            return self._of_unknown(held, name)
        if isinstance(held, ModuleValue):
            return self.module_attribute(held, name)
        if isinstance(held, External):
            names = self.library.get(f"{held.path}?names") if isinstance(held, Marker) else None
            if names is not None and name not in names and not name.startswith("_"):
                return MISSING
            return self.external(f"{held.path}.{name}")
        if isinstance(held, GuestClass):
            return self._of_class(held, name)
        if isinstance(held, (Function, BoundMethod, Native)):
            return self._of_function(held, name)
        if isinstance(held, Parent):
            return self.parent_attribute(held, name)
        return self._of_plain(held, name)

    def parent_attribute(self, parent: Parent, name: str) -> Any:
        """Return what ``super()`` finds under a name."""
        raise NotImplementedError

    def module_attribute(self, module: ModuleValue, name: str) -> Any:
        """Return a name of a module, or `MISSING`."""
        raise NotImplementedError

    def _of_unknown(self, held: Unknown, name: str) -> Any:
        if not held.options or not all(isinstance(option, Instance) for option in held.options):
            return Unknown(held.needs)
        found = [self.find_attribute(option, name) for option in held.options]
        if any(f is MISSING for f in found):
            return Unknown(held.needs)
        if all(isinstance(f, BoundMethod) for f in found):
            return Native(name, lambda *a, **k: self.called_each(found, held.needs, a, k), self)  # type: ignore[arg-type]
        value = found[0]
        for other in found[1:]:
            value = joined(value, other, held.needs)
        return value

    called_each: Callable[..., Any]

    def _of_instance(self, held: Instance, name: str) -> Any:
        in_class = held.cls.find(name)
        if isinstance(in_class, Descriptor) and in_class.kind == "property":
            return self.call(in_class.get, (held,), {})
        found = held.attrs.get(name, MISSING)
        if found is not MISSING:
            return found
        if in_class is not MISSING:
            if isinstance(in_class, Unknown) and held.cls.native_base() is None:
                return self._special(held, name) if name in _SPECIAL else in_class
            return self.bind(in_class, held, name)
        return self._missing(held, name)

    def _missing(self, held: Instance, name: str) -> Any:
        special = self._special(held, name)
        if special is not MISSING:
            return special
        fallback = held.cls.find("__getattr__")
        if fallback is not MISSING and not name.startswith("__"):
            try:
                return self.call(self.bind(fallback, held), (name,), {})
            except GuestRaise as raised:
                if isinstance(raised.value, AttributeError):
                    return MISSING
                raise
        if held.native is not None:
            return self._of_plain(held.native, name)
        return MISSING

    def _special(self, held: Instance, name: str) -> Any:
        if name == "__class__":
            return held.cls
        if name == "__dict__":
            return held.attrs
        if held.cls.members is not None and name in ("value", "name"):
            return held.attrs.get("_value_" if name == "value" else "_name_", MISSING)
        if name in ("__setattr__", "__getattribute__", "__init__", "__eq__"):
            return self.external(f"builtins.object.{name}.bound") if name != "__init__" else MISSING
        return MISSING

    def bound(self, found: Any, held: Instance, name: str = "") -> Any:
        """Bind what a class holds to an object: methods, properties, descriptors of the source."""
        if isinstance(found, (Function, Native)):
            return BoundMethod(found, held, self)  # type: ignore[arg-type]
        if isinstance(found, Descriptor):
            return self._described(found, held, name)
        if isinstance(found, Instance):
            getter = found.cls.find("__get__")
            if isinstance(getter, Function):
                return self.call(self.bind(getter, found), (held, held.cls), {})
        return found

    def _described(self, found: Descriptor, held: Instance, name: str) -> Any:
        if found.kind == "static":
            return found.get
        if found.kind == "class":
            return BoundMethod(found.get, held.cls, self)  # type: ignore[arg-type]
        value = self.call(found.get, (held,), {})
        if found.kind == "cached" and name:
            self.journal.set(held.attrs, name, value)
        return value

    def _of_class(self, held: GuestClass, name: str) -> Any:
        if held.members is not None and name in held.members:
            return held.members[name]
        found = held.find(name)
        if isinstance(found, Descriptor):
            if found.kind == "static":
                return found.get
            return BoundMethod(found.get, held, self) if found.kind == "class" else found  # type: ignore[arg-type]
        if isinstance(found, Instance) and isinstance(found.cls.find("__get__"), Function):
            return self.call(self.bind(found.cls.find("__get__"), found), (None, held), {})
        if found is not MISSING:
            return found
        return self._class_special(held, name)

    def _class_special(self, held: GuestClass, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return held.name
        if name == "__module__":
            return held.module
        if name == "__mro__":
            return tuple(c for c in held.mro)
        if name == "__bases__":
            return held.bases
        if name == "__dict__":
            return held.namespace
        if name == "__annotations__":
            return held.namespace.get("__annotations__", {})
        if name == "__doc__":
            return ast.get_docstring(held.node) if held.node is not None else None
        if name == "__members__" and held.members is not None:
            return dict(held.members)
        if name == "_value2member_map_" and held.members is not None:
            return {m.attrs["_value_"]: m for m in held.members.values()}
        if name == "__dataclass_fields__" and held.record is not None:
            return held.record.fields
        return self.external(f"class.{name}.of") if name in ("__new__", "__subclasses__", "mro") else MISSING

    def _of_function(self, held: Any, name: str) -> Any:
        if isinstance(held, BoundMethod):
            if name == "__self__":
                return held.self_value
            if name == "__func__":
                return held.function
            held = held.function
        if isinstance(held, Native):
            return (
                held.name
                if name in ("__name__", "__qualname__")
                else Native(f"{held.name}.{name}", _nothing, self)  # type: ignore[arg-type]
            )
        if name in held.attrs:
            return held.attrs[name]
        special = {"__name__": held.name, "__qualname__": held.qualname, "__module__": held.module.name}
        if name == "__doc__":
            return ast.get_docstring(self.read_body(held)) if not isinstance(held.node, ast.Lambda) else None
        if name in ("cache_clear", "cache_info"):
            return Native(name, _nothing, self)  # type: ignore[arg-type]
        return special.get(name, MISSING)

    def _of_plain(self, held: Any, name: str) -> Any:
        if isinstance(held, (Environment, Logger, ParserValue)):
            return NativeMethod(held, name, self)
        if isinstance(held, type) and f"builtins.object.{name}" in self.library:
            return self.library[f"builtins.object.{name}"]
        if name.startswith("_") and name not in _HIDDEN_ALLOWED:
            return self._named_tuple(held, name)
        if name == "__class__":
            return type(held)
        if isinstance(held, types.ModuleType):
            return MISSING
        if isinstance(held, PurePath) and name in PATH_METHODS:
            return NativeMethod(held, name, self)
        found = getattr(held, name, MISSING)
        if found is MISSING or not callable(found) or isinstance(found, type):
            return found
        if isinstance(held, type) or getattr(found, "__self__", held) is not held or isinstance(held, _DATA):
            return found
        return NativeMethod(held, name, self)

    def _named_tuple(self, held: Any, name: str) -> Any:
        if isinstance(held, tuple) and name in ("_fields", "_asdict", "_replace", "_make"):
            return getattr(held, name, MISSING)
        return MISSING

    # --- binding ----------------------------------------------------------------------------------

    def bind_attribute(self, held: Any, name: str, value: Any, node: ast.AST | None = None) -> None:
        """Do ``held.name = value``."""
        if isinstance(held, Instance):
            in_class = held.cls.find(name)
            if isinstance(in_class, Descriptor) and in_class.kind == "property":
                if in_class.set is not None:
                    self.call(in_class.set, (held, value), {})
                    return
                raise GuestRaise(AttributeError(f"can't set attribute '{name}'"))
            if isinstance(in_class, Instance) and isinstance(in_class.cls.find("__set__"), Function):
                self.call(self.bind(in_class.cls.find("__set__"), in_class), (held, value), {})
                return
            own = held.cls.find("__setattr__")
            if isinstance(own, Function):
                self.call(self.bind(own, held), (name, value), {})
                return
            self.store_attribute(held, name, value, node)
        elif isinstance(held, GuestClass):
            self.journal.set(held.namespace, name, value)
        elif isinstance(held, ModuleValue):
            self.journal.set(held.globals, name, value)
        elif isinstance(held, Function):
            self.journal.set(held.attrs, name, value)
        elif isinstance(held, (types.SimpleNamespace, argparse.Namespace)):
            self.journal.set(vars(held), name, value)
        elif isinstance(held, Unknown):
            for option in held.options:
                if isinstance(option, Instance):
                    old = option.attrs.get(name, MISSING)
                    if old is not MISSING:
                        self.store_attribute(option, name, unknown_of(held, old, value), node)

    def store_attribute(self, held: Instance, name: str, value: Any, node: ast.AST | None = None) -> None:
        """Bind an attribute of an object without asking its class."""
        if held.cls.record is not None and held.cls.record.validate is not None:
            value = held.cls.record.validate(held, name, value)
        self.journal.set(held.attrs, name, value)
        if held.tracked and self.watch is not None:
            self.watch.wrote(held, name, value, node)


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


_DATA: Final = (Field, types.SimpleNamespace, argparse.Namespace, argparse.Action)
"""Native objects whose attributes are values, never methods."""
_SPECIAL: Final = frozenset({"__class__", "__dict__"})
