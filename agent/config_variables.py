"""Find the variable of the environment that a setting was taken from, and the setting behind an alias."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import AliasChoices

from agent.config_doubts import PREFIX

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tools.wrong_fields import WrongField

_FIELD = re.compile(r'field "(\w+)"')


def variable_of(
    model: type[BaseModel], environment: Mapping[str, str], location: Sequence[str | int]
) -> str | None:
    """Return the variable that sets a setting: its own, or one of a table around it that holds JSON."""
    place = [str(part) for part in location]
    if not place or place[0] not in model.model_fields:
        return None
    there = {name.upper(): value for name, value in environment.items()}
    for top in _aliases(model, place[0]):
        for end in range(len(place), 0, -1):
            name = "__".join([top, *place[1:end]]).upper()
            if name in there and (end == len(place) or json_says(there[name], location[end:])):
                return name
    return None


def json_says(text: str, location: Sequence[str | int]) -> bool:
    """Tell whether a variable that holds a table as JSON sets something at a location in it."""
    try:
        found = json.loads(text)
    except ValueError:
        return False
    for part in location:
        if isinstance(found, list) and isinstance(part, int):
            return part < len(found)
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return True


def by_its_own_name(model: type[BaseModel], found: WrongField) -> WrongField:
    """Return what is wrong under the name of the setting: pydantic tells the first of its aliases."""
    names = {alias: field for field in model.model_fields for alias in _aliases(model, field)}
    if not found.place or found.place[0] not in names:
        return found
    place = (names[str(found.place[0])], *found.place[1:])
    return replace(found, place=place, field=".".join(map(str, place)))


def not_json(said: str) -> str:
    """Return which variable holds no JSON, by what the reader of the environment said."""
    field = _FIELD.search(said)
    return f"{PREFIX}{field[1].upper()}" if field else f"a variable {PREFIX}..."


def _aliases(model: type[BaseModel], field: str) -> list[str]:
    alias = model.model_fields[field].validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [f"{PREFIX}{field}"]
    return [str(one).upper() for one in choices if str(one) != field]
