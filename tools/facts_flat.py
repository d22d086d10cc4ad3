"""Lay the facts of a host out as plain lines: what stays the same while nobody changes anything.

Load, power, clocks in use and free memory are left out: they differ at every look and tell no change.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

Flat = dict[str, str]
"""Name of a fact, such as ``sglang.service flag pp_size``, to its value."""

LONGEST: Final = 300
"""Characters of a value that are kept; a longer one is cut, and told apart by a digest."""
_MOST: Final = 2000
_LIVE: Final = frozenset({"effective", "health", "package_record", "package_files"})
_HEADER = re.compile(r"^# (/\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Look:
    """Hold what one look at a host found, and when it was taken."""

    facts: Flat
    at: datetime
    clock_s: float = 0.0
    """How far the host's clock is from ours, at least: positive ahead, negative behind."""


def looked(host: str) -> str:
    """Return the name under which `ToolContext.cache` holds the last `Look` at a host."""
    return f"facts of {host}"


def text_of(value: object) -> str:
    """Return a value as one short line; true and false as launch lines and JSON write them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = " ".join(str(value).split())
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}... [{hashlib.sha256(text.encode()).hexdigest()[:12]}]"


def unit_files(texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return, by unit, the digest of each file that ``systemctl cat`` printed."""
    found: dict[str, dict[str, str]] = {}
    for unit, text in texts.items():
        pieces = _HEADER.split(text)
        for path, body in zip(pieces[1::2], pieces[2::2], strict=False):
            digest = hashlib.sha256(body.strip().encode()).hexdigest()[:16]
            found.setdefault(unit, {})[path] = f"sha256:{digest}"
    return found


def flatten(view: Mapping[str, Any], files: Mapping[str, Mapping[str, str]] | None = None) -> Flat:
    """Return the lasting facts of a view of `facts`; ``files`` are the digests of unit files."""
    rows = [*_machine(view), *_services(view, files or {}), *_engines(view)]
    return {name: text_of(value) for name, value in rows[:_MOST] if value not in (None, "", [], {})}


def _machine(view: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    system = _part(view, "os")
    yield "os", system.get("name")
    yield "kernel", system.get("kernel")
    hardware = _part(view, "hardware")
    yield "cpus", hardware.get("cpus")
    yield "memory_gib", hardware.get("memory_gib")
    for name, value in _part(view, "driver").items():
        yield f"driver {name}", value
    for row in _rows(hardware, "gpus"):
        limit = row.get("power_limit_w")
        told = [row.get("name"), f"{row.get('memory_mib')} MiB", f"limit {text_of(limit)} W" if limit else ""]
        yield f"gpu {row.get('index')}", ", ".join(str(one) for one in told if one)
    for kind in ("problems", "not_permitted"):
        for number, said in enumerate(view.get(kind) or [], 1):
            yield f"{kind} {number}", said


def _services(
    view: Mapping[str, Any], files: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, object]]:
    for row in _rows(view, "services"):
        unit = row.get("unit")
        for name in ("active", "restarts", "need_daemon_reload"):
            yield f"{unit} {name}", row.get(name)
        digests = files.get(str(unit), {})
        for path in [row.get("fragment"), *(row.get("dropins") or [])]:
            kind = "dropin" if str(path).endswith(".conf") else "file"
            if path:
                yield f"{unit} {kind} {path}", digests.get(str(path), "not read")
        for name, value in _part(row, "limits").items():
            yield f"{unit} limit {name}", value


def subject_of(engine: Mapping[str, Any]) -> str:
    """Return what an engine's facts are called by: its unit, else its kind and port."""
    return str(engine.get("unit") or f"{engine.get('engine')}:{engine.get('port')}")


def _engines(view: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    told: set[str] = set()
    for engine in _rows(view, "engines"):
        subject = subject_of(engine)
        # Containers may each have a port of one number: their facts do not mix, and the first one's count.
        if subject in told and engine.get("in_container"):
            continue
        told.add(subject)
        for name in ("engine", "version", "package_root", "port", "listening", "user", "cpus_allowed"):
            yield f"{subject} {name}", engine.get(name)
        yield f"{subject} since", engine.get("started_at")
        for name, value in _part(engine, "packages").items():
            yield f"{subject} package {name}", value
        for name, value in _part(engine, "flags").items():
            yield f"{subject} flag {name}", value
        for name, value in _part(engine, "environ").items():
            yield f"{subject} env {name}", value


def part_of(name: str) -> str:
    """Return which look a fact comes from: ``live`` is asked of the server, all else read on the host."""
    words = name.split(" ")
    return "live" if len(words) > 1 and words[1] in _LIVE else "facts"


def settled(name: str, before: str | None, after: str) -> str:
    """Return ``before`` where ``after`` is the same moment told a little otherwise, else ``after``.

    When a process started is computed from when the host did, which moves by a second as clocks are set.
    """
    if before is None or before == after or name.split(" ")[-1] != "since":
        return after
    try:
        apart = datetime.fromisoformat(after) - datetime.fromisoformat(before)
    except (ValueError, TypeError):
        return after
    return before if abs(apart.total_seconds()) <= 5 else after


def _part(view: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = view.get(name)
    return value if isinstance(value, dict) else {}


def _rows(view: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = view.get(name)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
