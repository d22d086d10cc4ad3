"""Read the answer of `settings` as the lines of a search: definitions, judged assignments, guards, readers.

So everything that explains, claims and proposes works on one form, whichever tool read the source.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent.guard_claims import truth
from agent.models.views import Facts, View, rows

_VERDICTS = {"fires": "true", "cannot fire": "false"}
_KEYWORD = re.compile(r"^(?:if|elif|while|assert)\b")


def answered(view: View) -> set[str]:
    """Return the names of the settings that a view explains."""
    settings = view.get("settings")
    return set(settings) if isinstance(settings, dict) and isinstance(view.get("artifacts"), dict) else set()


def as_search(view: View, facts: Facts) -> View:
    """Return the lines that a view of `settings` shows, in the order of the files, as a view of `grep`."""
    if not answered(view):
        return {"results": []}
    folder = str(view.get("source") or "")
    paths = {str(handle): f"{folder}/{path}" for path, handle in view["artifacts"].items()}
    found: dict[str, dict[tuple[int, str], dict[str, Any]]] = {}
    for name, setting in view["settings"].items():
        for place, match in _matches(str(name), setting if isinstance(setting, dict) else {}, view, facts):
            handle, first, last = _parts(place)
            if handle not in paths or not match.get("text"):
                continue
            match |= {"line": first} | ({"last_line": last} if last > first else {})
            kept = found.setdefault(handle, {})
            if match["kind"] == "write" or (first, "write") not in kept:
                kept[first, "write" if match["kind"] == "write" else ""] = match
    results = [
        {"artifact": handle, "path": paths[handle], "matches": [kept[at] for at in sorted(kept)]}
        for handle, kept in sorted(found.items(), key=lambda item: paths[item[0]])
    ]
    return {"results": results}


def _matches(name: str, setting: View, view: View, facts: Facts) -> Iterator[tuple[str, dict[str, Any]]]:
    default = setting.get("default")
    if isinstance(default, dict):
        yield str(default.get("at")), {"kind": "definition", "text": str(default.get("text", ""))}
    for group in rows(setting, "assigned"):
        text = str(group.get("text", ""))
        for row in rows(group, "rows"):
            guards = [_guard(one, group, view, facts) for one in rows(row, "guards") or [row]]
            yield from ((str(one["at"]), {"kind": "guard", "text": one["source"]}) for one in guards)
            verdict = _VERDICTS.get(str(group.get("result")), "unknown")
            write = {"kind": "write", "text": text, "value": _written(text), "verdict": verdict}
            own = [one for one in guards if not one.pop("of")]
            if verdict == "true" and any(one["unproven"] for one in own):
                # That it happens rests on every guard, so no single one proves it.
                own = [one | {"unproven": True} for one in own]
            yield str(row.get("at")), write | {"guards": own}
    for reader in rows(setting, "readers"):
        places = reader.get("at")
        for place in places if isinstance(places, list) else []:
            yield str(place), {"kind": "read", "text": str(reader.get("text", ""))}


def _written(text: str) -> str:
    """Return the value that an assignment writes, without brackets that are there for the layout alone."""
    value = text.rpartition(" = ")[2].strip()
    return value[1:-1].strip() if value.startswith("(") and value.endswith(")") else value


def _guard(one: View, group: View, view: View, facts: Facts) -> dict[str, Any]:
    """Return a guard as `grep` tells it, with a quote for each value that decides it."""
    since = one.get("since")
    given = since if isinstance(since, dict) else {}
    source, place = str(one.get("guard", "")), str(one.get("guard_at", ""))
    decided_by = [_fact(str(name), value, view, facts) for name, value in given.items()]
    because = ", ".join(f"{name} is {value!r}" for name, value in given.items())
    _, first, last = _parts(place)
    return {
        "at": place,
        "line": first,
        "last_line": last,
        "source": source,
        "condition": source,
        "verdict": str(one.get("verdict") or _VERDICTS.get(str(group.get("result")), "unknown")),
        "because": because or str(one.get("because", "")),
        "decided_by": [fact for fact in decided_by if fact],
        "unproven": not given or not all(decided_by) or not _decided(source, given),
        "of": str(one.get("of", "")),
    }


def _fact(name: str, value: Any, view: View, facts: Facts) -> dict[str, Any]:
    """Return where a value is quoted from: the launch line, the engine's own word, or a line of source."""
    places = view.get("facts")
    if isinstance(places, dict) and name in places:
        place = places[name]
        if not isinstance(place, dict):
            return {}
        handle, first, last = _parts(str(place.get("at")))
        told = {"artifact": handle, "line": first, "last_line": last, "text": str(place.get("text", ""))}
        return {"name": name, "value": value, "origin": "default"} | told
    if facts.flag_quote(name) is not None:
        return {"name": name, "value": value, "origin": "flag"}
    handle = str(view["artifacts"].get("server_info", ""))
    text = f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
    fact = {"name": name, "value": value, "origin": "effective", "artifact": handle, "text": text}
    return fact if handle else {}


def _decided(source: str, given: Mapping[str, Any]) -> bool:
    """Tell whether the values decide a guard by themselves, as the verifier will judge it."""
    text = _KEYWORD.sub("", source.partition("  #")[0]).rstrip(": ")
    text += ")" * (text.count("(") - text.count(")"))
    try:
        node = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return truth(node, given) is not None


def _parts(place: str) -> tuple[str, int, int]:
    """Return handle, first and last line of a place."""
    handle, _, lines = place.rpartition(":")
    first, _, last = lines.partition("-")
    return (handle, int(first), int(last or first)) if first.isdigit() else (handle, 0, 0)
