"""Find out which investigation is meant, and what is said to it, where the command line leaves words out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.config import load_settings
from agent.errors import UsageError

_HOSTS = re.compile(r"[\w.@:#,\[\]/=-]+")
NO_HOST = "-"
"""In place of a host: only the log on standard input is judged."""


@dataclass(frozen=True, slots=True)
class Meant:
    """Hold the hosts as the command line names them, what is said, and the thread that is gone on with."""

    host: str
    text: str
    thread: str | None


def meant(host: str, text: str, resume: str | None, *, last: bool, example: str) -> Meant:
    """Return what is meant; with a thread to go on with, HOST may be left out and the first word be said."""
    if last and resume is not None:
        raise UsageError("--resume and --last both name an investigation", do="leave one out")
    if not last and resume is None:
        if not host:
            raise UsageError("name a host", do=f"for example: {example}")
        return Meant(host, text, None)
    from agent import threads  # it reads transcripts, which a new investigation has none of

    settings = load_settings()
    thread = threads.latest(settings) if resume is None else resume
    started = threads.started(settings, thread)
    if not text and host and not _HOSTS.fullmatch(host):
        host, text = "", host
    return Meant(
        host or ",".join(started.hosts) or NO_HOST,
        "" if text == started.symptom else text,
        thread,
    )
