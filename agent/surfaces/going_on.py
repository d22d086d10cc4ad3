"""Find out which investigation is meant, and what is said to it, where the command line leaves words out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.config import Settings, load_settings
from agent.errors import UsageError
from agent.inventory import ALL, LOCAL, Inventory
from agent.ssh_aliases import ssh_aliases

_HOSTS = re.compile(r"[\w.@:#,\[\]/=-]+")
NO_HOST = "-"
"""In place of a host: only the log on standard input is judged."""


_ADDRESS = re.compile(r"[@:#\[]|\w\.\w")
"""What stands in the address of a host, and in hardly a word that is said alone."""


@dataclass(frozen=True, slots=True)
class Meant:
    """Hold the hosts that are worked on, what is said, and the thread that is gone on with."""

    host: str
    text: str
    thread: str | None


def meant(host: str, text: str | None, resume: str | None, *, last: bool, example: str) -> Meant:
    """Return what is meant; with a thread to go on with, HOST may be left out and the first word be said.

    A thread has its own hosts, whatever is written: they alone decide what may be done there. ``text`` is
    None where nothing can be said.
    """
    if last and resume is not None:
        raise UsageError("--resume and --last both name an investigation", do="leave one out")
    if not last and resume is None:
        if not host:
            raise UsageError("name a host", do=f"for example: {example}")
        return Meant(host, text or "", None)
    from agent import threads  # it reads transcripts, which a new investigation has none of

    settings = load_settings()
    thread = threads.latest(settings) if resume is None else threads.named(settings, resume)
    started = threads.started(settings, thread)
    if host and not _names(host, started.hosts, settings):
        if text is None or text or _is_host(host, settings):
            on = ", ".join(started.hosts) or "no host"
            raise UsageError(f"{thread} is about {on}, not about {host!r}", do="leave the host out")
        text = host
    return Meant(
        ",".join(started.hosts) or NO_HOST,
        "" if text is None or text == started.symptom else text,
        thread,
    )


def _names(word: str, hosts: Sequence[str], settings: Settings) -> bool:
    """Tell whether a word names a host of these; a simulated one also by its scenario alone."""
    if not hosts:
        return word == NO_HOST
    if not _HOSTS.fullmatch(word):
        return False
    try:
        found = Inventory.of(settings).select(word)
    except UsageError:  # nearly a name of the inventory, or a group that there is not
        return False
    return any(one in (host, host.partition("#")[0]) for one in found for host in hosts)


def _is_host(word: str, settings: Settings) -> bool:
    """Tell whether a word that could be said alone is a host's name instead."""
    inventory = Inventory.of(settings)
    known = (*inventory.entries, *ssh_aliases(inventory.ssh_config), LOCAL, ALL, NO_HOST)
    return _HOSTS.fullmatch(word) is not None and (word in known or _ADDRESS.search(word) is not None)
