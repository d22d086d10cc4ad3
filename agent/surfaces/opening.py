"""Open what a surface works with: settings from flags, connected hosts, a new or resumed session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from agent import threads
from agent.config import Settings, load_settings
from agent.errors import UsageError
from agent.models import Model
from agent.models.select import PLAYBOOK, model_of
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.targets import is_fresh, is_lab, open_host, release
from tools.contract import Host

if TYPE_CHECKING:
    from agent.session import Session


OWNED = "started-host"
"""File in a session's folder that names the host started for it, for `--resume` and for its end."""


def settings_of(options: OpenOptions) -> Settings:
    """Return the settings in force under these flags."""
    named = {"model": options.model, "base_url": options.base_url}
    settings = load_settings(**{name: value for name, value in named.items() if value is not None})
    if options.base_url is not None and settings.model == PLAYBOOK:
        raise UsageError("--base-url without a model", do="name one that it serves with --model")
    tools = settings.tools.model_copy(
        update={
            "allow_load": _allow_load(options, settings),
            "allow_in_flight": options.allow_in_flight or settings.tools.allow_in_flight,
            "allow_send_rg": options.send_rg or settings.tools.allow_send_rg,
        }
    )
    limits = {"max_turns": options.max_turns, "max_wall_s": options.timeout_s}
    given = {name: value for name, value in limits.items() if value is not None}
    return settings.model_copy(update={"tools": tools, **given})


def _allow_load(options: OpenOptions, settings: Settings) -> bool:
    if options.allow_load is not None:
        return options.allow_load
    return settings.tools.allow_load or is_lab(options.host)


async def open_hosts(
    options: OpenOptions, settings: Settings, stack: AsyncExitStack, progress: Callable[[str], None]
) -> dict[str, Host]:
    """Connect to the host that is named, or to those of the session that is resumed."""
    names = [options.host]
    if options.resume is not None:
        names = threads.started(settings, options.resume).hosts
    hosts = {}
    for name in names:
        host = await stack.enter_async_context(open_host(name, settings, progress))
        hosts[name if options.resume is not None else host.name] = host
    return hosts


def start(
    options: OpenOptions,
    settings: Settings,
    hosts: Mapping[str, Host],
    symptom: str,
    model: Model | None = None,
) -> Session:
    """Open a new session; a host that was started for it is noted in its folder."""
    from agent.session import Session

    scenario = options.host.partition(":")[2].partition("#")[0] if is_lab(options.host) else None
    fresh = next(iter(hosts)) if is_fresh(options.host) else None
    try:
        model = model or model_of(settings)
        session = Session.start(settings, model, hosts, symptom, options.mode, scenario=scenario)
    except BaseException:
        if fresh is not None:
            release(fresh, settings)
        raise
    if fresh is not None:
        (session.folder / OWNED).write_text(fresh)
    return session


def resume(thread: str, settings: Settings, hosts: Mapping[str, Host], model: Model | None = None) -> Session:
    """Take up a session of before."""
    from agent.session import Session

    return Session.resume(settings, thread, model or model_of(settings), hosts)


def give_back(folder: Path, settings: Settings) -> None:
    """End the host that this investigation started; one that a person started stays."""
    owned = folder / OWNED
    if owned.is_file():
        release(owned.read_text(), settings)
        owned.unlink()
