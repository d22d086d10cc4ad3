"""`leadline facts`: the facts of hosts side by side, once or again and again; every look is kept."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent.config import Settings, load_settings
from agent.errors import ExitCode, UsageError
from agent.surfaces.targets import say

_EVERY = re.compile(r"(\d{1,5})\s*(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_SHORTEST_S = 10


@dataclass(frozen=True, slots=True)
class FactsOptions:
    """Hold what a person asked for."""

    hosts: Sequence[str]
    watch: bool = False
    every: str = "10m"
    as_json: bool = False


def interval(text: str) -> int:
    """Return the seconds that a word names; raise `UsageError` that says what may stand."""
    found = _EVERY.fullmatch(text.strip())
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if seconds < _SHORTEST_S:
        raise UsageError(f"--every {text}", do=f"write 30s, 10m or 1h; {_SHORTEST_S}s is the least")
    return seconds


def run(options: FactsOptions) -> None:
    """Look, print, and leave with 6 when a host could not be reached."""
    from agent.inventory import Inventory

    settings = load_settings()
    seconds = interval(options.every)
    names = Inventory.of(settings).select(options.hosts)
    try:
        code = asyncio.run(_run(options, names, settings, seconds))
    except KeyboardInterrupt:
        code = ExitCode.DONE if options.watch else ExitCode.INTERRUPTED
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


async def _run(options: FactsOptions, names: Sequence[str], settings: Settings, seconds: int) -> ExitCode:
    """Look at the hosts, again and again where that is wanted; connections are made anew each time."""
    from agent.looks import Seen

    first = True
    while True:
        async with AsyncExitStack() as stack:
            looks: list[Seen] = await look_at(names, settings, stack, quiet=options.watch and not first)
        _print(options, looks, first=first)
        if not options.watch:
            return ExitCode.HOST_UNREACHABLE if any(seen.problem for seen in looks) else ExitCode.DONE
        first = False
        await asyncio.sleep(seconds)


async def look_at(
    names: Sequence[str], settings: Settings, stack: AsyncExitStack, *, quiet: bool
) -> list[Any]:
    """Connect to the hosts and look at each, side by side; one that is down is told among the others."""
    from agent.looks import Seen, history_of, look
    from agent.own_secrets import redactor
    from agent.surfaces.by_hand import context_of
    from agent.surfaces.side_by_side import each, give_back_fresh, open_all
    from tools.history_store import STORE

    progress = (lambda text: None) if quiet else say
    hosts = await open_all(names, settings, stack, progress)
    give_back_fresh(names, hosts, settings, stack)
    store = history_of(settings, redactor(settings))

    async def one(name: str) -> Seen:
        context = context_of(hosts[name], settings, progress)
        context.cache[STORE] = store
        return await look(hosts[name], context)

    looks = {seen.host: seen for seen in await each(list(hosts), one)}
    looks |= {down.name: Seen(down.name, problem=f"{down.reason}; {down.do}") for down in hosts.down}
    order = [name for name in names if name in looks]
    return [looks[name] for name in [*order, *(other for other in looks if other not in order)]]


def _print(options: FactsOptions, looks: Sequence[Any], *, first: bool) -> None:
    from agent.surfaces.console import screen_width
    from agent.surfaces.facts_table import told
    from tools.display import printable, visible_json

    if options.as_json:
        sys.stdout.write(visible_json(json.dumps(as_json(looks), ensure_ascii=False)) + "\n")
    elif first:
        sys.stdout.write(told(looks, screen_width()))
    else:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        lines = [f"{seen.host}: not reached: {seen.problem}" for seen in looks if seen.problem]
        lines += [f"{seen.host}: {line}" for seen in looks for line in seen.changed]
        sys.stdout.write("".join(f"{now} {printable(line)}\n" for line in lines))
    sys.stdout.flush()


def as_json(looks: Sequence[Any]) -> dict[str, Any]:
    """Return the looks as one object: facts as plain lines, and what differs between the hosts."""
    from tools.history_diff import differences

    reached = {seen.host: seen.flat for seen in looks if not seen.problem}
    hosts = {}
    for seen in looks:
        row = {"facts": seen.flat, "changed": seen.changed, "changed_since": seen.before or None}
        row["history_problems"] = seen.view.get("history_problems") or []
        hosts[seen.host] = {"problem": seen.problem} if seen.problem else row
    compared = differences(reached) if len(reached) > 1 else []
    rows = {one.name: [{"value": value, "hosts": list(on)} for value, on in one.values] for one in compared}
    return {"hosts": hosts, "differs": rows}
