"""Print the settings in force and what gave each its value: ``leadline config show`` and ``config path``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from agent.config import Settings, config_files, load_settings, origin_of
from agent.config_rules import leaves
from agent.config_sources import RANKS, Origin
from agent.errors import UsageError
from tools.display import printable
from tools.redact import redact


def show_config(words: list[str], flags: dict[str, str | None], *, as_json: bool) -> None:
    """Print every setting, or those whose names begin with one of the words, with its origin."""
    given: dict[str, object] = {name: value for name, value in flags.items() if value is not None}
    settings = load_settings(**given)
    rows = [row for row in _rows(settings, given) if not words or _wanted(row[0], words)]
    if not rows:
        raise UsageError(
            f"no setting begins with {', '.join(words)}", do="see all with `leadline config show`"
        )
    if as_json:
        found = {name: {"value": value, **_origin(origin)} for name, value, origin in rows}
        sys.stdout.write(json.dumps({"files": _files(), "settings": found}) + "\n")
        return
    for file in _files():
        sys.stdout.write(f"# {file['rank']}: {file['path']}{'' if file['there'] else ' (not there)'}\n")
    width = min(max(len(_line(name, value)) for name, value, _ in rows), 60)
    for name, value, origin in rows:
        sys.stdout.write(f"{_line(name, value):<{width}}  # {printable(origin.text)}\n")


def show_paths(*, as_json: bool) -> None:
    """Print where settings are read, what counts least first, and which of the files are there."""
    if as_json:
        sys.stdout.write(json.dumps(_files()) + "\n")
        return
    for file in _files():
        sys.stdout.write(f"{file['rank']:<8}{file['path']}  ({'read' if file['there'] else 'not there'})\n")


def _files() -> list[dict[str, Any]]:
    return [
        {"rank": rank, "path": str(path.absolute()), "there": path.is_file()}
        for rank, path in zip(RANKS, config_files(), strict=True)
    ]


def _rows(settings: Settings, flags: dict[str, object]) -> Iterator[tuple[str, Any, Origin]]:
    for place, value in leaves(settings.model_dump(mode="json")):
        yield ".".join(place), _masked(value), origin_of(place, flags, settings.named_model)


def _wanted(name: str, words: list[str]) -> bool:
    return any(name == word or name.startswith((f"{word}.", word)) for word in words)


def _masked(value: Any) -> Any:
    """Return a value with what looks like a secret in it masked: an address may hold a password."""
    if isinstance(value, str):
        return redact(value.encode()).decode("utf-8", "replace")
    return [_masked(one) for one in value] if isinstance(value, list) else value


def _line(name: str, value: Any) -> str:
    return printable(f"{name} = {_toml(value)}")


def _toml(value: Any) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _origin(origin: Origin) -> dict[str, Any]:
    return {"from": origin.kind, "name": origin.name or None, "line": origin.line}
