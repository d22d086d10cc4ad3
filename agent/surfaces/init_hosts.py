"""Ask which hosts a first settings file names: aliases of ``~/.ssh/config``, or addresses."""

from __future__ import annotations

import re
import socket
import sys
import threading
import tomllib
from collections.abc import Callable, Sequence

from agent.config import load_settings
from agent.errors import UsageError
from agent.ssh_aliases import ssh_aliases
from agent.surfaces.console import write_fitted
from agent.surfaces.init_file import Answers, name_of, text_of
from tools.display import printable
from tools.wrong_fields import nearest

_SHOWN = 20
_RESOLVE_S = 3.0
_BARE = re.compile(r"[A-Za-z0-9_-]*[A-Za-z_-][A-Za-z0-9_-]*")
"""A word that says neither a user, nor a domain, nor an address: an alias, a machine nearby, or a slip."""

_OWN = ("local", "localhost")
Resolves = Callable[[str], bool]


def ask_hosts(ask: Callable[[str, str], str], *, shows: bool) -> list[str]:
    """Ask until all that is named is there and can stand in one file; with ``shows`` list the aliases."""
    aliases = ssh_aliases(load_settings().ssh_config)
    for number, alias in enumerate(aliases[:_SHOWN], 1):
        if shows:
            write_fitted(f"  {number}  {printable(alias)}\n", sys.stderr)
    more = f" (and {len(aliases) - _SHOWN} more)" if len(aliases) > _SHOWN else ""
    where = f"of ~/.ssh/config{more}, numbers, names or all" if aliases else "as [user@]address"
    while True:
        try:
            hosts = picked(ask(f"Hosts to take, {where}, commas between (empty: none)", ""), aliases)
            check_hosts(hosts)
        except UsageError as error:
            write_fitted(f"{printable(str(error))}\n", sys.stderr)
        else:
            return hosts


def picked(line: str, aliases: Sequence[str], resolves: Resolves | None = None) -> list[str]:
    """Return the hosts that a line names by number, alias, address, or `all`; raise for what there is not."""
    found: list[str] = []
    for word in filter(None, (part.strip() for part in line.replace(",", " ").split())):
        if word == "all":
            found += aliases
        elif word.isdecimal() and word not in aliases:
            if not 0 < int(word) <= len(aliases):
                raise UsageError(f"there is no host {word}", do=f"numbers go from 1 to {len(aliases)}")
            found.append(aliases[int(word) - 1])
        elif _BARE.fullmatch(word) and word not in (*aliases, *_OWN) and not (resolves or _resolves)(word):
            near = nearest(word, aliases)
            raise UsageError(
                f"no host {word}: ~/.ssh/config has no such alias, and no address is known by that name"
                + (f"; nearest: {', '.join(near)}" if near else ""),
                do=f"to take it all the same, write its whole address, or USER@{word}",
            )
        else:
            found.append(word)
    return list(dict.fromkeys(found))


def check_hosts(hosts: Sequence[str]) -> None:
    """Raise `UsageError` for hosts that cannot stand in one file of settings."""
    names = [name_of(place) for place in hosts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"two hosts would be named {twice}", do="take one of them, and name the other by hand"
        )
    load_settings(**tomllib.loads(text_of(Answers(hosts=list(hosts)))))


def _resolves(name: str) -> bool:
    """Tell whether this machine knows an address for a name; one that is not found soon is none."""
    found: list[bool] = []

    def look() -> None:
        try:
            found.append(bool(socket.getaddrinfo(name, None)))
        except (OSError, UnicodeError):
            return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(_RESOLVE_S)
    return any(found)
