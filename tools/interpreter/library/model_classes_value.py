"""Work out the expressions of the rules: plain values, attributes, calls of a closed set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tools.interpreter.library.model_classes import Release
from tools.interpreter.library.model_classes_made import Absent, ClassOf, Made, Refused
from tools.interpreter.library.model_classes_words import CALLS, LONGEST, METHODS, OPERATORS, PLAIN, TYPES
from tools.interpreter.values import MISSING, External, Undecided, Unknown, unknown_of

Rule = Any
Frame = dict[str, Any]


class Values:
    """Work out what a rule comes to; `Evaluator` adds what rules do."""

    release: Release
    read: Callable[[Made, str], Any]
    write: Callable[[Made, str, Any], None]
    renamed: Callable[[Made, str], str]
    make: Callable[[str, dict[str, Any]], Made]
    initialise: Callable[..., None]
    method: Callable[..., Any]
    found_method: Callable[[tuple[str, ...], str], tuple[str, Rule] | None]
    function: Callable[..., Any]
    bind: Callable[[Rule, Any, Frame], None]
    forget: Callable[..., None]

    def truth(self, value: Any) -> Any:
        """Return whether a value is true; an unknown when that is not known."""
        try:
            return True if isinstance(value, (Made, ClassOf)) else bool(value)
        except Undecided as undecided:
            return Unknown(undecided.needs)

    def value(self, rule: Rule, frame: dict[str, Any]) -> Any:
        """Return what a rule comes to."""
        if not isinstance(rule, list):
            return rule
        word = rule[0]
        try:
            if word in OPERATORS:
                return OPERATORS[word](self.value(rule[1], frame), self.value(rule[2], frame))
            run = _WORDS.get(word)
            return (
                run(self, rule, frame)
                if run is not None
                else Unknown((f"what {frame.get(' at', '?')} computes",))
            )
        except Undecided as undecided:
            return Unknown(undecided.needs)

    def _variable(self, rule: Rule, frame: dict[str, Any]) -> Any:
        if rule[1] not in frame:
            return Unknown((f"{rule[1]}",))
        return frame[rule[1]]

    def _attribute(self, rule: Rule, frame: dict[str, Any]) -> Any:
        return self._got(self.value(rule[1], frame), rule[2])

    def _got(self, held: Any, name: str, *default: Any) -> Any:
        if isinstance(held, ClassOf):
            if name == "__name__":
                return held.kind
            found = self.release.constant(held.kind, name, self)
            if found is MISSING and not default:
                found = Unknown((f"{held.kind}.{name}",))
        elif isinstance(held, Made):
            found = self.read(held, name)
        else:
            return unknown_of(held, need=f".{name}")
        if found is not MISSING:
            return found
        if default:
            return default[0]
        raise Absent

    def _item(self, rule: Rule, frame: dict[str, Any]) -> Any:
        held, key = self.value(rule[1], frame), self.value(rule[2], frame)
        if held is _MAPPING:
            kind = self.release.types.get(key)
            if kind is None:
                raise Refused
            return ClassOf(kind)
        return held[key]

    def _slice(self, rule: Rule, frame: dict[str, Any]) -> Any:
        held, *parts = (self.value(r, frame) for r in rule[1:])
        return held[slice(*parts)]

    def _both(self, rule: Rule, frame: dict[str, Any]) -> Any:
        value: Any = None
        for part in rule[1:]:
            value = self.value(part, frame)
            truth = self.truth(value)
            if isinstance(truth, Unknown):
                return truth
            if truth is (rule[0] == "or"):
                return value
        return value

    def _not(self, rule: Rule, frame: dict[str, Any]) -> Any:
        truth = self.truth(self.value(rule[1], frame))
        return truth if isinstance(truth, Unknown) else not truth

    def _is(self, rule: Rule, frame: dict[str, Any]) -> Any:
        left, right = self.value(rule[1], frame), self.value(rule[2], frame)
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return unknown_of(left, right)
        same = left is right or (isinstance(left, ClassOf) and left == right)
        return same if rule[0] == "is" else not same

    def _choose(self, rule: Rule, frame: dict[str, Any]) -> Any:
        truth = self.truth(self.value(rule[1], frame))
        return truth if isinstance(truth, Unknown) else self.value(rule[2] if truth else rule[3], frame)

    def _walrus(self, rule: Rule, frame: dict[str, Any]) -> Any:
        frame[rule[1]] = value = self.value(rule[2], frame)
        return value

    def _collection(self, rule: Rule, frame: dict[str, Any]) -> Any:
        return CALLS[rule[0]](self.value(r, frame) for r in rule[1:])

    def _dict(self, rule: Rule, frame: dict[str, Any]) -> Any:
        found: dict[Any, Any] = {}
        for *key, part in rule[1:]:
            value = self.value(part, frame)
            if key:
                found[self.value(key[0], frame)] = value
            elif isinstance(value, (Unknown, External)):
                return unknown_of(value, need="a part of a dict")
            else:
                found.update(value)
        return found

    def _each(self, rule: Rule, frame: dict[str, Any]) -> Any:
        _, kind, target, source, tests, *parts = rule
        inner = _Inner(frame)
        found: list[Any] = []
        for item in list(self.value(source, frame))[:LONGEST]:
            self.bind(target, item, inner)
            kept = [self.truth(self.value(test, inner)) for test in tests]
            if any(isinstance(k, Unknown) for k in kept):
                return unknown_of(*kept)
            if all(kept):
                values = [self.value(part, inner) for part in parts]
                found.append(values if kind == "dict" else values[0])
        return dict(found) if kind == "dict" else set(found) if kind == "set" else found

    def _text(self, rule: Rule, frame: dict[str, Any]) -> Any:
        return "".join(str(self.value(r, frame)) for r in rule[1:])

    # --- calls ------------------------------------------------------------------------------------

    def _given(
        self, args: list[Rule], named: list[Rule], frame: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values: dict[str, Any] = {}
        for *key, part in named:
            value = self.value(part, frame)
            if key:
                values[key[0]] = value
                continue
            if isinstance(value, Unknown):
                raise Undecided(value.needs)
            values.update(value)
        return tuple(self.value(a, frame) for a in args), values

    def _call(self, rule: Rule, frame: dict[str, Any]) -> Any:
        name, args = rule[1], [self.value(r, frame) for r in rule[2:]]
        if name in ("hasattr", "getattr"):
            return self._asked(name, args)
        if name in ("setattr", "delattr"):
            if not isinstance(args[0], Made) or not isinstance(args[1], str):
                self.forget(frame)
            elif name == "setattr":
                self.write(args[0], args[1], args[2])
            else:
                args[0].attrs.pop(self.renamed(args[0], args[1]), None)
            return None
        if name == "isinstance":
            return self._isinstance(*args)
        if name in ("deepcopy", "copy"):
            return self.copied(args[0])
        if any(isinstance(a, (Made, ClassOf, External)) for a in args):
            return Unknown((f"{name}() of a configuration",))
        if any(isinstance(a, Unknown) for a in args):
            return unknown_of(*args)
        if name == "range" and len(range(*args)) > LONGEST:
            raise Refused
        return CALLS[name](*args) if name in CALLS else Unknown((f"{name}()",))

    def _asked(self, name: str, args: list[Any]) -> Any:
        held = args[0]
        if isinstance(held, External) and isinstance(args[1], str):
            return External(f"{held.path}.{args[1]}") if name == "getattr" else True
        if not isinstance(held, (Made, ClassOf)) or not isinstance(args[1], str):
            return unknown_of(*args, need=f"{name}()")
        try:
            if name == "getattr":
                return self._got(held, args[1], *args[2:])
            found = (
                self.read(held, args[1])
                if isinstance(held, Made)
                else self.release.constant(held.kind, args[1], self)
            )
        except Absent:
            if name == "getattr" and len(args) < 3:
                raise
            return args[2] if name == "getattr" else False
        if isinstance(held, Made) and held.vague and isinstance(found, Unknown):
            return found
        return found is not MISSING

    def copied(self, value: Any) -> Any:
        """Return a copy of a value, configurations in it included."""
        if isinstance(value, Made):
            made = Made(value.kind, {n: self.copied(v) for n, v in value.attrs.items()})
            made.own, made.vague = value.own, value.vague
            return made
        if isinstance(value, dict):
            return {k: self.copied(v) for k, v in value.items()}
        return type(value)(self.copied(v) for v in value) if type(value) in (list, tuple) else value

    def _isinstance(self, value: Any, kinds: Any) -> Any:
        if isinstance(value, Unknown) or isinstance(kinds, Unknown):
            return unknown_of(value, kinds)
        verdicts = [self._is_of(value, k) for k in (kinds if isinstance(kinds, tuple) else (kinds,))]
        if any(v is True for v in verdicts):
            return True
        return next((v for v in verdicts if isinstance(v, Unknown)), False)

    def _is_of(self, value: Any, kind: Any) -> Any:
        if isinstance(kind, ClassOf):
            return isinstance(value, Made) and kind.kind in self.release.order(value.kind)
        if isinstance(kind, type):
            return isinstance(value, kind)
        return unknown_of(kind, need="isinstance()")

    def _new(self, rule: Rule, frame: dict[str, Any]) -> Any:
        kind = self.value(rule[1], frame)
        args, values = self._given(rule[2], rule[3], frame)
        if not isinstance(kind, ClassOf) or args or not self.release.is_configuration(kind.kind):
            return unknown_of(kind, need="what a configuration class makes")
        return self.make(kind.kind, values)

    def _method_call(self, rule: Rule, frame: dict[str, Any]) -> Any:
        _, part, name, args, named = rule
        held = self.value(part, frame)
        given, values = self._given(args, named, frame)
        if isinstance(held, Made):
            return self.method(held, name, given, values)
        if isinstance(held, ClassOf):
            return self._of_class(held, name, given, values, frame)
        if held is _MAPPING and name == "keys":
            return list(self.release.types)
        if isinstance(held, Unknown) or not isinstance(held, PLAIN) or name not in METHODS:
            if any(isinstance(a, (Made, dict, list)) for a in (*given, *values.values())):
                self.forget(frame)
            return unknown_of(held, need=f"{name}()")
        found = getattr(held, name)(*given, **values)
        return list(found) if name in ("items", "keys", "values") else found

    def _of_class(
        self, held: ClassOf, name: str, given: tuple[Any, ...], values: dict[str, Any], frame: Frame
    ) -> Any:
        if name == "for_model" and held.kind == "AutoConfig" and given and isinstance(given[0], str):
            kind = self.release.types.get(given[0])
            if kind is None:
                raise Refused
            return self.make(kind, values)
        if name == "from_dict" and len(given) == 1 and isinstance(given[0], dict) and not values:
            return self.make(held.kind, dict(given[0]))
        if given and isinstance(given[0], Made):
            found = self.found_method(self.release.order(held.kind), name)
            if name == "__init__" and len(given) == 1:
                return self.initialise(given[0], held.kind, values)
            if found is not None:
                return self.function(found[1], given[0], found[0], given[1:], values)
        if any(isinstance(a, (Made, dict, list)) for a in (*given, *values.values())):
            self.forget(frame)
        return Unknown((f"{held.kind}.{name}()",))

    def _super(self, rule: Rule, frame: dict[str, Any]) -> Any:
        held = frame.get("self")
        if not isinstance(held, Made):
            return Unknown(("super()",))
        try:
            args, values = self._given(rule[2], rule[3], frame)
        except Undecided as undecided:
            self.forget(frame, undecided.needs)
            return Unknown(undecided.needs)
        order = self.release.order(held.kind)
        at = frame[" at"]
        rest = order[order.index(at) + 1 :] if at in order else ()
        if rule[1] == "__init__":
            if rest and not args:
                self.initialise(held, rest[0], values)
            return None
        found = self.found_method(rest, rule[1])
        return None if found is None else self.function(found[1], held, found[0], args, values)

    def _called(self, rule: Rule, frame: dict[str, Any]) -> Any:
        args, values = self._given(rule[2], rule[3], frame)
        return self.function(self.release.function(rule[1]), None, rule[1], args, values)

    def forgotten(self, frame: Frame) -> Unknown:
        """Forget what a call that is not stated may have changed; return what it comes to."""
        self.forget(frame)
        return Unknown((f"what {frame.get(' at', 'a configuration class')} computes",))

    def _parameters(self, rule: Rule, frame: dict[str, Any]) -> Any:
        kind = self.value(rule[1], frame)
        return self.release.parameters(kind.kind) if isinstance(kind, ClassOf) else unknown_of(kind)


class _Inner(dict[str, Any]):
    """Hold the names of a comprehension over those around it."""

    def __init__(self, outer: dict[str, Any]) -> None:
        super().__init__(outer)


_MAPPING: Final = type("Mapping", (), {"__contains__": lambda self, key: True})()

_WORDS: Final[dict[str, Callable[[Values, Rule, dict[str, Any]], Any]]] = {
    "v": Values._variable,
    ".": Values._attribute,
    "[]": Values._item,
    "[:]": Values._slice,
    "and": Values._both,
    "or": Values._both,
    "not": Values._not,
    "is": Values._is,
    "is not": Values._is,
    "if": Values._choose,
    ":=": Values._walrus,
    "list": Values._collection,
    "tuple": Values._collection,
    "set": Values._collection,
    "dict": Values._dict,
    "each": Values._each,
    "text": Values._text,
    "call": Values._call,
    "make": Values._new,
    "do": Values._method_call,
    "super": Values._super,
    "function": Values._called,
    "parameters": Values._parameters,
    "neg": lambda own, rule, frame: -own.value(rule[1], frame),
    "float": lambda own, rule, frame: float(rule[1]),
    "class": lambda own, rule, frame: ClassOf(rule[1]),
    "type": lambda own, rule, frame: TYPES.get(rule[1], Unknown((f"the type {rule[1]}",))),
    "mapping": lambda own, rule, frame: _MAPPING,
    "torch": lambda own, rule, frame: External("torch"),
    "vague": lambda own, rule, frame: own.forgotten(frame),
}
