"""Python's operators on values that may be unknown; results that would grow without bound are refused."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tools.interpreter.values import (
    MISSING,
    External,
    GuestClass,
    GuestRaise,
    Instance,
    Maybe,
    Undecided,
    Unknown,
    holed,
    needs_of,
    unknown_of,
)

BINARY: Final[dict[type[ast.operator], tuple[Callable[[Any, Any], Any], str]]] = {
    ast.Add: (operator.add, "add"),
    ast.Sub: (operator.sub, "sub"),
    ast.Mult: (operator.mul, "mul"),
    ast.Div: (operator.truediv, "truediv"),
    ast.FloorDiv: (operator.floordiv, "floordiv"),
    ast.Mod: (operator.mod, "mod"),
    ast.Pow: (operator.pow, "pow"),
    ast.LShift: (operator.lshift, "lshift"),
    ast.RShift: (operator.rshift, "rshift"),
    ast.BitOr: (operator.or_, "or"),
    ast.BitXor: (operator.xor, "xor"),
    ast.BitAnd: (operator.and_, "and"),
    ast.MatMult: (operator.matmul, "matmul"),
}
_IN_PLACE: Final = {
    ast.Add: operator.iadd,
    ast.BitOr: operator.ior,
    ast.BitAnd: operator.iand,
    ast.Sub: operator.isub,
}
_COMPARE: Final[dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], str]]] = {
    ast.Lt: (operator.lt, "lt"),
    ast.LtE: (operator.le, "le"),
    ast.Gt: (operator.gt, "gt"),
    ast.GtE: (operator.ge, "ge"),
}
_DTYPES: Final = (
    "float16 half",
    "bfloat16",
    "float32 float",
    "float64 double",
    "int8",
    "uint8",
    "int16 short",
    "int32 int",
    "int64 long",
    "bool",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn_x2",
    "complex64",
)
DTYPES: Final = {f"torch.{name}": names.split()[0] for names in _DTYPES for name in names.split()}
"""The data types of ``torch``, each by every name that it has."""
_LONGEST: Final = 1_000_000


def _too_large(op: ast.operator, left: Any, right: Any) -> bool:
    if isinstance(op, ast.Mult):
        for sequence, count in ((left, right), (right, left)):
            if isinstance(sequence, (str, bytes, list, tuple)) and isinstance(count, int):
                return len(sequence) * count > _LONGEST
        return _bits(left) + _bits(right) > _LONGEST
    if isinstance(op, ast.Pow):
        return isinstance(right, int) and abs(right) * max(_bits(left), 1) > _LONGEST
    if isinstance(op, ast.LShift):
        return isinstance(right, int) and right > _LONGEST
    if isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
        return any(c.isdigit() for c in str(left)) and len(str(left)) > 10_000
    return False


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def plain(value: Any) -> Any:
    """Return the built-in value of an object that derives from one."""
    if isinstance(value, Instance) and value.native is not None:
        return value.native
    return value


def binary(op: ast.operator, left: Any, right: Any, call: Callable[..., Any]) -> Any:
    """Apply a binary operator; ``call`` calls a method of an object of the source."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return unknown_of(left, right)
    function, name = BINARY[type(op)]
    for one, other, method in ((left, right, f"__{name}__"), (right, left, f"__r{name}__")):
        if isinstance(one, Instance):
            found = one.cls.find(method)
            if found is not MISSING:
                result = call(one.cls.machine.bind(found, one), (other,), {})
                if result is not NotImplemented:
                    return result
    if isinstance(left, External) or isinstance(right, External):
        if isinstance(op, ast.BitOr) and _is_type(left) and _is_type(right):
            return natively(function, left, right)
        return unknown_of(need=repr(left if isinstance(left, External) else right))
    left, right = plain(left), plain(right)
    if _too_large(op, left, right):
        return Unknown(("a result too large to compute",))
    return natively(function, left, right)


def _is_type(value: Any) -> bool:
    return value is None or isinstance(value, (type, External, GuestClass)) or hasattr(value, "__origin__")


def in_place(
    op: ast.operator, left: Any, right: Any, call: Callable[..., Any], touch: Callable[[Any], None]
) -> Any:
    """Apply an augmented assignment's operator: lists, dicts and sets change in place."""
    if isinstance(left, (list, dict, set)) and type(op) in _IN_PLACE and not isinstance(right, Unknown):
        touch(left)
        return natively(_IN_PLACE[type(op)], left, plain(right))
    return binary(op, left, right, call)


def natively(function: Callable[..., Any], *values: Any) -> Any:
    """Call a pure native function: an unknown value inside gives an unknown, an error is the source's."""
    try:
        return function(*values)
    except Undecided as undecided:
        return Unknown(undecided.needs)
    except Exception as error:  # noqa: BLE001 - whatever it raises is what the source would see
        raise GuestRaise(error) from None


def settled(function: Callable[[], Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Call a native function; what it raises because of an unknown value inside an argument is no error."""
    try:
        return natively(function)
    except GuestRaise:
        needs = needs_of([*args, *named.values()])
        if not needs:
            raise
        return Unknown(needs)


def spread(value: Any, iterate: Callable[[Any], Any]) -> Any:
    """Return the names of a dict of which some may be absent as a list; anything else as it is."""
    if not isinstance(value, dict) or holed(value) is None:
        return value
    names = iterate(value)
    return names if isinstance(names, Unknown) else list(names)


def identical(left: Any, right: Any) -> Any:
    """Return whether ``left is right``: True, False or an unknown."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Unknown):
            if one is other:
                return True
            if one.options and not isinstance(other, Unknown):
                found = {identical(option, other) for option in one.options}
                if len(found) == 1:
                    return found.pop()
            return unknown_of(left, right)
    if isinstance(left, External) and isinstance(right, External):
        if left.path in DTYPES and right.path in DTYPES:
            return DTYPES[left.path] == DTYPES[right.path]
        return True if left.path == right.path else Unknown((f"{left.path} is {right.path}",))
    if type(left) in (str, float, bytes, tuple) and type(right) is type(left):
        return equal(left, right)
    return left is right


def equal(left: Any, right: Any) -> Any:
    """Return whether ``left == right``: True, False or an unknown."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Unknown):
            if one is other:
                return True
            if one.options and not isinstance(other, Unknown):
                found = [equal(option, other) for option in one.options]
                if all(f is True for f in found) or all(f is False for f in found):
                    return found[0]
            return unknown_of(left, right)
    if isinstance(left, External) or isinstance(right, External):
        if isinstance(left, External) and isinstance(right, External) and left.path != right.path:
            if left.path in DTYPES and right.path in DTYPES:
                return DTYPES[left.path] == DTYPES[right.path]
            return Unknown((f"{left.path} == {right.path}",)) if left.path and right.path else False
        return left == right
    if isinstance(right, Instance) and not isinstance(left, Instance):
        left, right = right, left
    found = natively(operator.eq, left, right)
    return found if found is not False else _surely_unequal(left, right)


def _surely_unequal(left: Any, right: Any) -> Any:
    """Return False, or an unknown where items that may be absent could make two containers equal."""
    holes = maybe_within(left) + maybe_within(right)
    if not holes:
        return False
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        least = [sum(type(item) is not Maybe for item in side) for side in (left, right)]
        if type(left) is not type(right) or least[0] > len(right) or least[1] > len(left):
            return False
    elif isinstance(left, dict) and isinstance(right, dict):
        for one, other in ((left, right), (right, left)):
            sure = [name for name, item in one.items() if type(item) is not Maybe]
            if any(name not in other or _differ(one[name], other[name]) for name in sure):
                return False
    return Unknown(holes)


def _differ(one: Any, other: Any) -> bool:
    return not isinstance(other, Unknown) and equal(one, other) is False


def maybe_within(value: Any, depth: int = 3) -> tuple[str, ...]:
    """Return what decides the items of a container, or of one inside, that may be absent."""
    if type(value) is Maybe:
        return value.needs or ("an item that may be absent",)
    if not depth or not isinstance(value, (list, tuple, dict)):
        return ()
    items = value.values() if isinstance(value, dict) else value
    return tuple(need for item in items for need in maybe_within(item, depth - 1))


def contains(container: Any, item: Any) -> Any:
    """Return whether ``item in container``: True, False or an unknown."""
    if isinstance(container, Unknown):
        found = [
            contains(option, item)
            for option in container.options
            if isinstance(option, (list, tuple, dict, set))
        ]
        if found and len(found) == len(container.options) and all(f is found[0] for f in found):
            return found[0]
        return unknown_of(container, item)
    if isinstance(item, Unknown):
        if item.options:
            found = [contains(container, option) for option in item.options]
            if all(f is True for f in found) or all(f is False for f in found):
                return found[0]
        if isinstance(container, (list, tuple, dict, set, frozenset, str)) and not container:
            return False
        return unknown_of(item)
    if isinstance(container, External):
        return Unknown((f"in {container.path}",))
    if isinstance(container, (list, tuple)):
        found = [equal(item, member) for member in container]
        if any(f is True for f in found):
            return True
        unknown = [f for f in found if isinstance(f, Unknown)]
        return unknown_of(*unknown) if unknown else False
    if isinstance(container, (str, bytes)):
        item = plain(item)
    found = natively(operator.contains, container, item)
    if found is True and isinstance(container, dict) and type(container.get(item)) is Maybe:
        return Unknown(container[item].needs)
    return found


def compare(op: ast.cmpop, left: Any, right: Any, call: Callable[..., Any]) -> Any:
    """Apply one comparison; the result may be unknown."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        found = identical(left, right)
    elif isinstance(op, (ast.Eq, ast.NotEq)):
        found = equal(left, right)
        if found is NotImplemented:
            found = False
    elif isinstance(op, (ast.In, ast.NotIn)):
        found = contains(right, left)
    else:
        return _ordered(op, left, right, call)
    if isinstance(op, (ast.IsNot, ast.NotEq, ast.NotIn)) and not isinstance(found, Unknown):
        return not found
    return found


def _ordered(op: ast.cmpop, left: Any, right: Any, call: Callable[..., Any]) -> Any:
    function, name = _COMPARE[type(op)]
    for one, other, flipped in ((left, right, False), (right, left, True)):
        if isinstance(one, Unknown):
            if one.options and not isinstance(other, Unknown):
                found = _each(op, one, other, flipped, call)
                if len(found) == 1:
                    return found.pop()
            return unknown_of(left, right)
    if isinstance(left, External) or isinstance(right, External):
        return Unknown((repr(left if isinstance(left, External) else right),))
    if isinstance(left, Instance):
        found = left.cls.find(f"__{name}__")
        if found is not MISSING:
            return call(left.cls.machine.bind(found, left), (right,), {})
    if holes := maybe_within(left) + maybe_within(right):
        return Unknown(holes)
    return natively(function, plain(left), plain(right))


def _each(op: ast.cmpop, one: Unknown, other: Any, flipped: bool, call: Callable[..., Any]) -> set[Any]:
    found: set[Any] = set()
    for option in one.options:
        try:
            result = _ordered(op, other, option, call) if flipped else _ordered(op, option, other, call)
        except GuestRaise:
            return {True, False}
        found.add(result if isinstance(result, bool) else None)
    return found if None not in found else {True, False}
