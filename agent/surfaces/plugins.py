"""Find what other packages register under an entry point group, without the cost of ``importlib.metadata``.

That module pulls in the e-mail parser and reads every distribution, which is a fifth of the time that
``leadline --help`` takes; here only the small ``entry_points.txt`` files are looked at.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any


@cache
def registered(group: str) -> dict[str, str]:
    """Return name to ``module`` or ``module:attribute`` of every entry of the group."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):
        for path in Path(folder or ".").glob("*.dist-info/entry_points.txt"):
            found |= {name: value for name, value in _entries(path, group).items() if name not in found}
    return found


def _entries(path: Path, group: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    inside = False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            inside = line.strip() == f"[{group}]"
        elif inside and "=" in line:
            name, _, value = line.partition("=")
            entries[name.strip()] = value.strip()
    return entries


def load(group: str, name: str) -> Any:
    """Import what an entry names; None when nothing is registered under that name."""
    value = registered(group).get(name)
    if value is None:
        return None
    module, _, attribute = value.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
