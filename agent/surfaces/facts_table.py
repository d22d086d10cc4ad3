"""Put the facts of hosts side by side as text: a row a host, then what differs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent.looks import Seen
from agent.surfaces.wrapping import wrapped
from tools.display import printable
from tools.history_diff import differences, kind_of
from tools.text_table import table

_MOST_DIFFERENCES: Final = 40
_OWN: Final = frozenset({"since", "restarts", "cpus", "memory_gib", "file", "user", "package_files"})
"""Kinds of facts that are a host's own, so that to list them as a difference says little."""


HEAD: Final = ("HOST", "UNIT", "ENGINE", "VERSION", "HEALTH", "GPUS", "DRIVER", "SINCE")


def rows_of(seen: Seen) -> list[tuple[str, ...]]:
    """Return a row an engine of a host; one that is down, or runs none, has one that says so."""
    if seen.problem:
        return [(seen.host, "not reached", *[""] * (len(HEAD) - 2))]
    machine = (gpus_of(seen.view), str((seen.view.get("driver") or {}).get("nvidia") or ""))
    engines = seen.view.get("engines") or []
    if not engines:
        return [(seen.host, "no engine is seen", "", "", "", *machine, "")]
    healths = {row["engine"]: row["health"] for row in seen.view.get("engine_state") or []}
    found = []
    for engine in engines:
        subject = str(engine.get("unit") or f"{engine.get('engine')}:{engine.get('port')}")
        named = [engine.get("engine"), engine.get("version"), healths.get(subject)]
        shown = f"{subject} (in a container)" if engine.get("in_container") is True else subject
        found.append((seen.host, shown, *(str(one or "?") for one in named), *machine, _since(engine)))
    return found


def gpus_of(view: Mapping[str, Any]) -> str:
    """Return the GPUs of a host in a few words, those of one kind together."""
    counts: dict[str, int] = {}
    for row in (view.get("hardware") or {}).get("gpus") or []:
        name = str(row.get("name")).removeprefix("NVIDIA ")
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none"


def _since(engine: Mapping[str, Any]) -> str:
    return str(engine.get("started_at") or "?").replace("+00:00", "Z")


def told(looks: Sequence[Seen], width: int | None = None) -> str:
    """Return the table, what differs between the hosts, and what changed on each since it was looked at.

    With a ``width``, that of a terminal, lines are broken between words.
    """
    head = table(HEAD, [row for seen in looks for row in rows_of(seen)], width)
    return head + (wrapped(_below(looks), width) if width is not None else _below(looks))


def _below(looks: Sequence[Seen]) -> str:
    text = "".join(
        printable(f"\n{seen.host}: not reached: {seen.problem}\n") for seen in looks if seen.problem
    )
    reached = {seen.host: seen.flat for seen in looks if not seen.problem}
    if len(reached) > 1:
        text += _differences(reached)
    for seen in looks:
        text += _changes(seen)
        damaged = seen.view.get("history_problems") or []
        text += "".join(printable(f"\n{seen.host}: history: {said}\n") for said in damaged)
    return text


def _differences(reached: Mapping[str, dict[str, str]]) -> str:
    found = [one for one in differences(reached) if kind_of(one.name) not in _OWN]
    if not found:
        return f"\nSettings are the same on {', '.join(reached)}.\n"
    lines = [f"  {printable(one.says())}" for one in found[:_MOST_DIFFERENCES]]
    if len(found) > _MOST_DIFFERENCES:
        lines.append(f"  and {len(found) - _MOST_DIFFERENCES} more; --json has them all")
    return "\nDiffers:\n" + "\n".join(lines) + "\n"


def _changes(seen: Seen) -> str:
    if seen.problem or not seen.changed:
        return ""
    lines = "".join(f"  {printable(line)}\n" for line in seen.changed)
    return f"\n{seen.host}: changed since {seen.before}:\n{lines}"
