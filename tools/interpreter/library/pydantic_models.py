"""``pydantic``: dataclasses and models whose fields are checked and converted when objects are made."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

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
    BoundMethod,
    Descriptor,
    Function,
    GuestClass,
    GuestRaise,
    Instance,
    Marker,
    Native,
    Undecided,
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
Handler = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Validator:
    """Hold a function of the source that checks fields, or a whole object."""

    names: tuple[str, ...]
    mode: str
    function: Any
    """As the class binds it: called on the class, or on the object when it runs after a model is made."""
    takes: int
    """How many arguments it takes, without the class or object."""


@dataclasses.dataclass(slots=True)
class Model:
    """Say how objects of one class are made."""

    fields: dict[str, Field]
    init_vars: dict[str, Field]
    config: Mapping[str, Any]
    of_fields: list[Validator]
    of_models: list[Validator]
    is_dataclass: bool
    order: tuple[str, ...] = ()
    """Every name as it was declared, what is given to ``__post_init__`` alone among them."""


class ArgsKwargs:
    """Stand for what a dataclass is called with, as validators see it."""

    def __init__(self, args: Any = (), kwargs: Any = None) -> None:
        self.args = args
        self.kwargs = kwargs


def install(machine: Machine) -> None:
    """Add ``pydantic``."""
    add = machine.library
    own = Pydantic(machine)
    for path, run in {
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
    }.items():
        add[path] = Native(path.rsplit(".", 1)[1], cast(Any, run), machine)
    add["pydantic.ConfigDict"] = dict
    add["pydantic.fields.FieldInfo"] = FieldInfo
    add["pydantic.SkipValidation"] = add["pydantic.functional_validators.SkipValidation"] = SkipValidation
    add["pydantic.ValidationError"] = add["pydantic_core.ValidationError"] = ValidationError
    add["pydantic_core.ArgsKwargs"] = ArgsKwargs
    add["pydantic.BaseModel"] = Marker("pydantic.BaseModel")
    machine.kinds["pydantic.BaseModel"] = own.base_model


class Pydantic:
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

    # --- objects ----------------------------------------------------------------------------------

    def init(self, cls: GuestClass, held: Instance, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Make an object of what it is called with."""
        model = self.models[id(cls)]
        if held.cls is not cls and (own := self.model_of(held.cls)) is not None:
            model = own
        try:
            self._before(model, held, args, kwargs)
            self._after(model, held)
        except Undecided as undecided:
            self.machine.doubts += 1
            for name in model.fields:
                self.machine.store_plain(
                    held, name, Unknown((*undecided.needs, f"how a {held.cls.name} is made"))
                )

    def _before(self, model: Model, held: Instance, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        before = [v for v in model.of_models if v.mode == "before"]
        given: Any = ArgsKwargs(args, kwargs or None) if model.is_dataclass else kwargs
        for validator in reversed(before):
            given = self._model_call(validator, held, given)
        if isinstance(given, ArgsKwargs):
            args, kwargs = tuple(given.args or ()), dict(given.kwargs or {})
        elif isinstance(given, dict):
            args, kwargs = (), given
        elif isinstance(given, Unknown):
            for name in model.fields:
                self.machine.store_plain(held, name, Unknown(given.needs))
            return
        self._bind(model, held, args, kwargs)

    def _model_call(self, validator: Validator, held: Instance, given: Any) -> Any:
        machine = self.machine
        function = machine.bind(validator.function, held)
        extra = (Unknown(("validation info",)),) if validator.takes > 1 else ()
        return machine.call(function, (given, *extra), {})

    def _bind(self, model: Model, held: Instance, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        machine, name_of = self.machine, held.cls.name
        declared = {**model.fields, **model.init_vars}
        ordered = [declared[name] for name in model.order if name in declared]
        positional = [f for f in ordered if f.init and not f.kw_only]
        if len(args) > len(positional):
            refuse(f"{name_of}: too many positional arguments")
        given = {f.name: v for f, v in zip(positional, args, strict=False)}
        for name, value in kwargs.items():
            known = model.fields.get(name) or model.init_vars.get(name) or self._aliased(model, name)
            if known is None or not known.init:
                extra = model.config.get("extra", "ignore")
                if extra == "forbid" or (known is not None and model.is_dataclass):
                    refuse(f"{name_of}: {name}: Unexpected keyword argument")
                if extra == "allow":
                    machine.store_plain(held, name, value)
                continue
            given[known.name] = value
        late: list[Any] = []
        for field in (*model.fields.values(), *model.init_vars.values()):
            value = self._value(model, held, field, given)
            if field.name in model.init_vars:
                late.append(value)
            elif value is not MISSING:
                machine.store_plain(held, field.name, value)
        self._post(model, held, late)

    def _aliased(self, model: Model, name: str) -> Field | None:
        for field in model.fields.values():
            if isinstance(field.default, FieldInfo) and field.default.alias == name:
                return field
        return None

    def _value(self, model: Model, held: Instance, field: Field, given: dict[str, Any]) -> Any:
        if field.name in given:
            return self.checked(model, held.cls, field, given[field.name])
        default, factory = field.default, field.default_factory
        if isinstance(default, FieldInfo):
            default, factory = default.default, default.default_factory
        if default is not dataclasses.MISSING:
            made = self._own(default)
        elif factory is not dataclasses.MISSING and factory is not None:
            made = self.machine.call(factory, (), {})
        elif not field.init:
            return MISSING
        else:
            refuse(f"{held.cls.name}: {field.name}: Field required")
        info = field.default if isinstance(field.default, FieldInfo) else None
        if (info is not None and info.options.get("validate_default")) or model.config.get(
            "validate_default"
        ):
            return self.checked(model, held.cls, field, made)
        return made

    def _own(self, default: Any) -> Any:
        if isinstance(default, (list, dict, set, Instance)):
            return self.machine.call(self.machine.library["copy.deepcopy"], (default,), {})
        return default

    def _post(self, model: Model, held: Instance, late: list[Any]) -> None:
        name = "__post_init__" if model.is_dataclass else "model_post_init"
        post = held.cls.find(name)
        if not isinstance(post, (Function, Native)):
            return
        extra = late if model.is_dataclass else [None]
        with_errors(lambda: self.machine.call(self.machine.bind(post, held), tuple(extra), {}), held.cls.name)

    def _after(self, model: Model, held: Instance) -> None:
        for validator in model.of_models:
            if validator.mode == "after":
                bound = self.machine.bind(validator.function, held)
                with_errors(lambda bound=bound: self.machine.call(bound, (), {}), held.cls.name)  # type: ignore[misc]

    # --- values -----------------------------------------------------------------------------------

    def checked(self, model: Model, cls: GuestClass, field: Field, value: Any) -> Any:
        """Return what a value becomes that a field is given."""
        info = field.default if isinstance(field.default, FieldInfo) else None
        step: Handler = lambda v: convert(self, cls, self._type(cls, field), v, info)  # noqa: E731
        for validator in model.of_fields:
            if field.name in validator.names or "*" in validator.names:
                step = self._around(cls, validator, step)
        return with_errors(lambda: step(value), f"{cls.name}: {field.name}")

    def _type(self, cls: GuestClass, field: Field) -> Any:
        key = ("pydantic type", id(field))
        if key not in self.machine.store:
            self.machine.store[key] = field.type_of()
        return self.machine.store[key]

    def _around(self, cls: GuestClass, validator: Validator, step: Handler) -> Handler:
        machine = self.machine
        function = validator.function
        bound = (
            BoundMethod(function.get, cls, machine)
            if isinstance(function, Descriptor) and function.kind == "class"
            else function
        )
        bound = bound.get if isinstance(bound, Descriptor) else bound

        def run(value: Any) -> Any:
            wraps = validator.mode == "wrap"
            if validator.mode == "after":
                value = step(value)
            args = (value, Native("handler", step, machine)) if wraps else (value,)
            if validator.takes > len(args):
                args = (*args, Unknown(("validation info",)))
            found = machine.call(bound, args, {})
            return step(found) if validator.mode == "before" else found

        return run

    def nested(self, cls: GuestClass, value: Any) -> Any:
        """Return what a value becomes where an object of a class is wanted."""
        model = self.model_of(cls)
        if isinstance(value, Instance) and cls in value.cls.mro:
            own = self.model_of(value.cls)
            if model is not None and own is not None:
                self._after(model, value)
            return value
        if isinstance(value, dict):
            if model is None:
                return self.machine.instantiate(cls, (), dict(value))
            held = self.machine.blank(cls)
            before = [v for v in model.of_models if v.mode == "before"]
            given: Any = value
            for validator in reversed(before):
                given = self._model_call(validator, held, given)
            if isinstance(given, ArgsKwargs):
                self._bind(model, held, tuple(given.args or ()), dict(given.kwargs or {}))
            else:
                self._bind(model, held, (), given)
            self._after(model, held)
            return held
        return refuse(f"{cls.name}: input should be a dictionary or an instance of it")

    def _assigned(self, held: Instance, name: str, value: Any) -> Any:
        model = self.model_of(held.cls)
        field = model.fields.get(name) if model is not None else None
        return value if model is None or field is None else self.checked(model, held.cls, field, value)

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


def with_errors(way: Callable[[], Any], where: str) -> Any:
    """Do something; a `ValueError` or `AssertionError` of the source becomes pydantic's own."""
    try:
        return way()
    except GuestRaise as raised:
        value = raised.value
        if isinstance(value, ValidationError):
            raise
        kinds = value.cls.mro if isinstance(value, Instance) else type(value).__mro__
        wrapped = {ValueError: "Value error", AssertionError: "Assertion failed"}
        for kind, words in wrapped.items():
            if any(isinstance(k, type) and issubclass(k, kind) for k in kinds):
                text = "" if isinstance(value, Instance) and value.native is None else str(value)
                raised.value = ValidationError(f"{where}: {words}, {text}")
        raise


def _takes(function: Function) -> int:
    spec = function.machine.read_body(function).args
    return len(spec.posonlyargs) + len(spec.args)


def _is_init_var(field: Field) -> bool:
    import ast

    return field.annotation is not None and ast.unparse(field.annotation).startswith(
        ("InitVar", "dataclasses.InitVar")
    )
