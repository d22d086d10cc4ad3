"""Configuration classes as the source sees them, and their objects on either side."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.journal import same
from tools.interpreter.library.model_classes import Release
from tools.interpreter.library.model_classes_made import ClassOf, Made, Refused
from tools.interpreter.library.model_classes_run import Evaluator
from tools.interpreter.values import (
    MISSING,
    BoundMethod,
    Descriptor,
    Function,
    GuestClass,
    Instance,
    Marker,
    Native,
    Unknown,
)

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

MARK: Final = "transformers.PretrainedConfig"
NEED: Final = "the installed version of transformers"
FAILURES: Final = (
    Refused,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    ArithmeticError,
    RecursionError,
)
_OWN: Final = frozenset({"__init__", "__post_init__", "get_text_config", "to_dict", "update"})


class Objects:
    """Make classes and objects of the configurations that the releases in question know."""

    initialise: Callable[..., Any]
    method: Callable[..., Any]
    _post: Callable[..., Any]
    _get: Callable[..., Any]
    _set: Callable[..., Any]

    def __init__(
        self, machine: Machine, releases: list[Release], methods: Callable[[str], dict[str, Any]]
    ) -> None:
        self.machine = machine
        self.evaluators = [Evaluator(release) for release in releases]
        self.newest = releases[-1]
        self._methods = methods
        self._classes: dict[str, GuestClass] = {}
        machine.kinds[MARK] = self._derived

    # --- classes ----------------------------------------------------------------------------------

    def cls(self, kind: str) -> GuestClass:
        """Return a class."""
        if kind not in self._classes:
            record = self.newest.record(kind)
            bases: list[Any] = [
                self.cls(base) for base in record.get("bases", ()) if base in self.newest.classes
            ]
            if kind == self.newest.base:
                bases.append(Marker(MARK))
            made = GuestClass(kind, tuple(bases), {}, self.machine, f"transformers.{record.get('in', '')}")
            made.record_is_own = False  # type: ignore[attr-defined]
            self._classes[kind] = made
            made.namespace.update(self._namespace(kind, made))
        return self._classes[kind]

    def _namespace(self, kind: str, made: GuestClass) -> dict[str, Any]:
        record, evaluator = self.newest.record(kind), self.evaluators[-1]
        names: dict[str, Any] = dict.fromkeys(record.get("also", ()), Unknown((f"a method of {kind}",)))
        for part in ("fields", "constants"):
            for name, rule in record.get(part, {}).items():
                names[name] = self.thawed(evaluator.value(rule, {" at": kind}))
        for name in record.get("methods", {}):
            if name not in ("__init__", "__post_init__"):
                names[name] = self._native(
                    name, lambda held, *a, _name=name, **k: self.method(held, _name, a, k)
                )
        for name in record.get("properties", {}):
            names[name] = self._accessor(name)
        renames = names.get("attribute_map")
        names.update(self.aliases(renames if isinstance(renames, dict) else {}))
        if self.newest.is_configuration(kind):
            names["__init__"] = self._native(
                "__init__", lambda held, *a, **k: self.initialise(held, kind, a, k)
            )
            if "__post_init__" in record.get("methods", {}):
                names["__post_init__"] = self._native(
                    "__post_init__", lambda held, *a, **k: self._post(held, kind, a, k)
                )
        if kind == self.newest.base:
            names.update(self._methods(kind))
        return names

    def aliases(self, renames: dict[str, Any]) -> dict[str, Descriptor]:
        """Return the properties that stand for other names of attributes."""
        machine = self.machine
        return {
            name: Descriptor(
                "property",
                self._native(name, lambda held, _to=target: machine.get_attribute(held, _to)),
                self._native(name, lambda held, value, _to=target: machine.set_attribute(held, _to, value)),
            )
            for name, target in renames.items()
            if isinstance(target, str) and name != target
        }

    def _native(self, name: str, run: Callable[..., Any]) -> Native:
        return Native(name, run, self.machine)

    def _accessor(self, name: str) -> Descriptor:
        return Descriptor(
            "property",
            self._native(name, lambda held: self._get(held, name)),
            self._native(name, lambda held, value: self._set(held, name, value)),
        )

    def _derived(self, cls: GuestClass, options: dict[str, Any]) -> None:
        """Make a class of the source that derives from a configuration what its base makes of it."""
        renames = cls.namespace.get("attribute_map")
        if isinstance(renames, dict):
            cls.namespace.update({n: d for n, d in self.aliases(renames).items() if n not in cls.namespace})
        if self.newest.dataclasses and "__init__" not in cls.namespace:
            kind = self.kind_of(cls)
            cls.namespace["__init__"] = self._native(
                "__init__", lambda held, *a, **k: self.initialise(held, kind, a, k, cls)
            )

    def kind_of(self, cls: GuestClass) -> str:
        """Return the class of the table that a class is or derives from, or nothing."""
        for one in cls.mro:
            if isinstance(one, GuestClass) and self._classes.get(one.name) is one:
                return one.name
        return ""

    def _guests(self, cls: GuestClass) -> list[GuestClass]:
        return [c for c in cls.mro if isinstance(c, GuestClass) and self._classes.get(c.name) is not c]

    # --- between objects of the source and of the rules -------------------------------------------

    def frozen(self, value: Any, known: dict[int, Any], *, copied: bool = True) -> Any:
        """Return a value for the rules: configurations as such, lists and dicts copied."""
        if isinstance(value, Instance) and (kind := self.kind_of(value.cls)):
            if id(value) not in known:
                known[id(value)] = made = Made(kind)
                made.origin = value
                made.attrs = {n: self.frozen(v, known, copied=copied) for n, v in value.attrs.items()}
                made.vague = self.machine.journal.tainted(value.attrs) or ()
                self._own(made, value.cls)
            return known[id(value)]
        if isinstance(value, GuestClass) and self._classes.get(value.name) is value:
            return ClassOf(value.name)
        if isinstance(value, (list, dict)) and self.machine.journal.tainted(value):
            return Unknown(self.machine.journal.tainted(value) or ())
        if not copied:
            return value
        if type(value) in (list, tuple):
            return type(value)(self.frozen(v, known) for v in value)
        return {k: self.frozen(v, known) for k, v in value.items()} if type(value) is dict else value

    def _own(self, made: Made, cls: GuestClass) -> None:
        ruled = {
            n for c in self.newest.order(made.kind) for n in self.newest.record(c).get("methods", {})
        } - _OWN
        for one in reversed(self._guests(cls)):
            for name, value in one.namespace.items():
                if isinstance(value, Descriptor):
                    if value.kind == "property" and isinstance(value.get, Function):
                        made.own.setdefault("properties", set()).add(name)
                elif isinstance(value, (Function, Native)):
                    if name in ruled:
                        made.vague = (f"{one.name}.{name}()",)
                elif not name.startswith("__") and not isinstance(value, (GuestClass, BoundMethod)):
                    made.own[name] = self.frozen(self.machine.forced(one.namespace, name), {})

    def thawed(self, value: Any) -> Any:
        """Return a value of the rules for the source."""
        if isinstance(value, Made):
            return self.joined([value])
        if isinstance(value, ClassOf):
            return self.cls(value.kind) if value.kind in self.newest.classes else Unknown((value.kind,))
        if isinstance(value, list):
            return [self.thawed(v) for v in value]
        if isinstance(value, dict):
            return {k: self.thawed(v) for k, v in value.items()}
        return tuple(self.thawed(v) for v in value) if type(value) is tuple else value

    def joined(self, values: list[Any]) -> Any:
        """Return what stands for the values that several releases come to."""
        last = values[-1]
        if all(isinstance(v, Made) for v in values):
            return self._object(values)
        if len(values) == 1 or all(same(_bare(v), _bare(last)) for v in values[:-1]):
            return self.thawed(last)
        return Unknown((NEED,))

    def _object(self, mades: list[Made]) -> Instance:
        last = mades[-1]
        held = last.origin if isinstance(last.origin, Instance) else Instance(self.cls(last.kind))
        vague = next((m.vague for m in mades if m.vague), ())
        attrs = {name: self._joined_attribute(mades, name) for name in last.attrs}
        if vague:
            attrs = {n: v for n, v in attrs.items() if not isinstance(v, Unknown)}
        for name in [n for n in held.attrs if n not in attrs]:
            self.machine.journal.set(held.attrs, name, MISSING)
        for name, value in attrs.items():
            if held.attrs.get(name, MISSING) is not value:
                self.machine.journal.set(held.attrs, name, value)
        special = self._doubted(mades)
        if vague:
            special |= {n: Unknown(vague) for n in self.newest.fields(last.kind) if n not in attrs}
            special["__getattr__"] = self._native(
                "__getattr__", lambda held, name, _needs=vague: Unknown(_needs)
            )
            self.machine.journal.taint(held.attrs, vague)
        special.update(self._redirected(last, held))
        if special:
            own = held.cls
            held.cls = GuestClass(own.name, (own,), special, self.machine, own.module)
            held.cls.record_is_own = False  # type: ignore[attr-defined]
        return held

    def _joined_attribute(self, mades: list[Made], name: str) -> Any:
        if len(mades) == 1:
            return self.thawed(mades[0].attrs[name])
        values = [self._read(n, made, name) for n, made in enumerate(mades)]
        return Unknown((NEED,)) if any(v is MISSING for v in values) else self.joined(values)

    def _read(self, position: int, made: Made, name: str) -> Any:
        view = Made(made.kind, dict(made.attrs))
        view.own, view.vague = made.own, made.vague
        try:
            return self.evaluators[position].read(view, name)
        except FAILURES:
            return MISSING

    def _doubted(self, mades: list[Made]) -> dict[str, Any]:
        """Return the names that mean something else, or nothing, to some of several releases."""
        if len(mades) == 1:
            return {}
        names = {n for p, m in enumerate(mades) for n in self._visible(p, m)} - mades[-1].attrs.keys()
        doubted = {}
        for name in names:
            values = [self._read(p, m, name) for p, m in enumerate(mades)]
            if not all(v is values[-1] or same(_bare(v), _bare(values[-1])) for v in values):
                doubted[name] = Unknown((NEED,))
        return doubted

    def _visible(self, position: int, made: Made) -> set[str]:
        release = self.evaluators[position].release
        records = [release.record(kind) for kind in release.order(made.kind)]
        names = {
            n for r in records for part in ("fields", "constants", "properties") for n in r.get(part, {})
        }
        renames = release.constant(made.kind, "attribute_map", self.evaluators[position])
        return names | made.attrs.keys() | (renames.keys() if isinstance(renames, dict) else set())

    def _redirected(self, made: Made, held: Instance) -> dict[str, Any]:
        """Return the properties of a configuration whose inner one answers for it."""
        kept = self.newest.record(made.kind).get("delegates")
        inner = held.attrs.get("text_config")
        if kept is None or not isinstance(inner, Instance):
            return {}
        machine = self.machine
        return {
            name: Descriptor(
                "property",
                self._native(
                    name, lambda held, _n=name: machine.get_attribute(held.attrs["text_config"], _n)
                ),
                self._native(
                    name,
                    lambda held, value, _n=name: machine.set_attribute(held.attrs["text_config"], _n, value),
                ),
            )
            for name in inner.attrs
            if name not in kept
        }


def _bare(value: Any) -> Any:
    """Return a value with configurations in it as plain data, to compare it."""
    if isinstance(value, Made):
        return {"": value.kind, **{n: _bare(v) for n, v in value.attrs.items()}}
    if isinstance(value, ClassOf):
        return value.kind
    if isinstance(value, dict):
        return {k: _bare(v) for k, v in value.items()}
    return type(value)(_bare(v) for v in value) if type(value) in (list, tuple) else value
