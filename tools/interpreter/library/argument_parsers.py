"""``argparse.ArgumentParser`` as a class to derive from; a real parser reads the launch line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.library.command_line import ParserValue, Refused, new_parser
from tools.interpreter.values import (
    MISSING,
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

REAL: Final = " parser"
"""Under which an object keeps the parser that it stands for; unknown when other code had the object."""
_SHOWN: Final = ("prog", "usage", "description", "epilog", "formatter_class", "title")


def install(machine: Machine) -> None:
    """Add the parser and its groups as classes."""
    own = Parsers(machine)
    parser = _class(machine, "ArgumentParser")
    group = _class(machine, "_ArgumentGroup")
    for name in (
        "add_argument",
        "add_argument_group",
        "add_mutually_exclusive_group",
        "set_defaults",
        "get_default",
    ):
        run = getattr(own, name)
        for cls in (parser, group):
            cls.namespace[name] = Native(name, run, machine)
    for name in ("init", "parse_args", "parse_known_args", "error", "exit", "register", "add_subparsers"):
        parser.namespace["__init__" if name == "init" else name] = Native(name, getattr(own, name), machine)
    for name in ("print_help", "print_usage", "format_help", "format_usage", "_get_formatter"):
        parser.namespace[name] = Native(
            name, lambda held, *a, name=name, **k: unknown_of(need="the help text"), machine
        )
    parser.namespace["__getattr__"] = group.namespace["__getattr__"] = Native(
        "__getattr__", own.hidden, machine
    )
    group.namespace["__init__"] = Native("__init__", own.init_group, machine)
    own.parser, own.group = parser, group
    machine.library["argparse.ArgumentParser"] = parser
    machine.library["argparse._ArgumentGroup"] = group
    machine.library["argparse._SubParsersAction"] = Marker("argparse._SubParsersAction")
    machine.library["argparse.BooleanOptionalAction"] = Marker("argparse.BooleanOptionalAction")
    machine.library["argparse.BooleanOptionalAction.__init__"] = Native("__init__", own.init_switch, machine)
    machine.library["argparse.BooleanOptionalAction.__call__"] = Native("__call__", own.call_switch, machine)
    machine.kinds["argparse.BooleanOptionalAction"] = _switch_kind


def _class(machine: Machine, name: str) -> GuestClass:
    cls = GuestClass(name, (), {}, machine, "argparse")
    cls.record_is_own = False  # type: ignore[attr-defined]
    return cls


def _switch_kind(cls: GuestClass, options: dict[str, Any]) -> None:
    for name in ("__init__", "__call__"):
        if cls.find(name) is MISSING:
            cls.namespace[name] = cls.machine.library[f"argparse.BooleanOptionalAction.{name}"]


class Parsers:
    """Do what the methods of parsers and groups do."""

    parser: GuestClass
    group: GuestClass

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def real(self, held: Any) -> ParserValue:
        """Return the parser that an object stands for."""
        found = held.attrs.get(REAL) if isinstance(held, Instance) else held
        if isinstance(found, Unknown):
            raise Undecided(found.needs or ("what was done to the parser",))
        if not isinstance(found, ParserValue):
            raise GuestRaise(AttributeError("the parser was not initialised"))
        return found

    def init(self, held: Instance, *args: Any, **options: Any) -> None:
        """Make a parser."""
        made = new_parser(self.machine, options)
        made.guest = held
        self.machine.journal.set(held.attrs, REAL, made)
        for name in _SHOWN:
            self.machine.journal.set(
                held.attrs, name, options.get(name) or ("server" if name == "prog" else None)
            )

    def init_group(self, held: Instance, container: Any, *args: Any, **options: Any) -> None:
        """Make a group of a parser."""
        made = self.real(container).call("add_argument_group", (), {})
        made.substitutes = self.real(container).substitutes
        self.machine.journal.set(held.attrs, REAL, made)

    def add_argument(self, held: Any, *names: Any, **options: Any) -> Any:
        """Declare an option."""
        found = self.real(held).call("add_argument", names, options)
        guest = getattr(found, "guest", None)
        return guest if isinstance(guest, Instance) else found

    def _grouped(self, held: Any, method: str, options: dict[str, Any]) -> Instance:
        made = Instance(self.group)
        found = self.real(held).call(method, (), options)
        found.substitutes = self.real(held).substitutes
        made.attrs[REAL] = found
        return made

    def add_argument_group(self, held: Any, *args: Any, **options: Any) -> Instance:
        """Make a group of options."""
        return self._grouped(held, "add_argument_group", {})

    def add_mutually_exclusive_group(self, held: Any, **options: Any) -> Instance:
        """Make a group of which one option may be given."""
        return self._grouped(held, "add_mutually_exclusive_group", options)

    def set_defaults(self, held: Any, **values: Any) -> None:
        """Set defaults."""
        self.real(held).call("set_defaults", (), values)

    def get_default(self, held: Any, name: Any) -> Any:
        """Return a default."""
        return self.real(held).call("get_default", (name,), {})

    def register(self, held: Any, registry: Any, value: Any, substitute: Any) -> None:
        """Let one kind of action stand for another."""
        if registry == "action":
            self.real(held).substitutes[value] = substitute

    def add_subparsers(self, held: Any, **options: Any) -> Any:
        """Make no parsers of commands."""
        return unknown_of(need="ArgumentParser.add_subparsers()")

    def parse_args(self, held: Instance, args: Any = None, namespace: Any = None) -> Any:
        """Read the launch line; what is left over is an error."""
        machine = self.machine
        found = machine.call(machine.get_attribute(held, "parse_known_args"), (args, namespace), {})
        if isinstance(found, Unknown):
            return found
        result, rest = found
        if rest:
            words = " ".join(str(w) for w in rest)
            machine.call(machine.get_attribute(held, "error"), (f"unrecognized arguments: {words}",), {})
        return result

    def parse_known_args(self, held: Instance, args: Any = None, namespace: Any = None) -> Any:
        """Read the launch line."""
        parser = self.real(held)
        words = list(self.machine.world.argv) if args is None else args
        if isinstance(words, Unknown) or any(isinstance(w, Unknown) for w in words):
            return unknown_of(words, *(words if isinstance(words, list) else ()))
        try:
            found = parser.real.parse_known_args(list(words), namespace)
            keep = self.machine.store.get("parsed")
            if keep is not None:
                keep(vars(found[0]))
            return found
        except Refused as refused:
            error = self.machine.get_attribute(held, "error")
            self.machine.call(error, (str(refused),), {})
            raise GuestRaise(SystemExit(str(refused))) from None

    def error(self, held: Instance, message: Any) -> None:
        """Refuse the launch line."""
        self.real(held).call("error", (message,), {})

    def exit(self, held: Instance, *args: Any, **options: Any) -> None:
        """End."""
        self.real(held).call("exit", args, options)

    def hidden(self, held: Instance, name: Any) -> Any:
        """Return what the real parser keeps for itself."""
        real = self.real(held).real
        if name == "_option_string_actions":
            return dict(real._option_string_actions)
        if name in ("_actions", "_action_groups", "_mutually_exclusive_groups", "_group_actions"):
            return list(getattr(real, name, ()))
        if name in ("_subparsers", "_defaults", "_registries"):
            return getattr(real, name, None)
        raise GuestRaise(AttributeError(str(name)))

    # --- switches ---------------------------------------------------------------------------------

    def init_switch(
        self, held: Instance, option_strings: Any, dest: Any, default: Any = None, **options: Any
    ) -> None:
        """Prepare an action that has a negative form of each of its options."""
        real = argparse.BooleanOptionalAction(list(option_strings), dest, default=default)
        values = {
            "option_strings": list(real.option_strings),
            "dest": dest,
            "nargs": 0,
            "const": None,
            "default": default,
            "type": options.get("type"),
            "choices": options.get("choices"),
            "required": options.get("required", False),
            "help": None,
            "metavar": None,
        }
        for name, value in values.items():
            self.machine.journal.set(held.attrs, name, value)

    def call_switch(
        self, held: Instance, parser: Any, namespace: Any, values: Any, option: Any = None
    ) -> None:
        """Set a switch."""
        if option in held.attrs["option_strings"]:
            name = held.attrs["dest"]
            self.machine.set_attribute(namespace, name, not option.startswith("--no-"))
