"""Classes of the source: made from their bodies, instantiated as Python does."""

from __future__ import annotations

import ast
import collections
import dataclasses
import enum
import types
from collections.abc import Callable
from typing import Any

from tools.interpreter.module import Frame
from tools.interpreter.operators import equal
from tools.interpreter.records import Record, fill
from tools.interpreter.relations import Relations
from tools.interpreter.values import (
    MISSING,
    BoundMethod,
    Descriptor,
    External,
    Function,
    GuestClass,
    Instance,
    Marker,
    Native,
    Unknown,
    linear,
    unknown_of,
)

_ENUMS: dict[Any, tuple[type, ...]] = {
    enum.Enum: (),
    enum.IntEnum: (int,),
    enum.StrEnum: (str,),
    enum.Flag: (int,),
    enum.IntFlag: (int,),
}


_BLANK = (list, dict, set, frozenset, collections.deque)
"""Types whose objects can be made of nothing before an ``__init__`` fills them."""


class Auto:
    """Stand for ``enum.auto()``."""


class Classes(Relations):
    """Make classes and objects."""

    kinds: dict[str, Callable[[GuestClass, dict[str, Any]], None]]
    """What a base class of another package makes of a class, by its path."""

    def new_class(self, node: ast.ClassDef, into: GuestClass | None = None) -> Any:
        """Make a class from its statement, decorators applied; ``into`` is one that was put off."""
        bases = [self.evaluate(base) for base in node.bases]
        options = {k.arg: self.evaluate(k.value) for k in node.keywords if k.arg is not None}
        outer = self.frame
        namespace: dict[str, Any] = {}
        frame = Frame(namespace, outer.module, outer, outer.function, is_class=True)
        self.frame = frame
        try:
            self.run_block(node.body)
        finally:
            self.frame = outer
        cls = self.class_of(node.name, bases, namespace, options, node, into)
        self.store["class", id(namespace)] = cls
        result: Any = cls
        for decorator in reversed(node.decorator_list):
            found = self.evaluate(decorator)
            if isinstance(found, (Unknown, External)):
                continue
            result = self.call(found, (result,), {})
        return result

    def class_of(
        self,
        name: str,
        bases: list[Any],
        namespace: dict[str, Any],
        options: dict[str, Any],
        node: ast.ClassDef | None = None,
        into: GuestClass | None = None,
    ) -> GuestClass:
        """Make a class from its parts."""
        kept: list[Any] = []
        is_enum, text = False, False
        for base in bases:
            if isinstance(base, types.GenericAlias):
                base = base.__origin__
            if isinstance(base, type) and issubclass(base, enum.Enum):
                is_enum, text = True, text or base is enum.StrEnum
                kept += [b for b in _ENUMS.get(base, ()) if b not in kept]
            elif isinstance(base, (GuestClass, External, type)) and base is not object:
                kept.append(base)
            elif isinstance(base, Unknown):
                kept.append(External(", ".join(base.needs) or "a base class"))
        cls = into if into is not None else GuestClass.__new__(GuestClass)
        GuestClass.__init__(cls, name, tuple(kept), namespace, self, self.frame.module.name)  # type: ignore[arg-type]
        cls.node, cls.path = node, self.frame.module.path
        cls.record_is_own = False  # type: ignore[attr-defined]
        inherited = next(
            (b for b in cls.mro[1:] if isinstance(b, GuestClass) and b.members is not None), None
        )
        if text or (inherited is not None and inherited.kind == "str"):
            cls.kind = "str"
        self._own(cls)
        if is_enum or inherited is not None:
            self._members(cls)
        self._inherit(cls, options)
        self._told(cls, options)
        return cls

    def _told(self, cls: GuestClass, options: dict[str, Any]) -> None:
        """Tell descriptors their names, and base classes of the new one."""
        for name, value in list(cls.namespace.items()):
            if isinstance(value, Instance) and isinstance(value.cls.find("__set_name__"), Function):
                self.call(self.bind(value.cls.find("__set_name__"), value), (cls, name), {})
        for base in cls.mro[1:]:
            hook = base.namespace.get("__init_subclass__") if isinstance(base, GuestClass) else None
            if isinstance(hook, Descriptor):
                hook = hook.get
            if isinstance(hook, Function):
                self.call(hook, (cls,), {k: v for k, v in options.items() if k != "metaclass"})
                return

    def _inherit(self, cls: GuestClass, options: dict[str, Any]) -> None:
        for base in cls.mro[1:]:
            if isinstance(base, Marker) and base.path in self.kinds:
                self.kinds[base.path](cls, options)
                return
            if isinstance(base, GuestClass) and base.record is not None:
                cls.record = base.record
                return

    def _own(self, cls: GuestClass) -> None:
        for value in cls.namespace.values():
            held = value.get if isinstance(value, Descriptor) else value
            held = held.function if isinstance(held, BoundMethod) else held
            if isinstance(held, Function) and held.owner is None:
                held.owner = cls
                if isinstance(value, Descriptor) and isinstance(value.set, Function):
                    value.set.owner = cls

    # --- enumerations -----------------------------------------------------------------------------

    def _members(self, cls: GuestClass) -> None:
        cls.members = {}
        base = cls.native_base()
        last = 0
        for name, value in list(cls.namespace.items()):
            if name.startswith("_") or isinstance(
                value, (Function, Descriptor, BoundMethod, GuestClass, Native)
            ):
                continue
            if isinstance(value, Auto):
                value = name.lower() if cls.kind == "str" else last + 1
            if isinstance(value, int):
                last = int(value)
            known = next((m for m in cls.members.values() if equal(m.attrs["_value_"], value) is True), None)
            cls.members[name] = known or self._member(cls, name, value, base)
            del cls.namespace[name]

    def _member(self, cls: GuestClass, name: str, value: Any, base: type | None) -> Instance:
        member = Instance(cls, {"_name_": name, "_value_": value})
        if base is not None and isinstance(value, base):
            member.native = value
        if isinstance(cls.namespace.get("__new__"), Function):
            made = self.call(cls.namespace["__new__"], (cls, *_spread(value)), {})
            if isinstance(made, Instance):
                member = made
                member.attrs.setdefault("_value_", value)
                member.attrs["_name_"] = name
                if base is not None and isinstance(member.attrs["_value_"], base):
                    member.native = member.attrs["_value_"]
        init = cls.namespace.get("__init__")
        if isinstance(init, Function):
            self.call(init, (member, *_spread(value)), {})
        return member

    def _looked_up(self, cls: GuestClass, args: tuple[Any, ...]) -> Any:
        value = args[0] if args else MISSING
        if isinstance(value, Unknown):
            return unknown_of(value)
        for member in (cls.members or {}).values():
            if member is value or equal(member.attrs["_value_"], value) is True:
                return member
        missing = cls.find("_missing_")
        if isinstance(missing, Descriptor):
            found = self.call(missing.get, (cls, value), {})
            if found is not None:
                return found
        return self.raise_native(ValueError(f"{value!r} is not a valid {cls.name}"))

    # --- objects ----------------------------------------------------------------------------------

    def instantiate(self, cls: GuestClass, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make an object of a class of the source."""
        if cls.members is not None:
            return self._looked_up(cls, args)
        if cls.kind == "typed dict":
            return dict(*args, **kwargs)
        new = cls.find("__new__")
        if isinstance(new, Descriptor):
            new = new.get
        if isinstance(new, Function):
            held = self.call(new, (cls, *args), kwargs)
            if not isinstance(held, Instance) or cls not in held.cls.mro:
                return held
        else:
            held = self.blank(cls, args, kwargs)
        return self.initialise(held, args, kwargs)

    def blank(
        self, cls: GuestClass, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Instance:
        """Return an object before its ``__init__``."""
        held = Instance(cls)
        held.tracked = cls.name in self.tracked_classes
        base = cls.native_base()
        if base is None:
            return held
        if issubclass(base, BaseException):
            held.native = BaseException(*args)
            held.attrs["args"] = args
        elif not isinstance(cls.find("__init__"), Function) or base in (str, int, float, tuple, bytes):
            held.native = base(*args, **(kwargs or {}))
        elif issubclass(base, _BLANK):
            held.native = base()
        return held

    tracked_classes: frozenset[str] = frozenset()

    def initialise(self, held: Instance, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Instance:
        """Run what makes an object ready: the nearest ``__init__``, or the fields of its record."""
        cls = held.cls
        for base in cls.mro:
            if not isinstance(base, GuestClass):
                continue
            own = base.namespace.get("__init__")
            if isinstance(own, (Function, Native)):
                self.call(own, (held, *args), kwargs)
                return held
            if getattr(base, "record_is_own", False):
                self.fill_record(held, base.record, args, kwargs)
                return held
        if (
            (args or kwargs)
            and cls.native_base() is None
            and not any(isinstance(b, External) for b in cls.mro)
        ):
            self.raise_native(TypeError(f"{cls.name}() takes no arguments"))
        return held

    def fill_record(
        self, held: Instance, record: Record, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Bind the fields of an object, then run its ``__post_init__``."""
        values = fill(record, held.cls, args, kwargs, self)  # type: ignore[arg-type]
        if record.prepare is not None:
            values = record.prepare(held, values)
        extra = [values.pop(name) for name in record.init_vars if name in values]
        for name, value in values.items():
            self.store_plain(held, name, value)
        if record.kind == "named tuple":
            held.native = tuple(values.values())
        post = held.cls.find("__post_init__")
        if isinstance(post, (Function, Native)):
            self.call(self.bind(post, held), tuple(extra), {})
        if record.finish is not None:
            record.finish(held)

    def store_plain(self, held: Instance, name: str, value: Any) -> None:
        """Bind a field when an object is made."""
        self.journal.set(held.attrs, name, value)

    def _written_in(self, function: Function) -> GuestClass | None:
        """Return the class in whose body a function stands that decorators hide."""
        at = function.closure
        while at is not None and not at.is_class:
            at = at.parent
        return self.store.get(("class", id(at.names))) if at is not None else None

    def parent_of(self, frame: Frame, args: tuple[Any, ...]) -> Any:
        """Return what ``super()`` finds names on."""
        if args:
            cls, held = args[0], args[1]
        else:
            function = frame.function
            cls = function.owner or self._written_in(function) if isinstance(function, Function) else None
            parameters = function.node.args if isinstance(function, Function) else None
            first = (parameters.posonlyargs + parameters.args)[:1] if parameters is not None else []
            held = _first_value(frame, first[0].arg) if first else None
        if not isinstance(cls, GuestClass):
            return unknown_of(need="super()")
        own = held if isinstance(held, GuestClass) else held.cls if isinstance(held, Instance) else cls
        mro = own.mro
        at = next((n for n, c in enumerate(mro) if c is cls), 0)
        return Parent(mro[at + 1 :], held)


@dataclasses.dataclass(eq=False, slots=True)
class Parent:
    """Stand for ``super()``: names are searched in the classes behind the current one."""

    classes: tuple[Any, ...]
    held: Any


def _first_value(frame: Frame, name: str) -> Any:
    at: Frame | None = frame
    while at is not None:
        if name in at.names:
            return at.names[name]
        at = at.parent
    return None


def _spread(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


__all__ = ["Auto", "Classes", "Parent", "linear"]
