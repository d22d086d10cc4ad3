"""Where a launch flag stands: which file of the unit, since when, and what its comments say of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent.models.views import Facts


@dataclass(frozen=True, slots=True)
class Place:
    """Hold one line of a unit's files."""

    path: str
    line: int
    text: str


def places(option: str, unit_text: str) -> list[Place]:
    """Return the lines of ``systemctl cat`` output that hold the option and that no later file undoes."""
    found: list[Place] = []
    for place in _lines(unit_text):
        if _is_comment(place):
            continue
        words = [word.strip("\"'") for word in place.text.replace("=", " ").split()]
        if place.text.replace(" ", "").rstrip("\\") == "ExecStart=":
            found = [one for one in found if one.text.startswith("Environment")]
        elif option in words:
            found.append(place)
    return found


def written_reason(option: str, setting: str, unit_text: str) -> Place | None:
    """Return the comment right above the line that holds the option, else one that shares a word with it."""
    lines = list(_lines(unit_text))
    for place in reversed(places(option, unit_text)):
        for above in reversed(lines[: lines.index(place)]):
            if above.path != place.path:
                break
            if _is_comment(above):
                return above
            if not above.text.endswith("\\") and above.text not in ("ExecStart=", "[Service]"):
                break
    wanted = {word for word in setting.split("_") if len(word) > 3} - {"disable", "enable", "size"}
    near = [line for line in lines if _is_comment(line) and any(w in line.text.lower() for w in wanted)]
    return near[0] if near else None


def _is_comment(place: Place) -> bool:
    return place.text.startswith(("#", ";"))


def _lines(unit_text: str) -> Iterator[Place]:
    path, number = "", 0
    for line in unit_text.splitlines():
        number += 1
        if line.startswith("# /"):
            path, number = line[2:].strip(), 0
        elif line.strip():
            yield Place(path, number, line.strip())


def standing(option: str, facts: Facts, unit_text: str) -> str:
    """Say in a sentence where the option stands, and when a unit's files are not what runs."""
    if not facts.unit:
        return f"It stands on the command line of process {facts.pid}, which no unit owns."
    found = places(option, unit_text)
    if not unit_text:
        return f"It stands on the command line of {facts.unit}; the unit's files could not be read."
    if not found:
        return _not_in_files(option, facts)
    lines = {path: [str(place.line) for place in found if place.path == path] for path in _paths(found)}
    where = ", ".join(f"{path} line {' and '.join(numbers)}" for path, numbers in lines.items())
    twice = f" It is given {len(found)} times; all of them must go." if len(found) > 1 else ""
    reload = (
        " The files changed since systemd loaded them." if facts.service.get("need_daemon_reload") else ""
    )
    return f"It stands in {where}.{twice}{reload}"


def _paths(found: list[Place]) -> list[str]:
    return list(dict.fromkeys(place.path for place in found))


def differences(facts: Facts, unit_text: str) -> list[str]:
    """Return where a unit is not what runs, but for flags that its files do hold, in a variable."""
    rows = [str(row) for row in facts.service.get("differs") or []]
    return [row for row in rows if not places(_option(row), unit_text)]


def _option(row: str) -> str:
    name = row.partition("=")[0].partition(":")[0]
    return "--" + name.strip().replace("_", "-")


def _not_in_files(option: str, facts: Facts) -> str:
    stale = facts.service.get("need_daemon_reload") or facts.service.get("differs")
    text = f"The running process has {option}, the files of {facts.unit} do not"
    if stale:
        return (
            f"{text} (any more): they were edited after the start. "
            "`systemctl daemon-reload` and a restart are all that is needed."
        )
    return f"{text}: it comes from a variable, an EnvironmentFile or a wrapper script; look there."
