"""Which searches of the installed source a setting asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import re2

from prompts.playbooks import Playbook


def definition_grep(settings: Sequence[str], pid: int) -> dict[str, Any]:
    """Search the lines that define settings with a default, as fields of a class."""
    names = "|".join(re2.escape(name) for name in settings)
    return {"pattern": rf"^    ({names}): .*=", "pid": pid, "judge": False, "max_matches": 40}


def writes_grep(name: str, pid: int, paths: Sequence[str]) -> dict[str, Any]:
    """Search the assignments of a setting, in the file that defines it when there is just one."""
    arguments: dict[str, Any] = {"pattern": rf"\.{re2.escape(name)} = ", "pid": pid, "max_matches": 60}
    return arguments | ({"path": paths[0]} if len(paths) == 1 else {})


def readers_grep(book: Playbook, pid: int) -> dict[str, Any] | None:
    """Search the lines that a playbook's source claims and predictions name."""
    patterns = [claim.pattern for claim in book.source]
    patterns += [prediction.find for prediction in book.predictions if prediction.probe == "source"]
    if not patterns:
        return None
    joined = "|".join(f"(?:{pattern})" for pattern in dict.fromkeys(patterns))
    return {"pattern": joined, "pid": pid, "max_matches": 30}
