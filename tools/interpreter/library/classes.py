"""Classes that other packages make of the source's: dataclasses, structs, named tuples, pydantic models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tools.interpreter.callables import natives
from tools.interpreter.records import Field, Record, declared_fields
from tools.interpreter.values import (
    External,
    GuestClass,
    GuestRaise,
    Instance,
    Marker,
    Native,
    Unknown,
    unknown_of,
)

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine


def install(machine: Machine) -> None:
    """Add the makers of records."""
    own = Records(machine)
    _add_functions(machine, own)
    machine.library["record.__init__"] = own.initialiser
    for path, maker in (
        ("msgspec.Struct", own.struct),
        ("typing.NamedTuple", own.named_tuple),
        ("typing.TypedDict", own.typed_dict),
        ("typing_extensions.TypedDict", own.typed_dict),
        ("typing.Protocol", _nothing),
        ("typing.Generic", _nothing),
        ("typing_extensions.Protocol", _nothing),
    ):
        machine.library[path] = Marker(path)
        machine.kinds[path] = maker


def _add_functions(machine: Machine, own: Records) -> None:
    """Add what is called on records, their fields, and objects of any class."""
    add = machine.library
    runs: dict[str, Callable[..., Any]] = {
        "dataclasses.dataclass": own.dataclass,
        "dataclasses.field": own.field,
        "dataclasses.fields": own.fields,
        "dataclasses.is_dataclass": own.is_dataclass,
        "dataclasses.asdict": own.as_dict,
        "dataclasses.astuple": lambda held: tuple(own.as_dict(held).values()),
        "dataclasses.replace": own.replace,
        "msgspec.field": own.field,
        "msgspec.defstruct": own.defined,
        "msgspec.Struct.__setattr__": lambda held, name, value: machine.store_attribute(
            held, name, value, machine.node
        ),
        "msgspec.structs.fields": own.fields,
        "msgspec.structs.replace": own.replace,
        "msgspec.structs.asdict": own.shallow,
        "msgspec.structs.force_setattr": own.force,
        "builtins.object.__new__": lambda cls, *a, **k: (
            machine.blank(cls) if isinstance(cls, GuestClass) else unknown_of(need="object.__new__()")
        ),
        "builtins.object.__setattr__": lambda held, name, value: machine.store_attribute(
            held, name, value, machine.node
        ),
        "builtins.object.__setattr__.bound": lambda *a: None,
        "builtins.object.__getattribute__": own.plainly,
        "builtins.object.__delattr__": lambda held, name: None,
        "builtins.object.__init__": lambda *a, **k: None,
        "builtins.object.__post_init__": lambda *a, **k: None,
        "builtins.object.__init_subclass__": lambda *a, **k: None,
        "builtins.object.__eq__": lambda held, other: held is other,
        "builtins.object.__hash__": lambda held: unknown_of(need="hash()"),
        "builtins.object.__repr__": lambda held: unknown_of(need="repr()"),
        "builtins.object.__str__": lambda held: unknown_of(need="str()"),
    }
    add |= natives(machine, runs)
    add["builtins.object.__getattr__"] = add["builtins.object.__getattribute__"]
    add["dataclasses.MISSING"] = dataclasses.MISSING
    add["msgspec.NODEFAULT"] = dataclasses.MISSING
    add["msgspec.UNSET"] = External("msgspec.UNSET")
    add["dataclasses.InitVar"] = External("dataclasses.InitVar")
    add["dataclasses.FrozenInstanceError"] = AttributeError


def _nothing(cls: GuestClass, options: dict[str, Any]) -> None:
    """Make nothing more of a class."""


def _read(value: Any) -> Field | None:
    return value if isinstance(value, Field) else None


class Records:
    """Make records of classes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def dataclass(self, cls: Any = None, /, **options: Any) -> Any:
        """Make a dataclass, with or without options."""
        if cls is None:
            return Native("dataclass", lambda c: self._dataclass(c, options), self.machine)
        return self._dataclass(cls, options)

    def _dataclass(self, cls: Any, options: dict[str, Any]) -> Any:
        if not isinstance(cls, GuestClass):
            return cls
        fields = declared_fields(cls, self.machine, _read)
        cls.record = Record(fields, options.get("eq", True), options.get("frozen", False))
        cls.record.init_vars = tuple(
            n for n, f in fields.items() if f.annotation is not None and "InitVar" in _text(f)
        )
        if options.get("kw_only"):
            for field in fields.values():
                field.kw_only = True
        cls.record_is_own = options.get("init", True)  # type: ignore[attr-defined]
        return cls

    def struct(self, cls: GuestClass, options: dict[str, Any]) -> None:
        """Make a struct of a class that derives from ``msgspec.Struct``."""
        fields = declared_fields(cls, self.machine, _read)
        cls.record = Record(fields, options.get("eq", True), options.get("frozen", False), kind="struct")
        if options.get("kw_only"):
            for name in cls.namespace.get("__annotations__", {}):
                if name in fields:
                    fields[name].kw_only = True
        cls.record_is_own = True  # type: ignore[attr-defined]

    def defined(self, name: Any, fields: Any, **options: Any) -> Any:
        """Make a struct of its parts."""
        if not isinstance(name, str) or not isinstance(fields, list):
            return unknown_of(name, fields, need="msgspec.defstruct()")
        namespace = dict(options.pop("namespace", None) or {})
        namespace["__annotations__"] = {}
        for part in fields:
            word, *rest = part if isinstance(part, tuple) else (part,)
            namespace["__annotations__"][word] = rest[0] if rest else None
            if len(rest) > 1:
                namespace[word] = rest[1]
        bases = options.pop("bases", None) or ()
        bases = bases if isinstance(bases, tuple) else (bases,)
        return self.machine.class_of(
            name, [*bases, self.machine.library["msgspec.Struct"]], namespace, options
        )

    def named_tuple(self, cls: GuestClass, options: dict[str, Any]) -> None:
        """Make a named tuple of a class."""
        cls.record = Record(declared_fields(cls, self.machine, _read), kind="named tuple")
        cls.record_is_own = True  # type: ignore[attr-defined]

    def typed_dict(self, cls: GuestClass, options: dict[str, Any]) -> None:
        """Make a class whose objects are plain dicts."""
        cls.kind = "typed dict"

    def field(self, *args: Any, **options: Any) -> Field:
        """Describe a field."""
        if "name" in options:
            options.pop("name")
        return Field("", options.pop("default", args[0] if args else dataclasses.MISSING), **options)

    def fields(self, held: Any) -> Any:
        """Return the fields of a class or object."""
        cls = held.cls if isinstance(held, Instance) else held
        if not isinstance(cls, GuestClass) or cls.record is None:
            if isinstance(held, Unknown):
                return Unknown(held.needs)
            raise GuestRaise(TypeError("must be called with a dataclass type or instance"))
        return tuple(cls.record.fields.values())

    def is_dataclass(self, held: Any) -> Any:
        """Tell whether something is a dataclass or an object of one."""
        if isinstance(held, Unknown):
            return Unknown(held.needs)
        cls = held.cls if isinstance(held, Instance) else held
        return isinstance(cls, GuestClass) and cls.record is not None and cls.record.kind == "dataclass"

    def as_dict(self, held: Any, **options: Any) -> Any:
        """Return the fields of an object as a dict, every level."""
        if not isinstance(held, Instance):
            return unknown_of(held, need="asdict()")
        return {name: self._plain(held.attrs.get(name)) for name in held.cls.record.fields}

    def shallow(self, held: Any) -> Any:
        """Return the fields of a struct as a dict, one level."""
        if not isinstance(held, Instance):
            return unknown_of(held, need="asdict()")
        return {name: held.attrs.get(name) for name in held.cls.record.fields}

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Instance) and value.cls.record is not None:
            return self.as_dict(value)
        if (
            isinstance(value, (list, dict, set))
            and (needs := self.machine.journal.tainted(value)) is not None
        ):
            return Unknown(needs)
        if isinstance(value, (list, tuple)):
            return type(value)(self._plain(v) for v in value)
        if isinstance(value, dict):
            return {k: self._plain(v) for k, v in value.items()}
        return value

    def replace(self, held: Any, /, **changes: Any) -> Any:
        """Return a copy of an object with other values."""
        if not isinstance(held, Instance):
            return unknown_of(held, need="replace()")
        values = {n: held.attrs[n] for n, f in held.cls.record.fields.items() if f.init and n in held.attrs}
        return self.machine.instantiate(held.cls, (), {**values, **changes})

    def force(self, held: Any, name: Any, value: Any) -> None:
        """Bind an attribute of a frozen struct."""
        if isinstance(held, Instance) and isinstance(name, str):
            self.machine.store_attribute(held, name, value, self.machine.node)

    def plainly(self, held: Any, name: Any) -> Any:
        """Read an attribute without asking ``__getattr__``."""
        if isinstance(held, Instance) and isinstance(name, str):
            if name in held.attrs:
                return held.attrs[name]
            found = held.cls.find(name)
            if not isinstance(found, Unknown) and found is not self.machine.library["builtins.None"]:
                return self.machine.bind(found, held, name)
            raise GuestRaise(AttributeError(name))
        return self.machine.get_attribute(held, name)

    def initialiser(self, cls: GuestClass) -> Native:
        """Return the ``__init__`` that a record gives its class."""

        def run(held: Instance, *args: Any, **kwargs: Any) -> None:
            self.machine.fill_record(held, cls.record, args, kwargs)

        return Native("__init__", run, self.machine)


def _text(field: Field) -> str:
    import ast

    return ast.unparse(field.annotation) if field.annotation is not None else ""
