"""Configurations as objects of the followed source: classes, attributes, and what deriving means."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tools.interpreter.library.model_classes import Release, table
from tools.interpreter.library.model_classes_made import Made
from tools.interpreter.library.model_classes_objects import FAILURES, MARK, NEED, Objects
from tools.interpreter.library.model_classes_run import Evaluator
from tools.interpreter.records import Field
from tools.interpreter.values import (
    MISSING,
    Function,
    GuestClass,
    GuestRaise,
    Instance,
    Undecided,
    Unknown,
    unknown_of,
)

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine


class Configurations(Objects):
    """Let the rules of the table make and change objects of the source."""

    def made(self, kinds: list[str], values: dict[str, Any]) -> Any:
        """Return the configuration that each release's class makes of values, as one object."""
        found = []
        for evaluator, kind in zip(self.evaluators, kinds, strict=True):
            try:
                found.append(evaluator.make(kind, self.frozen(values, {})))
            except (*FAILURES, Undecided):
                self.machine.doubts += 1
                # Several releases may be installed: its version is what a person can tell.
                several = ("package.transformers",) if len(self.evaluators) > 1 else ()
                return Unknown((*several, f"what {kind} makes of the configuration"))
        return self.joined(found)

    def initialise(
        self,
        held: Instance,
        kind: str,
        args: tuple[Any, ...],
        values: dict[str, Any],
        owner: GuestClass | None = None,
    ) -> None:
        """Do what the ``__init__`` of a class does to an object."""
        if args and self.newest.dataclasses:
            raise GuestRaise(ValueError(f"{kind} accepts only keyword arguments"))
        post = held.cls.find("__post_init__")
        own_post = self.newest.dataclasses and isinstance(post, Function)
        defaults = self._defaults(owner) if owner is not None else {}
        rest: list[dict[str, Any]] = []

        def run(evaluator: Evaluator, made: Made, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            made.own["fields"] = dict.fromkeys(defaults)
            if args:
                init = evaluator.release.parameters(kind)[1:]
                named = {**dict(zip(init, given, strict=False)), **named}
            evaluator.initialise(made, kind, {**defaults, **named}, rest.append if own_post else None)

        self._apply(held, run, args, values)
        if own_post:
            extra = self.thawed(rest[-1]) if rest else {}
            self.machine.call(self.machine.bind(post, held), (), extra)

    def _defaults(self, owner: GuestClass) -> dict[str, Any]:
        """Return the fields that classes of the source declare, with their defaults."""
        found: dict[str, Any] = {}
        for cls in reversed(self._guests(owner)):
            for name, annotation in (cls.namespace.get("__annotations__") or {}).items():
                if "ClassVar" in (
                    ast.unparse(annotation) if isinstance(annotation, ast.AST) else str(annotation)
                ):
                    continue
                value = self.machine.forced(cls.namespace, name)
                if isinstance(value, Field):
                    made = value.default_factory
                    if value.default is not dataclasses.MISSING:
                        value = value.default
                    else:
                        value = (
                            self.machine.call(made, (), {}) if made is not dataclasses.MISSING else MISSING
                        )
                found[name] = Unknown((f"{cls.name}.{name}",)) if value is MISSING else value
        return found

    def _post(self, held: Instance, kind: str, args: tuple[Any, ...], values: dict[str, Any]) -> None:
        def run(evaluator: Evaluator, made: Made, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            evaluator.from_class(made, kind, "__post_init__", given, named)

        self._apply(held, run, args, values)

    def method(self, held: Any, name: str, args: tuple[Any, ...], values: dict[str, Any]) -> Any:
        """Call a method of a configuration."""
        if not isinstance(held, Instance):
            return unknown_of(held, need=f"{name}()")
        found: list[Any] = []

        def run(evaluator: Evaluator, made: Made, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            found.append(evaluator.method(made, name, given, named))

        if name == "get_text_config" and not args and not values:
            return self._text(held)
        self._apply(held, run, args, values)
        return self.joined(found) if found else Unknown((f"{name}() of a configuration",))

    def _text(self, held: Instance) -> Any:
        """Return the part of a configuration that is about text."""
        made = self.frozen(held, {}, copied=False)
        found = []
        for evaluator in self.evaluators:
            try:
                found.append(evaluator.method(made, "get_text_config"))
            except (*FAILURES, Undecided):
                found.append(Unknown((NEED,)))
        if all(isinstance(f, Made) and f.origin is found[-1].origin is not None for f in found):
            return found[-1].origin
        return unknown_of(*found, need="get_text_config()")

    def _get(self, held: Instance, name: str) -> Any:
        made = Made(self.kind_of(held.cls), dict(held.attrs))
        made.vague = self.machine.journal.tainted(held.attrs) or ()
        try:
            found = self.evaluators[-1].read(made, name)
        except FAILURES:
            raise GuestRaise(AttributeError(f"'{held.cls.name}' object has no attribute '{name}'")) from None
        return found if found is not MISSING else Unknown((f"{name} of a configuration",))

    def _set(self, held: Instance, name: str, value: Any) -> None:
        known: dict[int, Any] = {}
        made = self.frozen(held, known, copied=False)
        given = self.frozen(value, known, copied=False)
        try:
            self.evaluators[-1].write(made, name, given)
        except (*FAILURES, Undecided):
            self.machine.doubts += 1
            self.machine.journal.taint(held.attrs, (f"{name} of a configuration",))
            return
        self._write(made)

    def _write(self, made: Made) -> None:
        """Bind what rules bound, in the object and those inside it."""
        held = made.origin
        for name, value in made.attrs.items():
            if isinstance(value, Made) and value.origin is held.attrs.get(name):
                self._write(value)
            elif held.attrs.get(name, MISSING) is not value:
                self.machine.journal.set(held.attrs, name, self.thawed(value))

    def _apply(
        self, held: Instance, run: Callable[..., None], args: tuple[Any, ...], values: dict[str, Any]
    ) -> None:
        mades: list[Made] = []
        for evaluator in self.evaluators:
            known: dict[int, Any] = {}
            made = self.frozen(held, known)
            try:
                given = tuple(self.frozen(a, known) for a in args)
                run(evaluator, made, given, {n: self.frozen(v, known) for n, v in values.items()})
            except (*FAILURES, Undecided):
                self.machine.doubts += 1
                self.machine.journal.taint(held.attrs, (f"what {made.kind} computes",))
                return
            mades.append(made)
        self.joined(mades)
        for name, value in mades[-1].late.items():
            self.machine.set_attribute(held, name, self.thawed(value))


def releases(machine: Machine) -> list[Release]:
    """Return the releases of the table that may be installed; none when it cannot be told."""
    known = table()
    if known is None:
        return []
    packages = machine.world.facts.packages or {}
    wanted = packages.get("transformers") or machine.world.required.get("transformers") or ""
    return known.releases(wanted) if wanted else []


__all__ = ["MARK", "Configurations", "releases"]
