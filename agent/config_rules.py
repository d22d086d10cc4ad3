"""What a settings file may say: a project's may only tighten, and nobody may loosen what the site's sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from agent.config_sources import NAMED, ConfigFile, wrong
from agent.errors import UsageError
from tools.wrong_fields import unknown_field

if TYPE_CHECKING:
    from pydantic import BaseModel

Location = tuple[str, ...]
_Way = Literal["any", "false", "true", "lower", "fewer", "more", "same"]

_TIGHTER: Final[Mapping[str, _Way]] = {
    "tools.allow_load": "false",
    "tools.allow_send_rg": "false",
    "tools.allow_in_flight": "false",
    "tools.allow_container_exec": "false",
    "tools.ask_engine": "false",
    "tools.view_chars": "any",
    "policy.free_form": "false",
    "approvals.requester_may_approve": "false",
    "approvals.expires_s": "lower",
    "approvals.roles.approver": "fewer",
    "approvals.roles.admin": "fewer",
    "audit.required": "true",
    "audit.copy_to": "more",
    "audit.max_bytes": "any",
}
"""How a value of a section that guards something is stricter than another; of all others only the same is."""

_PROJECT: Final[Mapping[str, _Way]] = {
    "model": "any",
    "judge_model": "any",
    "model_stream": "any",
    "model_retries": "any",
    "model_start_s": "any",
    "model_stall_s": "any",
    "context_tokens": "any",
    "max_turns": "lower",
    "max_tokens": "lower",
    "max_cost_usd": "lower",
    "max_wall_s": "lower",
    "experiment_max_s": "lower",
    "experiment_requests": "lower",
    "experiment_tokens": "lower",
}
"""What a project may say besides; the rest decides where keys and commands go, or who may do what."""

_WHOLE: Final = ("policy", "approvals", "audit")
"""Sections that are the site's as a whole once it has them: what it leaves out has its default there."""

SECTIONS: Final = (*_WHOLE, "tools")


def leaves(data: Mapping[str, Any], below: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Yield every single value of nested tables with where it stands."""
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*below, name))
        else:
            yield (*below, name), value


def check_project(model: type[BaseModel], files: Sequence[ConfigFile]) -> None:
    """Raise `UsageError` when a project's file says what it may not; a trusted folder is the person's own."""
    project = next((file for file in files if file.rank == "project"), None)
    if project is None or _trusted(project, files):
        return
    for location, value in leaves(project.data):
        if location[0] not in model.model_fields:
            raise wrong([project], unknown_field(model, location[:1]))
        empty = value == {} and (len(location) == 1 or location[0] not in NAMED)
        if not empty and not _may_say(location, value, _below(model, files, location)):
            raise UsageError(_refused(project, location), do=_instead(project, files))


def _trusted(project: ConfigFile, files: Sequence[ConfigFile]) -> bool:
    here = project.path.parent.resolve()
    if project.path.resolve().parent != here:  # a link to what was trusted elsewhere
        return False
    named = [
        name for file in files if file is not project for name in _names(file.data.get("trusted_projects"))
    ]
    return any(Path(name).expanduser().resolve() == here for name in named)


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _below(model: type[BaseModel], files: Sequence[ConfigFile], location: Location) -> Any:
    """Return what holds without the project: the last file below it that says something, else the default."""
    for file in reversed([file for file in files if file.rank != "project"]):
        if file.says(location):
            found: Any = file.data
            for part in location:
                found = found[part]
            return found
    found = model.model_fields.get(location[0])
    default = found.get_default(call_default_factory=True, validated_data={}) if found is not None else None
    for part in location[1:]:
        default = getattr(default, part, None)
    return default


def _may_say(location: Location, value: Any, below: Any) -> bool:
    name = ".".join(location)
    way = _PROJECT.get(name) or _TIGHTER.get(name) or "same"
    return way == "any" or (way not in ("fewer", "more", "same") and _tighter(way, value, below))


def _refused(project: ConfigFile, location: Location) -> str:
    name = ".".join(location)
    line = project.line(location)
    where = f"{project.path}" + (f" line {line}" if line else "")
    way = _PROJECT.get(name) or _TIGHTER.get(name)
    may = {"false": "only set it to false", "true": "only set it to true", "lower": "only lower it"}
    return f"{where}: {name} is not for a project to say" + (f", which may {may[way]}" if way in may else "")


def _instead(project: ConfigFile, files: Sequence[ConfigFile]) -> str:
    own = next((str(file.path) for file in files if file.rank == "person"), "your own settings file")
    here = project.path.parent.resolve()
    return f'write it in {own}, or trust this folder there: trusted_projects = ["{here}"]'


def loosened(site: ConfigFile, now: BaseModel) -> tuple[Location, Any, Any] | None:
    """Return where settings in force are looser than the site's file: place, its value, the one in force."""
    values = dict(leaves(now.model_dump(mode="json", include=set(SECTIONS))))
    for section in SECTIONS:
        said = site.data.get(section)
        if not isinstance(said, Mapping):
            continue
        wanted = {(section, *place): value for place, value in leaves(said)}
        if section in _WHOLE:
            default = type(getattr(now, section))().model_dump(mode="json")
            wanted = {(section, *place): value for place, value in leaves(default)} | wanted
        for place, value in wanted.items():
            have = values.get(place)
            if not _tighter(_TIGHTER.get(".".join(place), "same"), have, value):
                return place, value, have
    return None


def _tighter(way: _Way, value: Any, than: Any) -> bool:
    if way == "any" or value == than:
        return True
    match way:
        case "false":
            return value is False
        case "true":
            return value is True
        case "lower":
            return _number(value) and _number(than) and value <= than
        case "fewer":
            return isinstance(value, list) and isinstance(than, list) and set(value) <= set(than)
        case "more":
            return isinstance(value, list) and isinstance(than, list) and set(value) >= set(than)
        case _:
            return False


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def too_loose(site: ConfigFile, found: tuple[Location, Any, Any], by: str) -> UsageError:
    """Return what a person reads of a value that is looser than the site's, and what gave it."""
    place, wanted, have = found
    line = site.line(place)
    return UsageError(
        f"setting {'.'.join(place)} is {json.dumps(have)} by {by}, but {site.path}"
        + (f" line {line}" if line else "")
        + f" has {json.dumps(wanted)} for everybody on this machine",
        do="take yours out, or ask whoever runs it",
    )
