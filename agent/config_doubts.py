"""What is doubtful about settings that can be read: said in a line, and no reason to stop."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from agent.config_rules import leaves
from agent.config_sources import ConfigFile
from tools.display import printable

SECRETS: Final = ("api_key", "bot_token", "app_token", "signing_secret")
"""Settings that are a key, in whichever table."""

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


def exposed_keys(files: Iterable[ConfigFile]) -> list[Doubt]:
    """Return those files that hold a key and can be read by others, or belong to somebody else.

    A site's file may be read by a group, and root may own any.
    """
    found = []
    for file in files:
        keys = [".".join(place) for place, _ in leaves(file.data) if place[-1] in SECRETS]
        if not keys:
            continue
        seen = file.path.stat()
        where = f"{file.path} holds {keys[0]} and"
        path = shlex.quote(str(file.path))
        if seen.st_uid not in (0, os.geteuid()):
            whose = f"{where} belongs to another user ({seen.st_uid})"
            found.append(Doubt(whose, f"take it over: chown {os.geteuid()} {path}; or take the key out"))
        if file.rank == "site" and seen.st_mode & 0o007:
            do = f"chmod 640 {path}, with the group of those who may use the key"
            found.append(Doubt(f"{where} can be read by everybody", do))
        elif file.rank != "site" and seen.st_mode & 0o077:
            found.append(Doubt(f"{where} can be read by others", f"chmod 600 {path}"))
    return found


_told: set[Doubt] = set()


def tell(found: Iterable[Doubt]) -> None:
    """Write each doubt to stderr once: settings are read again as long as a process runs."""
    for one in found:
        if one not in _told:
            sys.stderr.write(printable(f"  warning: {one.what}; {one.do}") + "\n")
        _told.add(one)
