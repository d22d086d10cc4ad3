"""Open what a surface works with: settings from flags, connected hosts, a new or resumed session."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from agent import threads
from agent.config import Settings, load_settings, with_rights
from agent.errors import HostUnreachable, TranscriptError, UsageError
from agent.inventory import Inventory
from agent.models import Model
from agent.models.select import PLAYBOOK, model_of
from agent.notes import notes_for, notes_on
from agent.surfaces.going_on import NO_HOST
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.side_by_side import Opened, open_all
from agent.surfaces.targets import is_fresh, is_lab, release
from tools.contract import Host

if TYPE_CHECKING:
    from agent.session import Session


OWNED = "started-host"
"""File in a session's folder that names the hosts started for it, for `--resume` and for its end."""


def settings_of(options: OpenOptions) -> Settings:
    """Return the settings in force under these flags."""
    named = {"model": options.model, "base_url": options.base_url}
    settings = load_settings(**{name: value for name, value in named.items() if value is not None})
    if options.base_url is not None and settings.model == PLAYBOOK:
        raise UsageError("--base-url without a model", do="name one that it serves with --model")
    settings = with_rights(
        settings,
        allow_load=bool(options.allow_load),
        allow_in_flight=options.allow_in_flight,
        allow_send_rg=options.send_rg,
    )
    tools = settings.tools.model_copy(update={"allow_load": _allow_load(options, settings)})
    limits = {"max_turns": options.max_turns, "max_wall_s": options.timeout_s}
    given = {name: value for name, value in limits.items() if value is not None}
    return settings.model_copy(update={"tools": tools, **given})


def with_load_of(hosts: Sequence[str], options: OpenOptions, settings: Settings) -> Settings:
    """Return settings for a thread on these hosts: a lab, where a chat began, allows load on itself alone."""
    asked = dataclasses.replace(options, host=",".join(hosts) or NO_HOST)
    allowed = settings_of(asked).tools.allow_load
    return settings.model_copy(update={"tools": settings.tools.model_copy(update={"allow_load": allowed})})


def _allow_load(options: OpenOptions, settings: Settings) -> bool:
    if options.allow_load is not None:
        return options.allow_load
    return settings.tools.allow_load or is_lab(options.host)


async def open_hosts(
    options: OpenOptions, settings: Settings, stack: AsyncExitStack, progress: Callable[[str], None]
) -> dict[str, Host]:
    """Connect to the hosts that are named, side by side, or to those of the session that is resumed.

    Of several that a person named those that are there do; a session that is resumed needs all of its own.
    """
    if options.resume is None:
        names = Inventory.of(settings).select(options.host)
        scenario_of(names, settings)
    else:
        names = threads.started(settings, options.resume).hosts
    hosts = await open_all(names, settings, stack, progress)
    if hosts.down and (options.resume is not None or not hosts):
        raise HostUnreachable(hosts.down[0].what, do=hosts.down[0].do)
    for host in hosts.down:
        progress(f"not reached, and left out: {host.what}; {host.do}")
    if options.resume is None:
        try:
            hosts.notes = await notes_on(settings, hosts)
        except BaseException:
            for name in started_here(options, hosts):
                release(name, settings)
            raise
    return hosts


def start(
    options: OpenOptions,
    settings: Settings,
    hosts: Mapping[str, Host],
    symptom: str,
    model: Model | None = None,
    *,
    log: bool = False,
) -> Session:
    """Open a new session; a host that was started for it is noted in its folder."""
    from agent.session import Session

    fresh = started_here(options, hosts)
    try:
        session = Session.start(
            settings,
            model or model_of(settings),
            hosts,
            symptom,
            options.mode,
            scenario=scenario_of(list(hosts), settings),
            notes=_notes(settings, hosts, symptom),
            log=log,
        )
    except BaseException:
        for name in fresh:
            release(name, settings)
        raise
    if fresh:
        (session.folder / OWNED).write_text("\n".join(fresh))
    return session


def _notes(settings: Settings, hosts: Mapping[str, Host], symptom: str) -> list[str]:
    """Return what the model is told before its first turn."""
    from agent import seen_before

    notes = [*notes_for(settings, list(hosts)), *seen_before.told(settings, list(hosts), symptom)]
    if isinstance(hosts, Opened):
        notes += [*hosts.notes, *([hosts.note] if hosts.note else [])]
    return notes


def started_here(options: OpenOptions, hosts: Iterable[str]) -> list[str]:
    """Return those of the hosts that were started because the person asked for new ones.

    A new one is not called as it was asked for: it has an id, and the name that its scenario gives it.
    """
    asked = {name.strip() for name in options.host.split(",")}
    if options.resume is not None or not any(map(is_fresh, asked)):
        return []
    return [name for name in hosts if is_lab(name) and name not in asked]


def scenario_of(names: Iterable[str], settings: Settings) -> str | None:
    """Return what is simulated, by which all that is told of it is marked; None when nothing is.

    Raises `UsageError` for simulated and real hosts together: figures of both would stand under one mark.
    """
    inventory = Inventory.of(settings)
    entries = {name: inventory.get(name) for name in names}
    places = [entry.plugin or "" if entry is not None else name for name, entry in entries.items()]
    labs = [place.partition(":")[2].partition("#")[0] for place in places if is_lab(place)]
    if labs and len(labs) < len(places):
        raise UsageError("simulated and real hosts in one investigation", do="ask about them apart")
    return ", ".join(dict.fromkeys(labs)) or None


def resume(thread: str, settings: Settings, hosts: Mapping[str, Host], model: Model | None = None) -> Session:
    """Take up a session of before."""
    from agent.session import Session

    return Session.resume(settings, thread, model or model_of(settings), hosts)


def give_back(folder: Path, settings: Settings) -> dict[str, str]:
    """End the hosts that this investigation started; those that a person started stay.

    One that another thread still needs is handed on to that one. Returns each host with the thread that
    keeps it, which is empty where the host was ended.
    """
    owned = folder / OWNED
    kept: dict[str, str] = {}
    for name in owned.read_text().splitlines() if owned.is_file() else ():
        heir = _needing(name, folder, settings)
        if heir is None:
            release(name, settings)
        else:
            with (heir / OWNED).open("a") as out:
                out.write(f"{name}\n")
        kept[name] = heir.name if heir is not None else ""
    owned.unlink(missing_ok=True)
    return kept


def unfinished(folder: Path) -> bool:
    """Tell whether a thread has something left to do on its hosts, as its transcript says."""
    from agent.history import History
    from agent.transcript import peek_events
    from agent.trials import Trials

    history, trials = History(), Trials()
    for event in peek_events(folder / "transcript.jsonl"):
        history.feed(event)
        trials.feed(event)
    left = history.unheard or trials.open is not None or any(history.pending())
    return not history.ever_ended or bool(left)


def _needing(host: str, but: Path, settings: Settings) -> Path | None:
    """Return a thread, other than one, that is not at its end and works on a host."""
    for path in sorted(threads.all_transcripts(settings)):
        if path.parent == but:
            continue
        with contextlib.suppress(OSError, TranscriptError):
            with path.open("rb") as record:
                first = record.readline()  # it names the hosts; few threads are of this one
            if host.encode() in first and unfinished(path.parent):
                return path.parent
    return None
