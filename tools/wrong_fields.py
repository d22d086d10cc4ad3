"""Say what is wrong with data that a pydantic model refuses: one field, in our words, and what is near."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Place = tuple[int | str, ...]

_KINDS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "there is no such field",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "string_type": "should be text",
    "path_type": "should be a path",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
    "set_type": "should be a list",
    "frozen_set_type": "should be a list",
    "dict_type": "should be fields with values",
    "model_type": "should be fields with values",
    "model_attributes_type": "should be fields with values",
}
"""What pydantic says of a type in Python's own names, and of a model by the name of our class."""

_OWN: Final = ("Value error, ", "Assertion failed, ")
_SUBJECT: Final = re.compile(
    r"(Input|Value|String|List|Tuple|Set|Frozenset|Dictionary|Bytes|URL|Decimal input) should "
)
_QUOTED: Final = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True)
class WrongField:
    """Hold where a value does not hold, what is wrong with it, and which names are near."""

    place: Place
    field: str
    says: str
    near: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    """The names that a field may have there; none where the field is right."""
    more: int = 0
    """How many others are wrong as well."""

    @property
    def text(self) -> str:
        """Return it as ``field: what is wrong``."""
        return f"{self.field}: {self.says}" + (f" (and {self.more} more)" if self.more else "")

    @property
    def do(self) -> str:
        """Return what would hold in its place; empty where nothing is near."""
        if self.near:
            return f"nearest: {', '.join(self.near)}"
        return f"there are: {', '.join(self.there)}" if self.there else ""


def first_wrong(
    error: ValidationError, whole: str = "file", kind: type[BaseModel] | None = None, *, below: int = 0
) -> WrongField:
    """Return what is to be said of a refusal: a name that there is not, before what is missing for it.

    ``whole`` names data that are wrong as a whole, ``kind`` is the model, for names that are near, and
    ``below`` leaves out as many parts of a place, as the tag of a union is one.
    """
    errors = error.errors(include_url=False)
    item: Mapping[str, Any] = next((one for one in errors if one["type"] != "missing"), errors[0])
    place: Place = tuple(part for part in item["loc"] if part != "[key]")
    shown = place[below:]
    field = ".".join(map(str, shown)) or whole
    near: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    if item["type"] == "extra_forbidden" and kind is not None:
        there = tuple(fields_at(kind, place[:-1]))
        near = nearest(str(place[-1]), there)
    elif item["type"] == "literal_error" and isinstance(item["input"], str):
        near = nearest(item["input"], _QUOTED.findall(str(item["ctx"]["expected"])))
    return WrongField(shown, field, words(item), near, there, len(errors) - 1)


def unknown_field(kind: type[BaseModel], place: Place) -> WrongField:
    """Return what is to be said of a name that a model does not have."""
    there = tuple(fields_at(kind, place[:-1]))
    near = nearest(str(place[-1]), there)
    return WrongField(place, ".".join(map(str, place)), _KINDS["extra_forbidden"], near, there)


def words(item: Mapping[str, Any]) -> str:
    """Return one error of pydantic's list as people say it; nothing of the value that was given."""
    said = bare(str(item["msg"]))
    if item["type"] == "json_invalid":
        return said.replace("Invalid JSON", "is not JSON", 1)
    return _KINDS.get(str(item["type"])) or _SUBJECT.sub("should ", said, count=1)


def bare(said: str) -> str:
    """Return what a validator of ours said without what pydantic puts before it."""
    for prefix in _OWN:
        said = said.removeprefix(prefix)
    return said


def nearest(given: str, known: Sequence[str], *, most: int = 3, cutoff: float = 0.5) -> tuple[str, ...]:
    """Return the names that a mistyped one may stand for, the nearest first."""
    import difflib  # loaded only when something is wrong

    return tuple(difflib.get_close_matches(given, known, n=most, cutoff=cutoff))


def near_or_all(given: str, known: Sequence[str]) -> str:
    """Return what to do about a name that there is not: take the nearest, else one of all."""
    near = nearest(given, known)
    if near:
        return f"nearest: {', '.join(near)}"
    return f"there are: {', '.join(known)}" if known else "there is none"


def fields_at(model: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """Return the names of the fields at a place; none where there is no table."""
    inside = _table_at(model, place)
    return list(inside.model_fields) if inside is not None else []


def _table_at(model: type[BaseModel], place: Sequence[str | int]) -> type[BaseModel] | None:
    found: Any = model
    for part in place:
        if not _is_table(found):
            found = next((one for one in reversed(get_args(found)) if one is not type(None)), None)
        elif part in found.model_fields:
            found = found.model_fields[str(part)].annotation
        else:
            return None
        found = next((one for one in get_args(found) if _is_table(one)), found) if _optional(found) else found
    return found if _is_table(found) else None


def _optional(kind: Any) -> bool:
    return type(None) in get_args(kind)


def _is_table(kind: Any) -> bool:
    return hasattr(kind, "model_fields")
