"""``pydantic``: dataclasses and models whose fields are checked and converted when objects are made."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.callables import natives
from tools.interpreter.library.pydantic_objects import (
    ArgsKwargs,
    Model,
    PydanticObjects,
    Validator,
)
from tools.interpreter.library.pydantic_types import (
    FieldInfo,
    SkipValidation,
    ValidationError,
    convert,
    refuse,
)
from tools.interpreter.records import Field, Record, declared_fields
from tools.interpreter.values import (
    MISSING,
    Descriptor,
    Function,
    GuestClass,
    Instance,
    Marker,
    Native,
    Unknown,
    unknown_of,
)

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_MARK: Final = "__pydantic_validator__"
_OTHER: Final = (
    "model_dump_json", "model_fields", "model_fields_set", "model_construct", "model_json_schema",
    "model_extra", "model_rebuild", "model_parametrized_name", "dict", "json", "copy", "schema",
    "schema_json", "construct", "from_orm", "validate", "update_forward_refs", "model_computed_fields",
)  # fmt: skip
"""What a model has beside its fields, and that is not followed."""


def install(machine: Machine) -> None:
    """Add ``pydantic``."""
    add = machine.library
    own = Pydantic(machine)
    runs: dict[str, Callable[..., Any]] = {
        "pydantic.dataclasses.dataclass": own.dataclass,
        "pydantic.Field": own.field,
        "pydantic.fields.Field": own.field,
        "pydantic.PrivateAttr": own.field,
        "pydantic.field_validator": own.field_validator,
        "pydantic.model_validator": own.model_validator,
        "pydantic.TypeAdapter": own.adapter,
        "pydantic.dataclasses.is_pydantic_dataclass": lambda cls: own.model_of(cls) is not None,
        "pydantic.BaseModel.model_dump": own.dump,
        "pydantic.BaseModel.model_validate": lambda cls, value, *a, **k: own.adapted(cls, value),
        "pydantic.BaseModel.parse_obj": lambda cls, value: own.adapted(cls, value),
        "pydantic.BaseModel.model_validate_json": lambda cls, text, *a, **k: own.of_json(cls, text),
        "pydantic.BaseModel.parse_raw": lambda cls, text, *a, **k: own.of_json(cls, text),
        "pydantic.BaseModel.model_copy": own.copied,
    }
    add |= natives(machine, runs)
    add["pydantic.ConfigDict"] = dict
    add["pydantic.fields.FieldInfo"] = FieldInfo
    add["pydantic.SkipValidation"] = add["pydantic.functional_validators.SkipValidation"] = SkipValidation
    add["pydantic.ValidationError"] = add["pydantic_core.ValidationError"] = ValidationError
    add["pydantic_core.ArgsKwargs"] = ArgsKwargs
    add["pydantic.BaseModel"] = Marker("pydantic.BaseModel")
    machine.kinds["pydantic.BaseModel"] = own.base_model


class Pydantic(PydanticObjects):
    """Make classes whose fields are checked, and their objects."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.models: dict[int, Model] = {}

    # --- classes ----------------------------------------------------------------------------------

    def dataclass(self, cls: Any = None, /, **options: Any) -> Any:
        """Make a dataclass whose fields are checked, with or without options."""
        if cls is None:
            return Native("dataclass", lambda found: self.made(found, options), self.machine)
        return self.made(cls, options)

    def made(self, cls: Any, options: Mapping[str, Any]) -> Any:
        """Give a class its fields, and an ``__init__`` that checks them."""
        if not isinstance(cls, GuestClass):
            return cls
        config = options.get("config") or cls.find("__pydantic_config__")
        model = self._describe(cls, config if isinstance(config, dict) else {}, is_dataclass=True)
        if options.get("kw_only"):
            for field in model.fields.values():
                field.kw_only = True
        cls.record = Record(model.fields, options.get("eq", True), options.get("frozen", False))
        if model.config.get("validate_assignment"):
            cls.record.validate = self._assigned
        return cls

    def base_model(self, cls: GuestClass, options: dict[str, Any]) -> None:
        """Give a class that derives from ``BaseModel`` its fields and its ``__init__``."""
        config: dict[str, Any] = {}
        for base in reversed(cls.mro):
            own = base.namespace.get("model_config") if isinstance(base, GuestClass) else None
            config |= own if isinstance(own, dict) else {}
        model = self._describe(cls, config | options, is_dataclass=False)
        for name in ("model_dump", "model_copy"):
            cls.namespace.setdefault(name, self.machine.library[f"pydantic.BaseModel.{name}"])
        for name in ("model_validate", "model_validate_json", "parse_obj", "parse_raw"):
            if cls.find(name) is MISSING:
                cls.namespace[name] = Descriptor("class", self.machine.library[f"pydantic.BaseModel.{name}"])
        for name in _OTHER:
            if cls.find(name) is MISSING:
                cls.namespace[name] = Unknown((f"pydantic.BaseModel.{name}",))
        cls.record = Record(model.fields, True, bool(config.get("frozen")), kind="model")
        if config.get("validate_assignment"):
            cls.record.validate = self._assigned

    def _describe(self, cls: GuestClass, config: Mapping[str, Any], *, is_dataclass: bool) -> Model:
        fields = declared_fields(cls, self.machine, lambda v: v if isinstance(v, Field) else None)
        declared = tuple(fields)
        init_vars = {n: f for n, f in fields.items() if _is_init_var(f)}
        inherited = [self.models[id(b)] for b in cls.mro[1:] if id(b) in self.models]
        for base in inherited:
            init_vars = {**base.init_vars, **init_vars}
        fields = {
            n: f
            for n, f in fields.items()
            if n not in init_vars and not (n.startswith("_") and not is_dataclass)
        }
        for field in fields.values():
            info = field.default
            if isinstance(info, FieldInfo):
                field.init = info.init is not False
                field.kw_only = field.kw_only or bool(info.kw_only)
                default = info.default
                if default is not dataclasses.MISSING and cls.namespace.get(field.name) is info:
                    cls.namespace[field.name] = default
        of_fields, of_models = self._validators(cls)
        order = tuple(
            dict.fromkeys(n for m in (*reversed(inherited), None) for n in (m.order if m else declared))
        )
        model = Model(fields, init_vars, config, of_fields, of_models, is_dataclass, order)
        self.models[id(cls)] = model
        if not isinstance(cls.namespace.get("__init__"), Function):
            cls.namespace["__init__"] = Native(
                "__init__", lambda held, /, *a, **k: self.init(cls, held, a, k), self.machine
            )
        self._kept = [*getattr(self, "_kept", []), cls]
        return model

    def _validators(self, cls: GuestClass) -> tuple[list[Validator], list[Validator]]:
        found: dict[str, tuple[str, Validator]] = {}
        for base in reversed(cls.mro):
            if not isinstance(base, GuestClass):
                continue
            for name, value in base.namespace.items():
                found.pop(name, None) if not name.startswith("__") else None
                function = value.get if isinstance(value, Descriptor) else value
                mark = function.attrs.get(_MARK) if isinstance(function, Function) else None
                if mark is not None:
                    kind, names, mode = mark
                    found[name] = (kind, Validator(names, mode, value, _takes(function) - 1))
        return (
            [v for k, v in found.values() if k == "field"],
            [v for k, v in found.values() if k == "model"],
        )

    def model_of(self, cls: Any) -> Model | None:
        """Return how objects of a class are made, if its fields are checked."""
        for base in cls.mro if isinstance(cls, GuestClass) else ():
            if id(base) in self.models:
                return self.models[id(base)]
        return None

    # --- declarations -----------------------------------------------------------------------------

    def field(self, default: Any = dataclasses.MISSING, **options: Any) -> FieldInfo:
        """Describe a field."""
        return FieldInfo(dataclasses.MISSING if default is ... else default, **options)

    def field_validator(self, *names: Any, mode: Any = "after", **options: Any) -> Native:
        """Mark a function as one that checks fields."""
        return Native("field_validator", lambda f: self._marked(f, "field", names, mode), self.machine)

    def model_validator(self, *args: Any, mode: Any = "after") -> Native:
        """Mark a function as one that checks a whole object."""
        return Native("model_validator", lambda f: self._marked(f, "model", (), mode), self.machine)

    def _marked(self, function: Any, kind: str, names: tuple[Any, ...], mode: str) -> Any:
        inner = function.get if isinstance(function, Descriptor) else function
        if isinstance(inner, Function):
            inner.attrs[_MARK] = (kind, names, mode)
        if isinstance(function, Function) and kind == "field":
            return Descriptor("class", function)
        return function

    # --- adapters ---------------------------------------------------------------------------------

    def adapter(self, kind: Any, **options: Any) -> Any:
        """Return what checks values of any type."""
        machine = self.machine

        cls = GuestClass("TypeAdapter", (), {}, machine, "pydantic")
        cls.record_is_own = False  # type: ignore[attr-defined]
        held = Instance(cls)
        held.attrs["validate_python"] = Native(
            "validate_python", lambda value, **k: self.adapted(kind, value), machine
        )
        held.attrs["validate_json"] = Native(
            "validate_json", lambda text, **k: self.of_json(kind, text), machine
        )
        for name in ("dump_python", "dump_json"):
            held.attrs[name] = Native(
                name, lambda *a, name=name, **k: unknown_of(need=f"TypeAdapter.{name}()"), machine
            )
        return held

    def adapted(self, kind: Any, value: Any) -> Any:
        """Return what a value becomes where a type is wanted."""
        return convert(self, kind if isinstance(kind, GuestClass) else None, kind, value, None)

    def of_json(self, kind: Any, text: Any) -> Any:
        """Return what JSON becomes where a type is wanted."""
        if not isinstance(text, (str, bytes)):
            return unknown_of(text, need="validate_json()")
        try:
            value = json.loads(text)
        except ValueError as error:
            return refuse(f"Invalid JSON: {error}")
        return self.adapted(kind, value)

    def dump(self, held: Any, **options: Any) -> Any:
        """Return the fields of an object as a dict."""
        if options or not isinstance(held, Instance):
            return unknown_of(held, need="model_dump()")
        return self.machine.call(self.machine.library["dataclasses.asdict"], (held,), {})

    def copied(self, held: Any, **options: Any) -> Any:
        """Return a copy of an object, some values replaced."""
        if not isinstance(held, Instance) or not isinstance(options.get("update") or {}, dict):
            return unknown_of(held, need="model_copy()")
        name = "copy.deepcopy" if options.get("deep") else "copy.copy"
        made = self.machine.call(self.machine.library[name], (held,), {})
        for key, value in (options.get("update") or {}).items():
            self.machine.store_plain(made, key, value)
        return made


def _takes(function: Function) -> int:
    spec = function.machine.read_body(function).args
    return len(spec.posonlyargs) + len(spec.args)


def _is_init_var(field: Field) -> bool:
    import ast

    return field.annotation is not None and ast.unparse(field.annotation).startswith(
        ("InitVar", "dataclasses.InitVar")
    )
