"""What ``super()`` finds under a name."""

from __future__ import annotations

from typing import Any, Final

from tools.interpreter.base import Base
from tools.interpreter.classes import Parent
from tools.interpreter.operators import natively
from tools.interpreter.values import (
    MISSING,
    BoundMethod,
    Descriptor,
    External,
    GuestClass,
    Instance,
    Native,
    Unknown,
)


class Parents(Base):
    """Search the classes behind the current one."""

    def parent_attribute(self, parent: Parent, name: str) -> Any:
        """Return what ``super()`` finds under a name."""
        for cls in parent.classes:
            if isinstance(cls, GuestClass) and name in cls.namespace:
                found = self.forced(cls.namespace, name)
                if isinstance(found, Descriptor) and found.kind == "class":
                    held = parent.held.cls if isinstance(parent.held, Instance) else parent.held
                    return BoundMethod(found.get, held, self)  # type: ignore[arg-type]
                return self.bind(found, parent.held, name)
            if isinstance(cls, GuestClass) and name == "__init__" and getattr(cls, "record_is_own", False):
                return BoundMethod(self.library["record.__init__"](cls), parent.held, self)  # type: ignore[arg-type]
            if isinstance(cls, External) and f"{cls.path}.{name}" in self.library:
                return BoundMethod(self.library[f"{cls.path}.{name}"], parent.held, self)  # type: ignore[arg-type]
            if isinstance(cls, External) and name not in _OBJECT and cls.path not in self.library["kinds"]:
                return Unknown((f"{cls.path}.{name}",))
        return self._of_object(parent, name)

    def _of_object(self, parent: Parent, name: str) -> Any:
        held = parent.held
        if name in _OBJECT:
            return (
                self.external(f"builtins.object.{name}")
                if name == "__new__"
                else BoundMethod(
                    self.external(f"builtins.object.{name}"),
                    held,
                    self,  # type: ignore[arg-type]
                )
            )
        if isinstance(held, Instance) and held.native is not None:
            if name in _ITEMS:
                return Native(name, lambda *args: self._native_item(held.native, name, args), self)  # type: ignore[arg-type]
            return self.get_attribute(held.native, name)
        return MISSING

    def _native_item(self, native: Any, name: str, args: tuple[Any, ...]) -> Any:
        """Do what a built-in container does under a name with underscores."""
        if any(isinstance(a, Unknown) for a in args[:1]):
            if name in ("__setitem__", "__delitem__"):
                self.journal.taint(native, args[0].needs)
            return Unknown(args[0].needs)
        needs = self.journal.tainted(native) if isinstance(native, (list, dict, set)) else None
        if needs is not None:
            return Unknown(needs)
        if name in ("__setitem__", "__delitem__"):
            self.journal.touch(native)
        return natively(getattr(native, name), *args)


_ITEMS: Final = frozenset(
    {"__getitem__", "__setitem__", "__delitem__", "__contains__", "__len__", "__iter__", "__reversed__"}
)
_OBJECT: Final = frozenset(
    {"__init__", "__new__", "__setattr__", "__getattribute__", "__delattr__", "__init_subclass__", "__eq__",
     "__hash__", "__repr__", "__str__", "__post_init__"}
)  # fmt: skip
