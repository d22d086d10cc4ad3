"""Find our own secrets as they were given, where the settings as a whole are wrong or were never read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, SecretStr

_MOST_BYTES = 1 << 20


def given(settings: type[BaseModel], environment: Mapping[str, str], files: Iterable[Path]) -> Iterator[str]:
    """Yield what stands in files and variables by the name of a secret, or in a variable that a file names.

    It looks at text: a file that cannot be read as TOML, or a variable that holds no JSON, may have secrets.
    """
    names = "|".join(sorted(set(_names(settings))))
    in_text = re.compile(rf"""["']?\b(?:{names})["']?\s*[=:]\s*(["'])(.+?)\1""", re.IGNORECASE)
    by_name = re.compile(rf"(?:.*_)?(?:{names})", re.IGNORECASE)
    variables: set[str] = set()
    for path in files:
        text = _text(path)
        yield from (found[2] for found in in_text.finditer(text))
        variables.update(found[1] for found in re.finditer(r"""_env\s*=\s*["'](\w+)["']""", text))
    for name, value in environment.items():
        if name in variables or by_name.fullmatch(name):
            yield value
        elif name.upper().startswith("LEADLINE_"):
            yield from (found[2] for found in in_text.finditer(value))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _names(model: type[BaseModel]) -> Iterator[str]:
    """Yield the name of every field, at any depth, that holds a secret."""
    for name, field in model.model_fields.items():
        for kind in _kinds(field.annotation):
            if issubclass(kind, SecretStr):
                yield name
            elif issubclass(kind, BaseModel):
                yield from _names(kind)


def _kinds(annotation: object) -> Iterator[type]:
    """Yield the classes that an annotation is made of."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)
