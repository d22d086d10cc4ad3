"""Work out what a model's configuration class makes of its values, by the rules of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from tools.interpreter.library.model_classes import Release
from tools.interpreter.library.model_classes_made import ClassOf, Made, Refused
from tools.interpreter.library.model_classes_value import Rule, Values
from tools.interpreter.values import MISSING, External, Unknown, unknown_of

_MOST_STEPS: Final = 300_000


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Loop(Exception):
    def __init__(self, ends: bool) -> None:
        self.ends = ends


class Evaluator(Values):
    """Follow rules for one release of ``transformers``."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self._steps = 0

    # --- objects ----------------------------------------------------------------------------------

    def make(self, kind: str, values: dict[str, Any]) -> Made:
        """Return what a class makes of keyword arguments."""
        held = Made(kind)
        self.initialise(held, kind, values)
        return held

    def initialise(
        self, held: Made, kind: str, values: dict[str, Any], post: Callable[..., None] | None = None
    ) -> None:
        """Do what the ``__init__`` of a class does to an object of it, or of a class that derives from it."""
        odd = self.release.odd(kind)
        if odd:
            held.vague = (f"{kind} {odd}",)
            return
        at = next((c for c in self.release.order(kind) if self._has_init(c)), None)
        if at is None:
            raise Refused
        init = self.release.record(at).get("methods", {}).get("__init__")
        if init is not None:
            self.function(init, held, at, (), values)
        else:
            self._fields(held, at, values, post)
        if self.release.record(at).get("strict"):
            self.method(held, "validate_rope")

    def _has_init(self, kind: str) -> bool:
        return (
            self.release.dataclasses and self.release.is_configuration(kind)
        ) or "__init__" in self.release.record(kind).get("methods", {})

    def _fields(
        self, held: Made, kind: str, values: dict[str, Any], post: Callable[..., None] | None
    ) -> None:
        fields = {**self.release.fields(kind), **held.own.get("fields", {})}
        for name, rule in fields.items():
            value = values[name] if name in values else self.value(rule, {})
            self.write(held, name, value)
        rest = {n: v for n, v in values.items() if n not in fields}
        if post is not None:
            post(rest)
        else:
            self.method(held, "__post_init__", (), rest)

    def method(
        self, held: Made, name: str, args: tuple[Any, ...] = (), values: dict[str, Any] | None = None
    ) -> Any:
        """Call a method of a configuration."""
        found = self.found_method(self.release.order(held.kind), name)
        if found is None:
            if name == "to_dict":
                return self.plain(held)
            if name == "update" and args and isinstance(args[0], dict):
                for key, value in args[0].items():
                    self.write(held, key, value)
                return None
            if name in ("validate_rope", "__post_init__"):
                return None
            return unknown_of(need=f"{held.kind}.{name}()")
        return self.function(found[1], held, found[0], args, values or {})

    def from_class(
        self, held: Made, kind: str, name: str, args: tuple[Any, ...], values: dict[str, Any]
    ) -> Any:
        """Call a method as a class, or the nearest that it derives from, has it."""
        found = self.found_method(self.release.order(kind), name)
        return None if found is None else self.function(found[1], held, found[0], args, values)

    def found_method(self, order: tuple[str, ...], name: str) -> tuple[str, Rule] | None:
        """Return the rules of a method with the first of some classes that has it."""
        for kind in order:
            found = self.release.record(kind).get("methods", {}).get(name)
            if found is not None:
                return kind, found
        return None

    def function(
        self, rule: Rule, held: Made | None, at: str, args: tuple[Any, ...], values: dict[str, Any]
    ) -> Any:
        """Follow the rules of a function, or of a method of an object."""
        frame: dict[str, Any] = {" at": at}
        bound = held is not None and not rule.get("static")
        given = ((held, *args) if bound else args), dict(values)
        for position, (name, *default) in enumerate(rule["takes"]):
            if position < len(given[0]):
                frame[name] = given[0][position]
            elif name in given[1]:
                frame[name] = given[1].pop(name)
            elif default:
                frame[name] = self.value(default[0], {})
            else:
                raise Refused
        if "rest" in rule:
            frame[rule["rest"]] = given[1]
        elif given[1]:
            raise Refused
        try:
            self._block(rule["does"], frame)
        except _Return as ended:
            return ended.value
        return Unknown((f"what {at} computes",)) if " vague" in frame else None

    def plain(self, held: Made) -> Any:
        """Return a configuration as a dict."""
        if held.vague:
            return Unknown(held.vague)
        found = {name: self._plain_value(value) for name, value in held.attrs.items()}
        found["model_type"] = self.read(held, "model_type")
        found["transformers_version"] = self.release.version
        for name in self.release.not_serialized:
            found.pop(name, None)
        if "_output_attentions" in found:
            found["output_attentions"] = found.pop("_output_attentions")
        for name in ("dtype", "torch_dtype"):
            kind = found.get(name)
            if isinstance(kind, External):
                found[name] = kind.path.rpartition(".")[2]
        return found

    def _plain_value(self, value: Any) -> Any:
        if isinstance(value, Made):
            inner = self.plain(value)
            if isinstance(inner, dict):
                inner.pop("transformers_version", None)
            return inner
        if isinstance(value, tuple) and self.release.dataclasses:
            return list(value)
        return self.copied(value)

    # --- attributes -------------------------------------------------------------------------------

    def renamed(self, held: Made, name: str) -> str:
        """Return the name that a class keeps an attribute under."""
        renames = held.own.get("attribute_map", MISSING)
        if renames is MISSING:
            renames = self.release.constant(held.kind, "attribute_map", self)
        return renames.get(name, name) if isinstance(renames, dict) else name

    def read(self, held: Made, name: str) -> Any:
        """Return an attribute, or `MISSING`."""
        name = self.renamed(held, name)
        other = self._delegate(held, name)
        if other is not None:
            return self.read(other, name)
        accessor = self.release.accessor(held.kind, name)
        if accessor is not None:
            return self.function(accessor[1]["get"], held, accessor[0], (), {})
        if name in held.attrs:
            return held.attrs[name]
        if name in held.own:
            return held.own[name]
        if held.vague and name in self.release.fields(held.kind):
            return Unknown(held.vague)
        found = self.release.constant(held.kind, name, self)
        if found is not MISSING:
            return found
        if name == "__dict__":
            return Unknown(held.vague) if held.vague else held.attrs
        if name == "__class__":
            return ClassOf(held.kind)
        return Unknown(held.vague) if held.vague else MISSING

    def write(self, held: Made, name: str, value: Any) -> None:
        """Bind an attribute."""
        name = self.renamed(held, name)
        if name in held.own.get("properties", ()):
            held.late[name] = value
            return
        other = self._delegate(held, name)
        if other is not None:
            self.write(other, name, value)
            return
        accessor = self.release.accessor(held.kind, name)
        if accessor is None:
            held.attrs[name] = value
        elif "set" in accessor[1]:
            self.function(accessor[1]["set"], held, accessor[0], (value,), {})
        else:
            raise Refused

    def _delegate(self, held: Made, name: str) -> Made | None:
        """Return the inner configuration that holds an attribute in place of the outer one."""
        kept = self.release.record(held.kind).get("delegates")
        inner = held.attrs.get("text_config") if kept is not None and name not in kept else None
        return inner if isinstance(inner, Made) and name in inner.attrs else None

    # --- statements -------------------------------------------------------------------------------

    def _block(self, rules: list[Rule], frame: dict[str, Any]) -> None:
        for rule in rules:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise Refused
            self._statement(rule, frame)

    def _statement(self, rule: Rule, frame: dict[str, Any]) -> None:
        word = rule[0]
        if word == "=":
            self.bind(rule[1], self.value(rule[2], frame), frame)
        elif word == "do":
            self.value(rule[1], frame)
        elif word == "if":
            self._if(rule, frame)
        elif word == "for":
            self._for(rule, frame)
        elif word == "return":
            raise _Return(self.value(rule[1], frame))
        elif word == "raise":
            raise Refused
        elif word == "del":
            self._delete(rule[1], frame)
        elif word in ("break", "continue"):
            raise _Loop(word == "break")
        else:
            self.forget(frame)

    def _if(self, rule: Rule, frame: dict[str, Any]) -> None:
        test = self.truth(self.value(rule[1], frame))
        if not isinstance(test, Unknown):
            self._block(rule[2] if test else rule[3], frame)
            return
        if _leaves(rule[2:]):
            self.forget(frame, test.needs)
            raise _Return(Unknown(test.needs))
        for target in _targets(rule[2] + rule[3]):
            if target is None:
                self.forget(frame, test.needs)
            else:
                self._maybe(target, test.needs, frame)

    def _maybe(self, target: Rule, needs: tuple[str, ...], frame: dict[str, Any]) -> None:
        """Bind what is bound on one way only."""
        held = self.value(target[1], frame) if target[0] == "." else None
        if isinstance(held, Made) and self.renamed(held, target[2]) not in held.attrs:
            held.vague = held.vague or needs
        self.bind(target, Unknown(needs), frame)

    def _for(self, rule: Rule, frame: dict[str, Any]) -> None:
        items = self.value(rule[2], frame)
        if isinstance(items, Unknown):
            self.forget(frame, items.needs)
            return
        for item in list(items):
            self.bind(rule[1], item, frame)
            try:
                self._block(rule[3], frame)
            except _Loop as jump:
                if jump.ends:
                    break

    def bind(self, target: Rule, value: Any, frame: dict[str, Any]) -> None:
        """Bind what an assignment names."""
        word = target[0]
        if word == "v":
            frame[target[1]] = value
        elif word == "tuple":
            if isinstance(value, Unknown):
                values: Any = [value] * (len(target) - 1)
            else:
                values = list(value)
                if len(values) != len(target) - 1:
                    raise Refused
            for part, one in zip(target[1:], values, strict=True):
                self.bind(part, one, frame)
        elif word == ".":
            held = self.value(target[1], frame)
            if isinstance(held, Made):
                self.write(held, target[2], value)
            else:
                self.forget(frame)
        elif word == "[]":
            held, key = self.value(target[1], frame), self.value(target[2], frame)
            if isinstance(held, Unknown) or isinstance(key, Unknown):
                self.forget(frame)
            else:
                held[key] = value
        else:
            self.forget(frame)

    def _delete(self, target: Rule, frame: dict[str, Any]) -> None:
        held = self.value(target[1], frame) if target[0] in (".", "[]") else Unknown()
        if isinstance(held, Made) and target[0] == ".":
            held.attrs.pop(self.renamed(held, target[2]), None)
        elif isinstance(held, (dict, list)) and target[0] == "[]":
            del held[self.value(target[2], frame)]
        else:
            self.forget(frame)

    def forget(self, frame: dict[str, Any], needs: tuple[str, ...] = ()) -> None:
        """Forget what something that is not stated may have changed."""
        needs = needs or (f"what {frame.get(' at', 'a configuration class')} computes",)
        for name, value in list(frame.items()):
            if isinstance(value, Made):
                value.vague = needs
                for key in value.attrs:
                    value.attrs[key] = Unknown(needs)
            elif not name.startswith(" "):
                frame[name] = Unknown(needs)
        frame[" vague"] = True


def _leaves(rules: Any) -> bool:
    """Tell whether some statement ends a function, or a turn of a loop."""
    if not isinstance(rules, list) or not rules:
        return False
    if rules[0] in ("return", "break", "continue"):
        return True
    return any(_leaves(rule) for rule in rules)


def _targets(rules: list[Rule]) -> Iterator[Rule | None]:
    """Yield what statements bind; None for one that may do anything."""
    for rule in rules:
        if rule[0] == "=":
            yield rule[1]
        elif rule[0] == "if":
            yield from _targets(rule[2] + rule[3])
        elif rule[0] == "raise":
            continue
        else:
            yield None
