"""What the lint of a launch line finds, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from tools.display import printable
from tools.settings.types import Cite

Kind = Literal[
    "unknown_flag",
    "other_engine",
    "deprecated",
    "bad_choice",
    "bad_type",
    "missing_value",
    "ambiguous_prefix",
    "abbreviated",
    "rejected",
    "silently_changed",
    "unknown_environment",
    "duplicate",
]
Level = Literal["error", "warning", "note"]
"""An error keeps the engine from starting; a warning says that what is written is not what will be."""

_ERRORS: Final = frozenset(
    {
        "unknown_flag",
        "other_engine",
        "bad_choice",
        "bad_type",
        "missing_value",
        "ambiguous_prefix",
        "rejected",
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Name one thing about a launch line that this version refuses, changes, or does not know."""

    kind: Kind
    flag: str
    """As written; empty where the line as a whole is meant."""
    message: str
    nearest: str | None = None
    """What was likely meant, as this version spells it."""
    cite: Cite | None = None
    sure: bool = True
    """False where the source was not read so far that an error is certain."""

    @property
    def level(self) -> Level:
        """Return how much it matters."""
        if self.kind in _ERRORS:
            return "error" if self.sure else "warning"
        return "note" if self.kind == "abbreviated" else "warning"

    def __str__(self) -> str:
        where = f" ({self.cite})" if self.cite is not None else ""
        return printable(f"{self.message}{where}")


def shown(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Return problems as JSON types, in their order."""
    return [
        {
            "level": problem.level,
            "kind": problem.kind,
            "flag": problem.flag,
            "message": problem.message,
            "nearest": problem.nearest,
            "cite": str(problem.cite) if problem.cite is not None else None,
        }
        for problem in problems
    ]


def lines(problems: Iterable[Problem]) -> list[str]:
    """Return one line for people of each problem; one that says that there is none."""
    return [f"{problem.level}: {problem}" for problem in problems] or [
        "nothing to say against this launch line"
    ]
