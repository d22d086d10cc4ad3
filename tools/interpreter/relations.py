"""Whether a value is of a class, and a class one of another: true, false or unknown."""

from __future__ import annotations

import argparse
import enum
from typing import Any

from tools.interpreter.base import Base
from tools.interpreter.operators import DTYPES
from tools.interpreter.values import (
    MISSING,
    External,
    GuestClass,
    Instance,
    Marker,
    Native,
    Unknown,
    unknown_of,
)

_LEAVES = ("torch.dtype", "torch.device")
"""Classes of other packages that derive from nothing but `object`."""


class Relations(Base):
    """Compare values with classes."""

    def instance_of(self, value: Any, cls: Any) -> Any:
        """Return ``isinstance(value, cls)``: True, False or an unknown."""
        if isinstance(cls, (tuple, list)):
            return _any(self.instance_of(value, c) for c in cls)
        if isinstance(cls, Native) and cls.name == "type":
            if isinstance(value, External) and value.path in _LEAVES:
                return True
            return (
                unknown_of(value)
                if isinstance(value, (Unknown, External))
                else isinstance(value, (type, GuestClass))
            )
        if hasattr(cls, "__args__") and not isinstance(cls, type):
            return _any(self.instance_of(value, c) for c in cls.__args__)
        if isinstance(value, Unknown):
            found = [self.instance_of(option, cls) for option in value.options]
            if found and all(f is found[0] for f in found) and not isinstance(found[0], Unknown):
                return found[0]
            return unknown_of(value)
        if isinstance(cls, Unknown):
            return unknown_of(cls)
        if isinstance(cls, GuestClass) and _is_protocol(cls):
            return self._conforms(value, cls)
        if isinstance(value, Instance):
            return self._member_of(value.cls, cls)
        if isinstance(cls, GuestClass):
            return False
        if isinstance(cls, External):
            return self._foreign(value, cls)
        return isinstance(value, cls) if isinstance(cls, type) else Unknown((f"isinstance of {cls!r}"[:60],))

    def _conforms(self, value: Any, cls: GuestClass) -> Any:
        """Return whether a value has all that a protocol names."""
        if isinstance(value, Instance) and any(c is cls for c in value.cls.mro):
            return True
        doubt: Any = None
        for base in cls.mro:
            names = base.namespace if isinstance(base, GuestClass) and _is_protocol(base) else {}
            for name in {*names, *names.get("__annotations__", {})} - _OF_PROTOCOLS:
                if name.startswith("__") and name != "__call__":
                    continue
                found = self.find_attribute(value, name)
                if found is MISSING:
                    return False
                doubt = found if isinstance(found, Unknown) and not isinstance(value, GuestClass) else doubt
        return True if doubt is None else unknown_of(doubt)

    def find_attribute(self, held: Any, name: str) -> Any:
        """Return an attribute, or `MISSING`."""
        raise NotImplementedError

    def _foreign(self, value: Any, cls: External) -> Any:
        if cls.path == "torch.dtype" and (not isinstance(value, External) or value.path in DTYPES):
            return isinstance(value, External)
        if isinstance(value, External):
            return Unknown((f"isinstance({value.path}, {cls.path})",))
        if isinstance(value, argparse.Action):
            return _is_action(value, cls.path)
        if isinstance(value, GuestClass) and cls.path in ("enum.EnumMeta", "enum.EnumType"):
            return value.members is not None
        kinds = {"pathlib.Path": "PurePath", "os.PathLike": "PurePath"}
        name = kinds.get(cls.path)
        return False if name is None else any(c.__name__ == name for c in type(value).__mro__)

    def _member_of(self, own: GuestClass, cls: Any) -> Any:
        if cls is object:
            return True
        if isinstance(cls, type) and issubclass(cls, enum.Enum):
            return own.members is not None
        if any(c is cls for c in own.mro):
            return True
        if isinstance(cls, type):
            return any(isinstance(c, type) and issubclass(c, cls) for c in own.mro)
        if isinstance(cls, Marker):
            return any(isinstance(c, Marker) and c.path == cls.path for c in own.mro)
        foreign = [c for c in own.mro if isinstance(c, External) and not isinstance(c, Marker)]
        if isinstance(cls, External):
            if any(c.path == cls.path for c in own.mro if isinstance(c, External)):
                return True
            return Unknown((f"whether {own.name} is a {cls.path}",)) if foreign else False
        return False

    def subclass_of(self, own: Any, cls: Any) -> Any:
        """Return ``issubclass(own, cls)``: True, False or an unknown."""
        if isinstance(cls, tuple):
            return _any(self.subclass_of(own, c) for c in cls)
        if isinstance(own, Unknown) or isinstance(cls, Unknown):
            return unknown_of(own, cls)
        if isinstance(own, GuestClass):
            return self._member_of(own, cls)
        if isinstance(own, type):
            return issubclass(own, cls) if isinstance(cls, type) else False
        if isinstance(own, External):
            return False if own.path in _LEAVES else Unknown((f"issubclass({own.path})",))
        return self.raise_native(TypeError("issubclass() arg 1 must be a class"))


def _is_action(value: argparse.Action, path: str) -> Any:
    """Tell of an option of the real parser whether it is of a kind that ``argparse`` names."""
    module, _, name = path.partition(".")
    kind = getattr(argparse, name, None) if module == "argparse" else None
    return isinstance(value, kind) if isinstance(kind, type) else Unknown((f"isinstance of {path}",))


_OF_PROTOCOLS = frozenset({"_is_protocol", "_is_runtime_protocol"})


def _is_protocol(cls: GuestClass) -> bool:
    return any(isinstance(b, External) and b.path.partition("[")[0] in _PROTOCOLS for b in cls.bases)


_PROTOCOLS = ("typing.Protocol", "typing_extensions.Protocol")


def _any(found: Any) -> Any:
    doubt = None
    for one in found:
        if one is True:
            return True
        if isinstance(one, Unknown):
            doubt = one
    return doubt if doubt is not None else False
