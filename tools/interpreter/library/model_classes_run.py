"""Work out what a model's configuration class makes of its values, by the rules of the table."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

from tools.interpreter.library.model_classes import Release
from tools.interpreter.values import MISSING, External, Undecided, Unknown, linear, unknown_of

Rule = Any

_TWO: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "|": operator.or_, "&": operator.and_, "^": operator.xor, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}  # fmt: skip
_CALLS: Final[dict[str, Callable[..., Any]]] = {
    "len": len, "int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "dict": dict,
    "set": set, "range": range, "max": max, "min": min, "sum": sum, "sorted": sorted, "zip": zip, "any": any, "all": all,
    "enumerate": enumerate, "abs": abs, "round": round, "reversed": reversed, "ceil": math.ceil, "floor": math.floor,
    "sqrt": math.sqrt, "log2": math.log2, "prod": math.prod,
}  # fmt: skip
_TYPES: Final = {"dict": dict, "list": list, "tuple": tuple, "str": str, "int": int, "float": float, "bool": bool, "set": set}
_PLAIN: Final = (str, list, dict, tuple, set, int, float)
_METHODS: Final = frozenset(
    {"get", "pop", "setdefault", "update", "items", "keys", "values", "copy", "append", "extend", "insert", "index",
     "count", "split", "startswith", "endswith", "lower", "upper", "replace", "join", "strip", "issubset", "union", "add",
     "removeprefix", "removesuffix", "intersection", "difference"}
)  # fmt: skip
_LONGEST: Final = 200_000
_MOST_STEPS: Final = 300_000


class Refused(Exception):
    """Say that the configuration class refuses the values."""


class Absent(Refused):
    """Say that an attribute does not exist."""


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Loop(Exception):
    def __init__(self, ends: bool) -> None:
        self.ends = ends


class Made:
    """Hold a configuration: its class by name, its attributes; ``vague`` says that others may exist."""

    __slots__ = ("attrs", "kind", "late", "origin", "own", "vague")

    def __init__(self, kind: str, attrs: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.attrs: dict[str, Any] = {} if attrs is None else attrs
        self.own: dict[str, Any] = {}
        """Constants that a class deriving from the kind puts over it."""
        self.late: dict[str, Any] = {}
        """What was bound to properties of such a class."""
        self.origin: Any = None
        self.vague: tuple[str, ...] = ()


class ClassOf:
    """Stand for a configuration class."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassOf) and other.kind == self.kind

    def __hash__(self) -> int:
        return hash(self.kind)


class Evaluator:
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

    def initialise(self, held: Made, kind: str, values: dict[str, Any], post: Callable[..., None] | None = None) -> None:
        """Do what the ``__init__`` of a class does to an object of it, or of a class that derives from it."""
        odd = self.release.odd(kind)
        if odd:
            held.vague = (f"{kind} {odd}",)
        at = next((c for c in self.release.order(kind) if self._has_init(c)), None)
        if at is None:
            held.attrs.update(values)
            return
        init = self.release.record(at).get("methods", {}).get("__init__")
        if init is not None:
            self._function(init, held, at, (), values)
        else:
            self._fields(held, at, values, post)
        if self.release.record(at).get("strict"):
            self.method(held, "validate_rope")

    def _has_init(self, kind: str) -> bool:
        return self.release.dataclasses and self.release.is_configuration(kind) or "__init__" in self.release.record(
            kind
        ).get("methods", {})

    def _fields(self, held: Made, kind: str, values: dict[str, Any], post: Callable[..., None] | None) -> None:
        fields = {**self.release.fields(kind), **held.own.get("fields", {})}
        for name, rule in fields.items():
            value = values[name] if name in values else self.value(rule, {})
            self.write(held, name, value)
        rest = {n: v for n, v in values.items() if n not in fields}
        if post is not None:
            post(rest)
        else:
            self.method(held, "__post_init__", (), rest)

    def method(self, held: Made, name: str, args: tuple[Any, ...] = (), values: dict[str, Any] | None = None) -> Any:
        """Call a method of a configuration."""
        found = self._method(self.release.order(held.kind), name)
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
        return self._function(found[1], held, found[0], args, values or {})

    def from_class(
        self, held: Made, kind: str, name: str, args: tuple[Any, ...], values: dict[str, Any]
    ) -> Any:
        """Call a method as a class, or the nearest that it derives from, has it."""
        found = self._method(self.release.order(kind), name)
        return None if found is None else self._function(found[1], held, found[0], args, values)

    def _method(self, order: tuple[str, ...], name: str) -> tuple[str, Rule] | None:
        for kind in order:
            found = self.release.record(kind).get("methods", {}).get(name)
            if found is not None:
                return kind, found
        return None

    def _function(self, rule: Rule, held: Made | None, at: str, args: tuple[Any, ...], values: dict[str, Any]) -> Any:
        frame: dict[str, Any] = {" at": at}
        given = ((held, *args) if held is not None else args), dict(values)
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
        return None

    def plain(self, held: Made) -> Any:
        """Return a configuration as a dict."""
        if held.vague:
            return Unknown(held.vague)
        found = {n: self.plain(v) if isinstance(v, Made) else copy.copy(v) if isinstance(v, (list, dict)) else v for n, v in held.attrs.items()}
        found["model_type"] = self.read(held, "model_type")
        found["transformers_version"] = self.release.version
        for name in self.release.not_serialized:
            found.pop(name, None)
        if "_output_attentions" in found:
            found["output_attentions"] = found.pop("_output_attentions")
        for name in ("dtype", "torch_dtype"):
            if isinstance(found.get(name), External):
                found[name] = found[name].path.rpartition(".")[2]
        return found

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
            return self._function(accessor[1]["get"], held, accessor[0], (), {})
        if name in held.attrs:
            return held.attrs[name]
        if name in held.own:
            return held.own[name]
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
            self._function(accessor[1]["set"], held, accessor[0], (value,), {})
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
            self._bind(rule[1], self.value(rule[2], frame), frame)
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
            self._vague(frame)

    def _if(self, rule: Rule, frame: dict[str, Any]) -> None:
        test = self.truth(self.value(rule[1], frame))
        if not isinstance(test, Unknown):
            self._block(rule[2] if test else rule[3], frame)
            return
        for target in _targets(rule[2] + rule[3]):
            if target is None:
                self._vague(frame, test.needs)
            else:
                self._bind(target, Unknown(test.needs), frame)

    def _for(self, rule: Rule, frame: dict[str, Any]) -> None:
        items = self.value(rule[2], frame)
        if isinstance(items, Unknown):
            self._vague(frame, items.needs)
            return
        for item in list(items):
            self._bind(rule[1], item, frame)
            try:
                self._block(rule[3], frame)
            except _Loop as jump:
                if jump.ends:
                    break

    def _bind(self, target: Rule, value: Any, frame: dict[str, Any]) -> None:
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
                self._bind(part, one, frame)
        elif word == ".":
            held = self.value(target[1], frame)
            if isinstance(held, Made):
                self.write(held, target[2], value)
            else:
                self._vague(frame)
        elif word == "[]":
            held, key = self.value(target[1], frame), self.value(target[2], frame)
            if isinstance(held, Unknown) or isinstance(key, Unknown):
                self._vague(frame)
            else:
                held[key] = value
        else:
            self._vague(frame)

    def _delete(self, target: Rule, frame: dict[str, Any]) -> None:
        held = self.value(target[1], frame) if target[0] in (".", "[]") else Unknown()
        if isinstance(held, Made) and target[0] == ".":
            held.attrs.pop(self.renamed(held, target[2]), None)
        elif isinstance(held, (dict, list)) and target[0] == "[]":
            del held[self.value(target[2], frame)]
        else:
            self._vague(frame)

    def _vague(self, frame: dict[str, Any], needs: tuple[str, ...] = ()) -> None:
        """Forget what something that is not stated may have changed."""
        needs = needs or (f"what {frame.get(' at', 'a configuration class')} computes",)
        for name, value in list(frame.items()):
            if isinstance(value, Made):
                value.vague = needs
                for key in value.attrs:
                    value.attrs[key] = Unknown(needs)
            elif name != " at":
                frame[name] = Unknown(needs)

    # --- expressions ------------------------------------------------------------------------------

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
            if word in _TWO:
                return _TWO[word](self.value(rule[1], frame), self.value(rule[2], frame))
            run = _WORDS.get(word)
            return run(self, rule, frame) if run is not None else Unknown((f"what {frame.get(' at', '?')} computes",))
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
        return _CALLS[rule[0]](self.value(r, frame) for r in rule[1:])

    def _dict(self, rule: Rule, frame: dict[str, Any]) -> Any:
        found: dict[Any, Any] = {}
        for *key, part in rule[1:]:
            value = self.value(part, frame)
            if key:
                found[self.value(key[0], frame)] = value
            elif isinstance(value, Unknown):
                return value
            else:
                found.update(value)
        return found

    def _each(self, rule: Rule, frame: dict[str, Any]) -> Any:
        _, kind, target, source, tests, *parts = rule
        inner = _Inner(frame)
        found: list[Any] = []
        for item in list(self.value(source, frame))[:_LONGEST]:
            self._bind(target, item, inner)
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

    def _given(self, args: list[Rule], named: list[Rule], frame: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
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
                self._vague(frame)
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
        if name == "range" and len(range(*args)) > _LONGEST:
            raise Refused
        return _CALLS[name](*args) if name in _CALLS else Unknown((f"{name}()",))

    def _asked(self, name: str, args: list[Any]) -> Any:
        held = args[0]
        if isinstance(held, External) and isinstance(args[1], str):
            return External(f"{held.path}.{args[1]}") if name == "getattr" else True
        if not isinstance(held, (Made, ClassOf)) or not isinstance(args[1], str):
            return unknown_of(*args, need=f"{name}()")
        try:
            if name == "getattr":
                return self._got(held, args[1], *args[2:])
            found = self.read(held, args[1]) if isinstance(held, Made) else self.release.constant(held.kind, args[1], self)
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
            return self._of_class(held, name, given, values)
        if held is _MAPPING and name == "keys":
            return list(self.release.types)
        if isinstance(held, Unknown) or not isinstance(held, _PLAIN) or name not in _METHODS:
            if any(isinstance(a, (Made, dict, list)) for a in (*given, *values.values())):
                self._vague(frame)
            return unknown_of(held, need=f"{name}()")
        found = getattr(held, name)(*given, **values)
        return list(found) if name in ("items", "keys", "values") else found

    def _of_class(self, held: ClassOf, name: str, given: tuple[Any, ...], values: dict[str, Any]) -> Any:
        if name == "for_model" and held.kind == "AutoConfig" and given and isinstance(given[0], str):
            kind = self.release.types.get(given[0])
            if kind is None:
                raise Refused
            return self.make(kind, values)
        if name == "from_dict" and len(given) == 1 and isinstance(given[0], dict) and not values:
            return self.make(held.kind, dict(given[0]))
        return Unknown((f"{held.kind}.{name}()",))

    def _super(self, rule: Rule, frame: dict[str, Any]) -> Any:
        held = frame.get("self")
        if not isinstance(held, Made):
            return Unknown(("super()",))
        try:
            args, values = self._given(rule[2], rule[3], frame)
        except Undecided as undecided:
            self._vague(frame, undecided.needs)
            return Unknown(undecided.needs)
        order = self.release.order(held.kind)
        at = frame[" at"]
        rest = order[order.index(at) + 1 :] if at in order else ()
        if rule[1] == "__init__":
            if rest and not args:
                self.initialise(held, rest[0], values)
            return None
        found = self._method(rest, rule[1])
        return None if found is None else self._function(found[1], held, found[0], args, values)

    def _called(self, rule: Rule, frame: dict[str, Any]) -> Any:
        args, values = self._given(rule[2], rule[3], frame)
        return self._function(self.release.function(rule[1]), None, rule[1], args, values)

    def _parameters(self, rule: Rule, frame: dict[str, Any]) -> Any:
        kind = self.value(rule[1], frame)
        return self.release.parameters(kind.kind) if isinstance(kind, ClassOf) else unknown_of(kind)


class _Inner(dict[str, Any]):
    """Hold the names of a comprehension over those around it."""

    def __init__(self, outer: dict[str, Any]) -> None:
        super().__init__(outer)


_MAPPING: Final = type("Mapping", (), {"__contains__": lambda self, key: True})()


def _targets(rules: list[Rule]) -> Iterator[Rule | None]:
    """Yield what statements bind; None for one that may do anything."""
    for rule in rules:
        if rule[0] == "=":
            yield rule[1]
        elif rule[0] == "if":
            yield from _targets(rule[2] + rule[3])
        elif rule[0] in ("raise", "continue"):
            continue
        else:
            yield None


_WORDS: Final[dict[str, Callable[[Evaluator, Rule, dict[str, Any]], Any]]] = {
    "v": Evaluator._variable, ".": Evaluator._attribute, "[]": Evaluator._item, "[:]": Evaluator._slice,
    "and": Evaluator._both, "or": Evaluator._both, "not": Evaluator._not, "is": Evaluator._is, "is not": Evaluator._is,
    "if": Evaluator._choose, ":=": Evaluator._walrus, "list": Evaluator._collection, "tuple": Evaluator._collection,
    "set": Evaluator._collection, "dict": Evaluator._dict, "each": Evaluator._each, "text": Evaluator._text,
    "call": Evaluator._call, "make": Evaluator._new, "do": Evaluator._method_call, "super": Evaluator._super,
    "function": Evaluator._called, "parameters": Evaluator._parameters,
    "neg": lambda own, rule, frame: -own.value(rule[1], frame),
    "float": lambda own, rule, frame: float(rule[1]),
    "class": lambda own, rule, frame: ClassOf(rule[1]),
    "type": lambda own, rule, frame: _TYPES.get(rule[1], Unknown((f"the type {rule[1]}",))),
    "mapping": lambda own, rule, frame: _MAPPING,
    "torch": lambda own, rule, frame: External("torch"),
    "vague": lambda own, rule, frame: own._vague(frame) or Unknown((f"what {frame.get(' at', '?')} computes",)),
}  # fmt: skip
__all__ = ["ClassOf", "Evaluator", "Made", "Refused", "linear"]
