"""The scenarios by name, with a line of each, read without what it takes to load one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).with_name("scenarios")
_HEAD = 2_000
_SAYS = re.compile(r"^description: *(.+)$", re.MULTILINE)


def told() -> Iterator[tuple[str, str]]:
    """Yield name and description of every scenario that comes with Leadline."""
    for path in sorted(FOLDER.glob("*.yaml")):
        with path.open(encoding="utf-8") as file:
            said = _SAYS.search(file.read(_HEAD))
        yield path.stem, said[1].strip().strip("\"'") if said else ""
