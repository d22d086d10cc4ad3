"""Classes whose objects are made from their fields: dataclasses, structs, and their kind."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tools.interpreter.values import MISSING, GuestClass, GuestRaise, Instance, Unknown

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine


class Field:
    """Hold one field as the source declares it; the annotation is evaluated when it is asked for."""

    def __init__(self, name: str = "", default: Any = dataclasses.MISSING, **options: Any) -> None:
        self.name = name
        self.default = default
        self.default_factory = options.pop("default_factory", dataclasses.MISSING)
        self.init = options.pop("init", True)
        self.kw_only = options.pop("kw_only", False)
        self.metadata = options.pop("metadata", None) or {}
        self.repr = options.pop("repr", True)
        self.options = options
        self.annotation: ast.expr | None = None
        self.type_of: Callable[[], Any] = lambda: Unknown((f"the type of {name}",))

    @property
    def type(self) -> Any:
        """Return the annotation: its text where the module postpones annotations, else what it means."""
        return self.type_of()

    @property
    def required(self) -> bool:
        """Tell whether a value must be given."""
        return self.default is dataclasses.MISSING and self.default_factory is dataclasses.MISSING

    def copy(self) -> Field:
        """Return a copy for a class that inherits it."""
        made = Field(
            self.name,
            self.default,
            default_factory=self.default_factory,
            init=self.init,
            kw_only=self.kw_only,
            metadata=self.metadata,
            repr=self.repr,
            **self.options,
        )
        made.annotation, made.type_of = self.annotation, self.type_of
        return made


@dataclasses.dataclass(slots=True)
class Record:
    """Say how objects of a class are made from fields."""

    fields: dict[str, Field]
    eq: bool = True
    frozen: bool = False
    kind: str = "dataclass"
    validate: Callable[[Instance, str, Any], Any] | None = None
    """What a value becomes that is assigned later (pydantic's ``validate_assignment``)."""
    prepare: Callable[[Instance, dict[str, Any]], dict[str, Any]] | None = None
    """What given values become before they are bound (coercion, validators)."""
    finish: Callable[[Instance], None] | None = None
    """What runs after ``__post_init__``."""
    extra: str = "forbid"
    init_vars: tuple[str, ...] = ()


def declared_fields(
    cls: GuestClass, machine: Machine, field_of: Callable[[Any], Field | None]
) -> dict[str, Field]:
    """Return the fields of a class, those of its bases first; ``field_of`` reads a field object."""
    found: dict[str, Field] = {}
    for base in reversed(cls.mro[1:]):
        if isinstance(base, GuestClass) and base.record is not None:
            found.update({n: f.copy() for n, f in base.record.fields.items()})
    for name, annotation in cls.namespace.get("__annotations__", {}).items():
        text = ast.unparse(annotation) if isinstance(annotation, ast.AST) else ""
        if text.startswith(("ClassVar", "typing.ClassVar", "KW_ONLY", "dataclasses.KW_ONLY")):
            continue
        value = machine.forced(cls.namespace, name) if name in cls.namespace else MISSING
        read = field_of(value) if value is not MISSING else None
        field = (
            read.copy()
            if read is not None
            else Field(name, dataclasses.MISSING if value is MISSING else value)
        )
        field.name = name
        field.annotation = annotation if isinstance(annotation, ast.expr) else None
        field.type_of = _typed(cls, name, annotation, machine)
        if read is not None:
            if field.default is not dataclasses.MISSING:
                cls.namespace[name] = field.default
            else:
                cls.namespace.pop(name, None)
        found[name] = field
    return found


def _typed(cls: GuestClass, name: str, annotation: Any, machine: Machine) -> Callable[[], Any]:
    def evaluate() -> Any:
        if not isinstance(annotation, ast.expr):
            return annotation
        if machine.postponed(cls):
            return ast.unparse(annotation)
        return machine.annotation(cls, annotation)

    return evaluate


def fill(
    record: Record, cls: GuestClass, args: tuple[Any, ...], kwargs: dict[str, Any], machine: Machine
) -> dict[str, Any]:
    """Return the value of every field that a call gives or the class defaults."""
    positional = [f for f in record.fields.values() if f.init and not f.kw_only]
    if len(args) > len(positional):
        raise GuestRaise(TypeError(f"{cls.name}() takes {len(positional)} positional arguments"))
    given = {field.name: value for field, value in zip(positional, args, strict=False)}
    for name, value in kwargs.items():
        if name not in record.fields or not record.fields[name].init:
            if record.extra == "forbid":
                raise GuestRaise(TypeError(f"{cls.name}() got an unexpected keyword argument '{name}'"))
            if record.extra == "ignore":
                continue
        given[name] = value
    values: dict[str, Any] = {}
    for field in record.fields.values():
        if field.name in given:
            values[field.name] = given.pop(field.name)
        elif field.default is not dataclasses.MISSING:
            values[field.name] = _own_copy(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            values[field.name] = machine.call(field.default_factory, (), {})
        elif field.init:
            raise GuestRaise(TypeError(f"{cls.name}() missing required argument: '{field.name}'"))
    values.update(given)
    return values


def _own_copy(default: Any) -> Any:
    return default.copy() if type(default) in (list, dict, set) else default
