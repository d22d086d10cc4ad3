"""What is doubtful about settings that can be read: said in a line, and no reason to stop."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tools.display import printable

PREFIX: Final = "LEADLINE_"

_OTHERS: Final = re.compile(r"RUN|PORT(_.*)?|SERVICE_(HOST|PORT.*)")
"""Names that set nothing and are no mistake: the mark of a command on a host, what clusters put in pods."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Hold what is doubtful, and what to do about it."""

    what: str
    do: str


def unknown_variables(names: Iterable[str], settings: Collection[str], own: Collection[str]) -> list[Doubt]:
    """Return those variables that look like settings and are none; ``own`` are names that a person chose."""
    found = []
    known = [setting.upper() for setting in settings]
    for name in sorted(names):
        table, *rest = name.upper().removeprefix(PREFIX).split("__")
        if not name.upper().startswith(PREFIX) or table in known or name in own or _OTHERS.fullmatch(table):
            continue
        near = difflib.get_close_matches(table, known, n=1, cutoff=0.5)
        do = f"nearest: {'__'.join([PREFIX + near[0], *rest])}" if near else "see: leadline config show"
        found.append(Doubt(f"the variable {name} sets nothing: there is no such setting", do))
    return found


_told: set[Doubt] = set()


def tell(found: Iterable[Doubt]) -> None:
    """Write each doubt to stderr once: settings are read again as long as a process runs."""
    for one in found:
        if one not in _told:
            sys.stderr.write(printable(f"  warning: {one.what}; {one.do}") + "\n")
        _told.add(one)
