"""Check the whole setup side by side, say how to mend each thing: what ``leadline doctor`` does."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from agent.config import Settings, config_files, doubts, load_settings
from agent.errors import ExitCode, LeadlineError
from agent.inventory import ALL, Inventory
from agent.runbooks import find
from agent.surfaces.console import screen_width
from agent.surfaces.doctor_here import check_clock, check_rg, check_state
from agent.surfaces.doctor_model import check_model, check_named
from agent.surfaces.doctor_slack import check_slack
from agent.surfaces.doctor_types import Check, Verdict, broken, ok, skipped, warning
from agent.surfaces.hosts_check import HostRow, checked
from agent.surfaces.targets import say
from tools.display import printable
from tools.text_table import hanging

_MARKS: dict[Verdict, str] = {
    "ok": "ok     ",
    "warning": "warning",
    "broken": "BROKEN ",
    "skipped": "-      ",
}
_LEAST = 40
"""Columns for what is said of a thing; where fewer are left, it stands below the name."""

_STACKED = " " * 9


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Hold what a person asked for."""

    hosts: list[str]
    model: str | None
    base_url: str | None
    fresh: bool
    as_json: bool


def run(options: DoctorOptions) -> None:
    """Print a line for everything that was checked; leave with 1 when something is broken."""
    checks = asyncio.run(examined(options))
    if options.as_json:
        found = {"checks": [check.model_dump() for check in checks], "broken": _count(checks, "broken")}
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write(text(checks, screen_width()))
    if _count(checks, "broken"):
        raise SystemExit(int(ExitCode.ERROR))


async def examined(options: DoctorOptions) -> list[Check]:
    """Return all checks in their order; settings that cannot be read are the only one then."""
    flags = {"model": options.model, "base_url": options.base_url}
    try:
        settings = load_settings(**{name: value for name, value in flags.items() if value is not None})
        names = _names(options.hosts, settings)
    except LeadlineError as error:
        return [broken("settings", error.what, error.do)]
    files = [str(path) for path in config_files() if path.is_file()]
    first = [ok("settings", f"read from {', '.join(files)}" if files else "no file; all defaults")]
    first += [warning("settings", one.what, one.do) for one in doubts(settings)]
    first += _runbooks(settings)
    groups = await asyncio.gather(
        _told("model", check_model(settings, fresh=options.fresh)),
        _told("named models", check_named(settings)),
        _told("hosts", _hosts(names, settings)),
        _told("this machine", check_state(settings)),
        _told("rg", check_rg(settings)),
        _told("clock", check_clock()),
        _told("Slack", check_slack(settings)),
    )
    return [*first, *(check for group in groups for check in group)]


def _runbooks(settings: Settings) -> list[Check]:
    found = find(settings)
    wrong = [warning("runbooks", problem, "mend it: docs/configuration.md") for problem in found.problems]
    return [*([ok("runbooks", f"{len(found.books)} to be read")] if found.books else []), *wrong]


def _names(words: Sequence[str], settings: Settings) -> list[str]:
    inventory = Inventory.of(settings)
    return inventory.select(list(words) or [ALL]) if words or inventory.entries else []


async def _told(what: str, work: Awaitable[list[Check]]) -> list[Check]:
    """Say on stderr that a part is done, so that a person sees what is waited for."""
    found = await work
    if found:
        say(f"{what}: looked at")
    return found


async def _hosts(names: Sequence[str], settings: Settings) -> list[Check]:
    if not names:
        return [skipped("hosts", "the settings name none; `leadline doctor HOST` looks at one")]
    return [_of_row(row) for row in await checked(names, settings)]


def _of_row(row: HostRow) -> Check:
    about = f"host {row.host}"
    account = " ".join(filter(None, (row.user, f"({row.account})" if row.account else "")))
    seen = [account, row.gpus or "", ", ".join(row.engines), *row.says]
    says = "; ".join(part for part in seen if part)
    match row.state:
        case "ok":
            return ok(about, says)
        case "warning":
            return warning(about, says, row.do)
        case _:
            return broken(about, says, row.do)


def text(checks: Sequence[Check], width: int | None = None) -> str:
    """Return the lines, each with how to mend it, and the sum of them; ``width`` is that of a terminal."""
    longest = max(len(printable(check.about)) for check in checks)
    indent = " " * (len(_MARKS["ok"]) + longest + 4)
    room = width - len(indent) if width is not None else None
    lines = []
    for check in checks:
        before = f"{_MARKS[check.verdict]}  {printable(check.about):<{longest}}  "
        below = indent
        said, mend = printable(check.says), printable(f"do: {check.do}")
        if room is not None and room < max(_LEAST, *map(len, f"{said} {mend}".split())):
            lines.append(before.rstrip())
            before = below = _STACKED
        lines.append(hanging(before, said, width))
        if check.do:
            lines.append(hanging(below, mend, width))
    bad, odd = _count(checks, "broken"), _count(checks, "warning")
    lines.append(f"{bad} broken, {odd} to be watched" if bad or odd else "all in order")
    return "".join(line + "\n" for line in lines)


def _count(checks: Sequence[Check], verdict: Verdict) -> int:
    return sum(check.verdict == verdict for check in checks)
