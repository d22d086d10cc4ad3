"""The built-in functions and types."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.module import ModuleValue
from tools.interpreter.operators import DTYPES, natively, plain
from tools.interpreter.values import (
    MISSING,
    Descriptor,
    External,
    Function,
    GuestClass,
    GuestRaise,
    Instance,
    Native,
    Undecided,
    Unknown,
    holed,
    unknown_of,
)

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_TYPES: Final = (
    bool,
    bytearray,
    bytes,
    complex,
    dict,
    float,
    frozenset,
    int,
    list,
    object,
    range,
    set,
    slice,
    str,
    tuple,
    enumerate,
    filter,
    map,
    reversed,
    zip,
    memoryview,
)
_PURE: Final = ("abs", "bin", "chr", "divmod", "hash", "hex", "oct", "ord", "pow", "round", "ascii", "next")
_CONSTANTS: Final = {
    "True": True,
    "False": False,
    "None": None,
    "Ellipsis": ...,
    "NotImplemented": NotImplemented,
    "__debug__": True,
    "__name__": "builtins",
}


def install(machine: Machine) -> None:
    """Add the built-ins."""
    add = machine.library
    for name, value in _CONSTANTS.items():
        add[f"builtins.{name}"] = value
    for kind in _TYPES:
        add[f"builtins.{kind.__name__}"] = kind
    for name, value in vars(builtins).items():
        if isinstance(value, type) and issubclass(value, BaseException):
            add[f"builtins.{name}"] = value
    for name in _PURE:
        add[f"builtins.{name}"] = Native(name, getattr(builtins, name), machine, raw=False)
    own = Builtins(machine)
    for name in dir(own):
        if name.startswith("do_"):
            add[f"builtins.{name[3:]}"] = Native(name[3:], getattr(own, name), machine)
    add["builtins.property"] = Native("property", own.make_property, machine)
    for name, word in (("staticmethod", "static"), ("classmethod", "class")):
        add[f"builtins.{name}"] = Native(name, lambda f, word=word: Descriptor(word, f), machine)


class Builtins:
    """Hold the built-in functions that must know the values of the source."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def make_property(self, get: Any = None, put: Any = None, *rest: Any, **named: Any) -> Descriptor:
        """Make a property."""
        return Descriptor("property", get or named.get("fget"), put or named.get("fset"))

    def do_len(self, value: Any) -> Any:
        """Return how many items a value has."""
        needs = self.machine.journal.tainted(value) if isinstance(value, (list, dict, set)) else None
        if needs is not None or isinstance(value, (Unknown, External)):
            return unknown_of(value, need=needs[0] if needs else "")
        if isinstance(value, (list, tuple, dict)) and (hole := holed(value)) is not None:
            return Unknown(hole.needs)
        return natively(len, value)

    def do_isinstance(self, value: Any, cls: Any) -> Any:
        """Tell whether a value is of a class."""
        return self.machine.is_instance(value, cls)

    def do_issubclass(self, value: Any, cls: Any) -> Any:
        """Tell whether a class derives from another."""
        return self.machine.subclass_of(value, cls)

    def do_callable(self, value: Any) -> Any:
        """Tell whether a value can be called."""
        if isinstance(value, (Unknown, External)):
            return unknown_of(value, need="callable()")
        if isinstance(value, Instance):
            return value.cls.find("__call__") is not MISSING
        return callable(value)

    def do_type(self, value: Any, *rest: Any) -> Any:
        """Return the class of a value, or make one of its parts."""
        if rest:
            return self._made(value, *rest)
        if isinstance(value, Instance):
            return value.cls
        if isinstance(value, (Unknown, External, ModuleValue, Function)):
            return unknown_of(value, need="type()")
        return type if isinstance(value, GuestClass) else type(value)

    def _made(self, name: Any, bases: Any = (), namespace: Any = None, *rest: Any) -> Any:
        if not isinstance(name, str) or not isinstance(bases, tuple) or not isinstance(namespace, dict):
            return unknown_of(need="type()")
        return self.machine.class_of(name, list(bases), dict(namespace), {})

    def do_super(self, *args: Any) -> Any:
        """Return what ``super()`` gives."""
        return self.machine.parent_of(self.machine.frame, args)

    def do_getattr(self, held: Any, name: Any, *default: Any) -> Any:
        """Return an attribute by name."""
        if not isinstance(name, str):
            return unknown_of(held, name)
        try:
            found = self.machine.find(held, name)
        except GuestRaise as raised:
            if default and isinstance(raised.value, AttributeError):
                return default[0]
            raise
        if self.machine.leaves is not None and isinstance(held, Instance) and found is not MISSING:
            self.machine.leaves.append((name, found))
        if found is MISSING:
            if default:
                return default[0]
            return self.machine.get_attribute(held, name)
        if default and isinstance(held, External) and type(found) is External and found.path not in DTYPES:
            return Unknown((found.path,))
        return found

    def do_hasattr(self, held: Any, name: Any) -> Any:
        """Tell whether an attribute exists."""
        if not isinstance(name, str) or isinstance(held, Unknown):
            return unknown_of(held, name)
        try:
            found = self.machine.find(held, name)
        except GuestRaise as raised:
            if isinstance(raised.value, AttributeError):
                return False
            raise
        if isinstance(held, Instance) and name in held.attrs:
            return True
        if isinstance(held, External):
            answer = self.machine.library.get(f"{held.path}.{name}?")
            if answer is not None:
                return answer()
            known = isinstance(found, External) and f"{held.path}.{name}" not in self.machine.library
            return Unknown((f"whether {held.path} has {name}",)) if known else True
        return Unknown(found.needs) if isinstance(found, Unknown) else found is not MISSING

    def do_setattr(self, held: Any, name: Any, value: Any) -> None:
        """Bind an attribute by name."""
        if isinstance(name, Unknown):
            if isinstance(held, Instance):
                for known in list(held.attrs):
                    self.machine.store_attribute(held, known, unknown_of(held.attrs[known], name))
            return
        self.machine.set_attribute(held, name, value, self.machine.node)

    def do_delattr(self, held: Any, name: Any) -> None:
        """Remove an attribute by name."""
        if isinstance(held, Instance) and isinstance(name, str):
            self.machine.journal.set(held.attrs, name, MISSING)

    def do_vars(self, *held: Any) -> Any:
        """Return the attributes of an object as a dict."""
        if held and isinstance(held[0], Instance):
            return held[0].attrs
        if held and isinstance(held[0], GuestClass):
            return held[0].namespace
        return (
            vars(held[0])
            if held and type(held[0]).__name__ in ("Namespace", "SimpleNamespace")
            else unknown_of(need="vars()")
        )

    def do_dir(self, *held: Any) -> Any:
        """Return the names of an object."""
        if held and isinstance(held[0], Instance):
            classes = [c for c in held[0].cls.mro if isinstance(c, GuestClass)]
            return sorted({*held[0].attrs, *(n for c in classes for n in c.namespace)})
        if held and isinstance(held[0], GuestClass):
            return sorted(
                {
                    n
                    for c in held[0].mro
                    if isinstance(c, GuestClass)
                    for n in (*c.namespace, *(c.members or {}))
                }
            )
        return unknown_of(need="dir()")

    def do_globals(self) -> Any:
        """Return the names of the current module."""
        return self.machine.frame.module.globals

    def do_locals(self) -> Any:
        """Return the names of the current call."""
        return dict(self.machine.frame.names)

    def do_id(self, value: Any) -> Any:
        """Return an identity that is never the same twice."""
        return unknown_of(need="id()")

    def do_print(self, *args: Any, **kwargs: Any) -> None:
        """Print nothing."""

    def do_input(self, *args: Any) -> Any:
        """Read nothing."""
        return unknown_of(need="input()")

    def do_repr(self, value: Any) -> Any:
        """Return the text of a value."""
        if isinstance(value, (Function, GuestClass, External, ModuleValue, Unknown)):
            return unknown_of(value, need="repr()")
        if isinstance(value, Instance):
            found = value.cls.find("__repr__")
            if isinstance(found, Function):
                return self.machine.call(self.machine.bind(found, value), (), {})
            if value.native is None or value.cls.members is not None:
                return unknown_of(need="repr()")
        return natively(repr, plain(value))

    def do_iter(self, value: Any, *rest: Any) -> Any:
        """Return an iterator."""
        return self.machine.iterate(value) if not rest else unknown_of(need="iter()")

    def do_any(self, values: Any) -> Any:
        """Tell whether one value is true."""
        return self._some(values, stop=True)

    def do_all(self, values: Any) -> Any:
        """Tell whether every value is true."""
        return self._some(values, stop=False)

    def _some(self, values: Any, *, stop: bool) -> Any:
        found = self.machine.iterate(values)
        if isinstance(found, Unknown):
            return found
        doubt: Unknown | None = None
        try:
            for value in found:
                truth = self.machine.truth_of(value)
                if isinstance(truth, Unknown):
                    doubt = Unknown(truth.needs)
                elif truth is stop:
                    return stop
        except Undecided as undecided:
            return Unknown(undecided.needs)
        return doubt if doubt is not None else not stop

    def do_sum(self, values: Any, *start: Any) -> Any:
        """Add values up."""
        return self._folded(sum, values, *start)

    def do_sorted(self, values: Any, **options: Any) -> Any:
        """Return values in order."""
        return self._folded(sorted, values, **options)

    def do_min(self, *values: Any, **options: Any) -> Any:
        """Return the least value."""
        return self._extreme(min, values, options)

    def do_max(self, *values: Any, **options: Any) -> Any:
        """Return the greatest value."""
        return self._extreme(max, values, options)

    def _extreme(self, function: Any, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if len(values) == 1:
            return self._folded(function, values[0], **options)
        if any(isinstance(v, Unknown) for v in values):
            return unknown_of(*values)
        return natively(lambda: function(*map(plain, values), **options))

    def _folded(self, function: Any, values: Any, *args: Any, **options: Any) -> Any:
        found = self.machine.iterate(values)
        if isinstance(found, Unknown):
            return found
        return natively(lambda: function(found, *args, **options))

    def do_open(self, path: Any, mode: Any = "r", *rest: Any, **options: Any) -> Any:
        """Read a file of the host, if it can be read."""
        from tools.interpreter.library.surroundings import opened

        return opened(self.machine, path, mode)

    def do___import__(self, name: Any, *rest: Any, **options: Any) -> Any:
        """Import a module by name."""
        return self.machine.call(self.machine.external("importlib.import_module"), (name,), {})

    def do_exec(self, *args: Any) -> Any:
        """Execute nothing."""
        return unknown_of(need="exec()")

    do_eval = do_compile = do_exec
