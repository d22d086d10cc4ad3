"""``argparse``: the real parser reads the launch line; types and actions of the source are followed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tools.interpreter.values import (
    MISSING,
    BoundMethod,
    External,
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

_ACTION = (
    "option_strings",
    "dest",
    "nargs",
    "const",
    "default",
    "type",
    "choices",
    "required",
    "help",
    "metavar",
)
_NAMED = ("ONE_OR_MORE", "ZERO_OR_MORE", "OPTIONAL", "REMAINDER", "SUPPRESS", "PARSER")


class Refused(Exception):
    """Say that the parser refuses the launch line, in its words."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise Refused(message)

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        raise Refused(message or "")

    def print_help(self, file: Any = None) -> None:
        raise Refused("it asks for the help text and starts nothing")


class ParserValue:
    """Stand for a parser (or a group of one): options are declared on a real parser."""

    def __init__(self, machine: Machine, real: Any) -> None:
        self.machine = machine
        self.real = real
        self.guest: Any = None
        """The object of the source that the parser is part of."""
        self.substitutes: dict[Any, Any] = {}
        """Actions that stand for others."""

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what a method of a parser does."""
        run = getattr(self, f"_{name}", None)
        return run(*args, **kwargs) if run is not None else unknown_of(need=f"ArgumentParser.{name}()")

    def _add_argument(self, *names: Any, **options: Any) -> Any:
        given = {
            k: v
            for k, v in options.items()
            if k not in ("help", "metavar", "deprecated") or v is argparse.SUPPRESS
        }
        given.pop("version", None)
        if isinstance(given.get("choices"), Unknown):
            del given["choices"]
        elif given.get("choices") is not None:
            given["choices"] = list(given["choices"])
        kind = given.get("type")
        if isinstance(kind, (Function, BoundMethod, Native, GuestClass, Instance)):
            given["type"] = self._type(kind)
        elif isinstance(kind, (Unknown, External)):
            given["type"] = lambda text, kind=kind: unknown_of(
                kind, need="" if isinstance(kind, Unknown) else repr(kind)
            )
        action = given.get("action")
        if isinstance(action, Marker):
            action = self.substitutes.get(action, getattr(argparse, action.path.partition(".")[2], None))
            given["action"] = action
        if isinstance(action, GuestClass):
            given["action"] = self._action(action)
        elif isinstance(action, (Unknown, External)):
            given.pop("action")
            given["type"] = lambda text: Unknown(("an argparse action that is not followed",))
        try:
            return self.real.add_argument(*names, **given)
        except argparse.ArgumentError as error:
            raise GuestRaise(error) from None

    def _type(self, function: Any) -> Any:
        def convert(text: str) -> Any:
            try:
                return self.machine.from_native(function, (text,), {})
            except Undecided as undecided:
                return Unknown(undecided.needs)
            except GuestRaise as raised:
                raise argparse.ArgumentTypeError(str(raised.value)) from None

        convert.__name__ = getattr(function, "name", "value")
        return convert

    def _action(self, cls: GuestClass) -> type[argparse.Action]:
        machine = self.machine

        class Bridge(argparse.Action):
            def __init__(self, option_strings: Any, dest: str, **options: Any) -> None:
                self.guest = machine.instantiate(
                    cls, (), {"option_strings": option_strings, "dest": dest, **options}
                )
                known = {n: self.guest.attrs[n] for n in _ACTION if n in self.guest.attrs}
                super().__init__(**{"option_strings": option_strings, "dest": dest, **known})

            def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
                method = machine.get_attribute(self.guest, "__call__")
                machine.call(method, (ParserValue(machine, parser), namespace, values, option_string), {})

        return Bridge

    def _add_argument_group(self, *args: Any, **options: Any) -> ParserValue:
        return ParserValue(self.machine, self.real.add_argument_group("group"))

    def _add_mutually_exclusive_group(self, required: bool = False, **options: Any) -> ParserValue:
        return ParserValue(self.machine, self.real.add_mutually_exclusive_group(required=required))

    def _set_defaults(self, **values: Any) -> None:
        self.real.set_defaults(**values)

    def _get_default(self, name: str) -> Any:
        return self.real.get_default(name)

    def _parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        return self._parsed(self.real.parse_args, args, namespace)

    def _parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return self._parsed(self.real.parse_known_args, args, namespace)

    def _parsed(self, parse: Any, args: Any, namespace: Any) -> Any:
        words = list(self.machine.world.argv) if args is None else args
        if isinstance(words, Unknown) or any(isinstance(w, Unknown) for w in words):
            return unknown_of(words, *(words if isinstance(words, list) else ()))
        try:
            found = parse(list(words), namespace)
            keep = self.machine.store.get("parsed")
            if keep is not None and isinstance(found, argparse.Namespace):
                keep(vars(found))
            return found
        except Refused as refused:
            self.machine.store["refused"] = str(refused)
            raise GuestRaise(SystemExit(str(refused))) from None

    def _error(self, message: Any) -> None:
        self.machine.store["refused"] = str(message)
        raise GuestRaise(SystemExit(str(message)))

    def _exit(self, *args: Any, **options: Any) -> None:
        raise GuestRaise(SystemExit(""))

    def _print_help(self, *args: Any) -> None:
        return None

    def _format_help(self) -> Any:
        return unknown_of(need="the help text")


def install(machine: Machine) -> None:
    """Add ``argparse``."""
    add = machine.library
    for name in _NAMED:
        add[f"argparse.{name}"] = getattr(argparse, name)
    for name in ("ArgumentTypeError", "ArgumentError", "Namespace"):
        add[f"argparse.{name}"] = getattr(argparse, name)
    for name in (
        "HelpFormatter",
        "RawDescriptionHelpFormatter",
        "ArgumentDefaultsHelpFormatter",
        "RawTextHelpFormatter",
    ):
        add[f"argparse.{name}"] = Marker(f"argparse.{name}")
    add["argparse.Action"] = Marker("argparse.Action")
    add["argparse.Action.__init__"] = Native(
        "__init__", lambda held, *a, **k: _bind_action(machine, held, a, k), machine
    )
    machine.kinds["argparse.Action"] = _action_kind


def new_parser(machine: Machine, options: dict[str, Any]) -> ParserValue:
    """Make a parser."""
    kept = {
        k: v
        for k, v in options.items()
        if k in ("allow_abbrev", "add_help", "argument_default", "prefix_chars")
    }
    return ParserValue(machine, _Parser(prog="server", **kept))


def _action_kind(cls: GuestClass, options: dict[str, Any]) -> None:
    """Let an action without an ``__init__`` of its own take what ``argparse`` gives it."""
    if cls.find("__init__") is MISSING:
        cls.namespace["__init__"] = cls.machine.library["argparse.Action.__init__"]


def _bind_action(machine: Machine, held: Instance, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    values = {"nargs": None, "const": None, "default": None, "type": None, "choices": None, "required": False,
              "help": None, "metavar": None, **dict(zip(_ACTION, args, strict=False)), **options}  # fmt: skip
    for name, value in values.items():
        machine.journal.set(held.attrs, name, value)
