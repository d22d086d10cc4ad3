"""Turn the files that an investigation read into a scenario's files: outside of packages, and bounded."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from evals.capture_units import allowed, here
from evals.captured_host import HostRecord, Output

MOST_BYTES: Final = 64 << 10
MOST_IN_ALL: Final = 512 << 10
_OWN: Final = frozenset(
    f"/etc/{name}"
    for name in (
        "passwd",
        "group",
        "shadow",
        "hosts",
        "hostname",
        "nsswitch.conf",
        "machine-id",
        "os-release",
        "debian_version",
        "profile",
        "ld.so.cache",
        "ld.so.preload",
    )
)
"""Files that a lab host brings itself: who its account is, and what its name is, must fit the lab."""
_UNITS: Final = ("/etc/systemd/system/", "/run/systemd/", "/usr/lib/systemd/", "/lib/systemd/")
_PACKAGES = re.compile(r"/(?:site|dist)-packages/")


def files(record: HostRecord, skip: set[str]) -> tuple[dict[str, str], list[str]]:
    """Return path to content, and what could not be recorded; ``skip`` names paths that stand elsewhere."""
    made: dict[str, str] = {}
    missing: list[str] = []
    room = MOST_IN_ALL
    for output in record.outputs:
        path = output.ref.path
        if path is None or path.startswith("/proc/") or _PACKAGES.search(path):
            continue
        place = here(path)
        if place in made and output.ref.first_line != 1:
            continue
        if place in skip or place.startswith(_UNITS):
            continue  # it stands under `units`
        why = _why_not(place, room)
        if why:
            missing.append(f"{place}: {why}")
            continue
        text, note = _content(output)
        made[place] = text
        room -= len(text.encode())
        if note:
            missing.append(f"{place}: {note}")
    return made, [one for one in dict.fromkeys(missing) if not one.endswith(": ")]


def _why_not(path: str, room: int) -> str:
    if path in _OWN:
        return "the lab host has its own"
    if ".." in PurePosixPath(path).parts or not path.isprintable():
        return "its path cannot be used"
    if not allowed(path):
        return "a scenario's files do not go there"
    return "" if room > 0 else f"more than {MOST_IN_ALL >> 10} KiB of files were read"


def _content(output: Output) -> tuple[str, str]:
    """Return a file's text, lines before the part that was read left empty, and what is missing of it."""
    text = here(output.text)
    notes = []
    if output.ref.first_line > 1:
        text = "\n" * min(output.ref.first_line - 1, 20_000) + text
        notes.append(f"its lines before {output.ref.first_line}")
    if not output.ref.complete:
        notes.append("its end")
    data = text.encode("utf-8", "replace")
    if len(data) > MOST_BYTES:
        text = data[:MOST_BYTES].decode("utf-8", "ignore")
        text = text[: text.rfind("\n") + 1] or text
        notes.append(f"all after its first {MOST_BYTES >> 10} KiB")
    return text, ", ".join(notes)
