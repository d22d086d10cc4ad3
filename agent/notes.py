"""Notes that people give: of the site, of a person, of a host; bounded, marked, and only where there are any.

What stands on a host itself is a stranger's text and is marked as such; a folder's AGENTS.md is read only
when the settings say so, since a repository may come from anywhere.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.config import Settings, notes_files
from agent.errors import UsageError
from agent.runbooks import find, listed
from agent.untrusted import wrapped
from prompts.render import render
from tools.contract import Host
from tools.display import printable

MAX_EACH, MAX_ALL = 4_000, 12_000
"""Characters of one note, and of all together."""

_READ = 65_536
_ON_HOST_S = 10.0
NAME = "AGENTS.md"


def notes_for(settings: Settings, hosts: Sequence[str]) -> list[str]:
    """Return what the model is told of notes and runbooks; raise `UsageError` when a note cannot be read."""
    found = [("the site" if rank == "site" else "the hosts here", path) for rank, path in notes_files()]
    texts = [(subject, str(path), _read(path)) for subject, path in found if path.is_file()]
    project = _nearest() if settings.notes.project else None
    if project is not None:
        texts.append(("this project", str(project), _read(project)))
    for name in hosts:
        entry = settings.hosts.get(name)
        if entry is not None and entry.notes:
            texts.append((name, f"[hosts.{name}] of the settings", _of_entry(name, entry.notes)))
    told = _told([(subject, source, text) for subject, source, text in texts if text.strip()])
    return [*told, *_roles(settings, hosts), *listed(find(settings).books)]


def _roles(settings: Settings, hosts: Sequence[str]) -> list[str]:
    """Return what is told of roles, where several hosts are looked at and one of them has one."""
    entries = {name: settings.hosts.get(name) for name in hosts}
    roles = [f"{name} {entry.role}" for name, entry in entries.items() if entry is not None and entry.role]
    return [render("note_roles", roles="; ".join(roles))] if roles and len(hosts) > 1 else []


def _told(texts: Sequence[tuple[str, str, str]]) -> list[str]:
    told, room = [], MAX_ALL
    for subject, source, text in texts:
        shown = bounded(printable(text.strip()), min(MAX_EACH, room))
        room -= len(shown)
        if shown:
            told.append(render("note_operator", subject=subject, source=source, text=shown))
    return told


def bounded(text: str, limit: int) -> str:
    """Return a text no longer than a limit, what was left out said at its end; nothing where no room is."""
    if len(text) <= limit:
        return text
    mark = f"\n[cut: {len(text):,} characters in all]"
    return text[: limit - len(mark)] + mark if limit > 2 * len(mark) else ""


def _of_entry(name: str, notes: str) -> str:
    if "\n" in notes or not notes.startswith(("/", "~/")):
        return notes
    path = Path(notes).expanduser()
    try:
        return _read(path)
    except UsageError as error:
        raise UsageError(
            f"hosts.{name}.notes: {error.what}", do="mend the path, or write the notes there"
        ) from error


def _read(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would never end
            raise UsageError(f"notes {path} are no regular file", do="move it away")
        with path.open("rb") as file:
            return file.read(_READ).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            f"notes {path} cannot be read: {error.strerror}", do="give rights, or move it away"
        ) from error


def _nearest() -> Path | None:
    """Return the nearest AGENTS.md from the current folder up, but no link that leads out of its folder."""
    here = Path.cwd()
    named = (folder / NAME for folder in (here, *here.parents))
    return next((path for path in named if path.is_file() and _inside(path)), None)


def _inside(path: Path) -> bool:
    return path.resolve().is_relative_to(path.parent.resolve())


async def notes_on(settings: Settings, hosts: Mapping[str, Host]) -> list[str]:
    """Return what files of notes on the hosts say, marked as untrusted: one command each, where it is set."""
    path = settings.notes.on_hosts
    if path is None:
        return []

    async def one(name: str, host: Host) -> str | None:
        argv = ["head", "-c", str(MAX_EACH + 1), "--", path]
        result = await host.exec(argv, timeout_s=_ON_HOST_S, max_bytes=MAX_EACH + 1, retry=True)
        text = printable(result.stdout.data.decode("utf-8", "replace")).strip() if result.ok else ""
        if not text:
            return None
        return render("note_host_file", host=name, path=path, text=wrapped(bounded(text, MAX_EACH)))

    told = await asyncio.gather(*(one(name, host) for name, host in hosts.items()))
    return [text for text in told if text is not None]
