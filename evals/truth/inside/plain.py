"""Turn what argument code takes and ends with into JSON: options, field values, exceptions, log lines."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import logging
import math
import os
import re
import traceback
import warnings
from typing import Any

DEEPEST = 6
LONGEST = 300
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DRAWN = re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def choices_of(parser: argparse.ArgumentParser) -> dict[str, list[str] | None]:
    """Return the option strings of a parser, each with its choices where it has some."""
    return {
        option: [str(choice) for choice in action.choices] if action.choices else None
        for action in parser._actions
        for option in action.option_strings
    }


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON types; what is neither data nor a record of data becomes its short text."""
    if depth > DEEPEST:
        return repr(type(value))
    deeper = depth + 1
    match value:
        case None | bool() | str() if not isinstance(value, enum.Enum):
            return value
        case int():
            return int(value)
        case enum.Enum():
            return plain(value.value, deeper) if isinstance(value.value, str) else value.name
        case float():
            return value if math.isfinite(value) else repr(value)
        case dict():
            keyed = ((k.value if isinstance(k, enum.Enum) else k, v) for k, v in value.items())
            return {str(k): plain(v, deeper) for k, v in keyed}
        case set() | frozenset():
            return sorted((plain(one, deeper) for one in value), key=str)
        case list() | tuple():
            return [plain(one, deeper) for one in value]
    names = _names(value)
    if names is not None:
        return {name: plain(getattr(value, name, None), deeper) for name in names}
    return _ADDRESS.sub("", repr(value))[:LONGEST]


def _names(value: Any) -> list[str] | None:
    """Return the fields of a dataclass or struct instance; None for anything else."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return [one.name for one in dataclasses.fields(value)]
    found = getattr(value, "__struct_fields__", None)
    return list(found) if found is not None else None


def without_places(text: str, models: str, site: str) -> str:
    """Take this machine's folders and identifiers drawn at random out of a record's JSON."""
    return _DRAWN.sub("<uuid>", text.replace(models, "{M}").replace(f"{site}/", ""))


def raised(error: BaseException, site: str) -> dict[str, Any]:
    """Return an exception as a record: type, message, the innermost line, and that inside the engine."""
    where = innermost = None
    for frame in traceback.extract_tb(error.__traceback__):
        innermost = f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}"  # noqa: PTH119
        if frame.filename.startswith(site):
            where = f"{frame.filename[len(site) :].lstrip('/')}:{frame.lineno} {frame.name}"
    return {
        "type": type(error).__name__,
        "message": str(error)[:1500],
        "where": where,
        "innermost": innermost,
    }


def keep_logs(kept: list[list[str]], site: str) -> None:
    """Keep what is logged at INFO and above, and the engine's own warnings once each."""
    handle = logging.Logger.callHandlers

    def keep(self: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= logging.INFO:
            kept.append([record.levelname, record.name, record.getMessage()[:600]])
        handle(self, record)

    def warned(
        message: Warning | str, category: type[Warning], filename: str, *args: Any, **options: Any
    ) -> None:
        entry = ["WARNING", "py.warnings", f"{category.__name__}: {message}"[:600]]
        if entry not in kept and (category is UserWarning or filename.startswith(site)):
            kept.append(entry)

    logging.Logger.callHandlers = keep  # type: ignore[method-assign]
    warnings.simplefilter("always")
    warnings.showwarning = warned
