"""Look at many hosts at once: can each be reached, what may we do there, what runs there."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from agent.config import Settings, load_settings
from agent.errors import ExitCode, UsageError
from agent.inventory import ALL, Inventory
from agent.surfaces.console import screen_width
from agent.surfaces.doctor_clock import MEND, differs
from agent.surfaces.side_by_side import Down, each, give_back_fresh, open_all
from agent.surfaces.targets import say
from tools.contract import Host, ToolError

if TYPE_CHECKING:
    from tools.account import AccountReport

_HEAD = ("HOST", "STATE", "ACCOUNT", "GPUS", "ENGINES", "")
_WHOLE = 1_000
"""Columns of a cell in a file or a pipe, where nothing of it is to be lost."""


class HostRow(BaseModel):
    """Hold what a check found on one host; what could not be learned is None, with the reason in `says`."""

    host: str
    state: Literal["ok", "warning", "broken", "down"]
    user: str | None = None
    account: str | None = None
    gpus: str | None = None
    engines: list[str] = Field(default_factory=list)
    says: list[str] = Field(default_factory=list)
    do: str = ""


def check_hosts(words: Sequence[str], *, as_json: bool) -> None:
    """Print a row for every host; exit 6 when one is down, 3 when one has to be put right."""
    settings = load_settings()
    inventory = Inventory.of(settings)
    if not words and not inventory.entries:
        raise UsageError("the settings name no hosts", do="name some, or write [hosts.NAME] (leadline init)")
    names = inventory.select(words or [ALL])
    rows = asyncio.run(checked(names, settings))
    if as_json:
        sys.stdout.write("".join(row.model_dump_json() + "\n" for row in rows))
    else:
        sys.stdout.write(_text(rows, screen_width()))
    states = {row.state for row in rows}
    if "down" in states:
        raise SystemExit(int(ExitCode.HOST_UNREACHABLE))
    if "broken" in states:
        raise SystemExit(int(ExitCode.PROBLEM_FOUND))


async def checked(names: Sequence[str], settings: Settings) -> list[HostRow]:
    """Connect to the hosts, then look at account and facts of each: one command for either."""
    async with AsyncExitStack() as stack:
        began = time.monotonic()
        opened = await open_all(names, settings, stack, say)
        give_back_fresh(names, opened, settings, stack)
        say(f"{len(opened)} of {len(names)} reached in {time.monotonic() - began:.1f} s")
        found = await each(list(opened), lambda name: _look(opened[name], name, settings))
    rows = {row.host: row for row in [*found, *map(_down, opened.down)]}
    order = {name: place for place, name in enumerate(names)}
    return sorted(rows.values(), key=lambda row: order.get(row.host, len(order)))


def _down(host: Down) -> HostRow:
    return HostRow(host=host.name, state="down", says=[host.reason], do=host.do)


async def _look(host: Host, name: str, settings: Settings) -> HostRow:
    """Return what account and facts of a host say, both asked at once."""
    entry = Inventory.of(settings).get(name)
    units = [entry.unit] if entry is not None and entry.unit else []
    account, (facts, clock_s) = await asyncio.gather(_account(host, units), _facts(host, settings))
    row = HostRow(host=name, state="ok")
    if isinstance(account, str):
        row.state = "warning"
        row.says.append(account)
    else:
        row.user, row.account = account.user, account.kind
        if account.problems:
            row.state = "broken"
            more = len(account.problems) - 1
            row.says.append(account.problems[0].what + (f", and {more} more to put right" if more else ""))
            row.do = f"leadline host check {name}"
    if isinstance(facts, str):
        row.state = "warning" if row.state == "ok" else row.state
        row.says.append(facts)
    else:
        row.gpus = _gpus(facts)
        row.engines = [_engine(one) for one in facts["engines"]]
        apart = differs(clock_s)
        if apart:
            row.state = "warning" if row.state == "ok" else row.state
            row.says.append(apart)
            row.do = row.do or MEND
        if facts["not_permitted"]:
            row.says.append(f"not permitted: {len(facts['not_permitted'])} of the facts")
    say(f"{name}: looked at")
    return row


async def _account(host: Host, units: Sequence[str]) -> AccountReport | str:
    from tools import account

    try:
        return await account.check(host, units)
    except ToolError as error:
        return str(error)


async def _facts(host: Host, settings: Settings) -> tuple[dict[str, Any] | str, float]:
    """Return the facts, or why there are none, and how far the host's clock is from ours."""
    from agent.surfaces.by_hand import context_of
    from tools import facts
    from tools.facts_flat import Look, looked

    context = context_of(host, settings, lambda text: None)
    try:
        view = await facts.run(context, facts.Args())
    except ToolError as error:
        return str(error), 0.0
    look: Look = context.cache[looked(host.name)]
    return view, look.clock_s


def _gpus(facts: dict[str, Any]) -> str:
    names = [str(row.get("name", "GPU")) for row in facts["hardware"]["gpus"]]
    kinds = dict.fromkeys(names)
    return ", ".join(f"{names.count(kind)} x {kind}" for kind in kinds)


def _engine(row: dict[str, Any]) -> str:
    return " ".join(str(row[key]) for key in ("engine", "version", "unit") if row.get(key))


def _text(rows: Sequence[HostRow], width: int | None) -> str:
    from tools.text_table import filled, table

    cells = [
        [
            row.host,
            row.state,
            " ".join(filter(None, (row.user, f"({row.account})" if row.account else ""))),
            row.gpus or "",
            ", ".join(row.engines),
            "; ".join([*row.says, *([f"do: {row.do}"] if row.do else [])]),
        ]
        for row in rows
    ]
    counts = {state: sum(row.state == state for row in rows) for state in ("ok", "warning", "broken", "down")}
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    summary = f"{'1 host' if len(rows) == 1 else f'{len(rows)} hosts'}: {said}"
    lines = filled(summary, width) if width is not None else [summary]
    return table(_HEAD, cells, width, widest=_WHOLE) + "".join(f"{line}\n" for line in lines)
