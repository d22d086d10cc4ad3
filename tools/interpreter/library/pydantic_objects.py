"""Objects of pydantic classes: validators before and after, coercion, nested models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tools.interpreter.library.pydantic_types import (
    FieldInfo,
    ValidationError,
    convert,
    refuse,
)
from tools.interpreter.records import Field
from tools.interpreter.values import (
    MISSING,
    BoundMethod,
    Descriptor,
    Function,
    GuestClass,
    GuestRaise,
    Instance,
    Native,
    Undecided,
    Unknown,
)

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

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


class PydanticObjects:
    """Make objects and check what they are given."""

    machine: Machine
    models: dict[int, Model]

    def model_of(self, cls: Any) -> Model | None:
        """Return how objects of a class are made."""
        raise NotImplementedError

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
