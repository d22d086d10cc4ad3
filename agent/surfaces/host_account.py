"""Set up, check and clean the account on a host: what the commands of ``leadline host`` do."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import load_settings
from agent.errors import ExitCode, LeadlineError, UsageError
from agent.surfaces.targets import open_host, say
from tools.contract import ToolError

if TYPE_CHECKING:
    from tools.account import AccountReport
    from tools.account_clean import Left

_MARKS = {
    "ok": "ok      ",
    "note": "note    ",
    "missing": "missing ",
    "broken": "BROKEN  ",
    "excess": "TOO MUCH",
}


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """Hold what a person asked for of a setup."""

    host: str
    only_print: bool
    units: str
    settings: str
    user: str
    key: Path | None
    ports: str


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """Hold what a person asked for of cleaning."""

    host: str
    dry_run: bool
    yes: bool
    as_json: bool


def print_setup(options: SetupOptions) -> None:
    """Print the commands of a setup."""
    from tools.account_setup import Account, script, words

    if not options.only_print:
        raise UsageError(
            "host setup runs nothing by itself",
            do="add --print, read the commands, and run them there as root",
        )
    ports = words(options.ports)
    if not all(port.isdecimal() and 0 < int(port) < 65536 for port in ports):
        raise UsageError(f"--ports {options.ports}: not numbers of ports", do="write --ports 30000,8000")
    account = Account(
        host=options.host,
        user=options.user,
        units=tuple(words(options.units)),
        settings=tuple(words(options.settings)),
        key=_key(options.key),
        ports=tuple(map(int, ports)),
    )
    try:
        sys.stdout.write(script(account))
    except ToolError as error:
        raise UsageError(f"host setup: {error}") from error


def _key(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        lines = path.expanduser().read_text().strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--key {path} cannot be read: {error}", do="name a public key file") from error
    if len(lines) != 1 or "PRIVATE" in lines[0]:
        raise UsageError(
            f"--key {path} is not a public key file of one line", do="name the file that ends in .pub"
        )
    return lines[0]


def check_account(name: str, units: list[str], *, as_json: bool) -> None:
    """Print what the account on a host is; exit 3 when something has to be put right."""
    found = asyncio.run(_checked(name, units))
    if as_json:
        sys.stdout.write(json.dumps(found.model_dump() | {"problems": len(found.problems)}) + "\n")
    else:
        sys.stdout.write(report_text(found))
    if found.problems:
        raise SystemExit(int(ExitCode.PROBLEM_FOUND))


async def _checked(name: str, units: list[str]) -> AccountReport:
    from tools import account

    try:
        async with open_host(name, load_settings()) as host:
            return await account.check(host, units)
    except ToolError as error:
        raise LeadlineError(f"host check: {error}") from error


def report_text(found: AccountReport) -> str:
    """Return a report as lines of text, what has to be put right last."""
    order = list(_MARKS)
    rows = sorted(found.findings, key=lambda finding: order.index(finding.status))
    lines = [f"{found.user} on {found.host}: {found.kind} account, helper: {found.helper}"]
    for row in rows:
        lines.append(f"  {_MARKS[row.status]}  {row.what}")
        if row.do:
            lines.append(f"            do: {row.do}")
    count = len(found.problems)
    lines.append("in order" if not count else f"{count} to put right")
    return "\n".join(lines) + "\n"


def clean_host(options: CleanOptions) -> None:
    """List what lies on a host, and remove what is over after a confirmation."""
    code = asyncio.run(_cleaned(options))
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


async def _cleaned(options: CleanOptions) -> ExitCode:
    from tools import account_clean

    try:
        async with open_host(options.host, load_settings()) as host:
            found = await account_clean.left_on(host)
            over = [one for one in found if one.state == "over"]
            if options.dry_run or not over:
                _show(found, [], as_json=options.as_json)
                return ExitCode.DONE
            if not options.yes and not _confirmed(found, over):
                return ExitCode.APPROVAL_NEEDED
            then = await account_clean.remove(host, over)
    except ToolError as error:
        raise LeadlineError(f"host clean: {error}") from error
    gone = [one for one in over if one not in then]
    _show(then, gone, as_json=options.as_json)
    return ExitCode.DONE if len(gone) == len(over) else ExitCode.ERROR


def _confirmed(found: list[Left], over: list[Left]) -> bool:
    for one in found:
        say(one.says)
    if not sys.stdin.isatty():
        say(f"{len(over)} may go; nothing was removed: no terminal to ask on, so add --yes")
        return False
    sys.stderr.write(f"Remove {len(over)} that may go? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show(left: list[Left], gone: list[Left], *, as_json: bool) -> None:
    if as_json:
        rows = {"removed": [one.model_dump() for one in gone], "left": [one.model_dump() for one in left]}
        sys.stdout.write(json.dumps(rows) + "\n")
        return
    for one in gone:
        sys.stdout.write(f"removed {one.says.removesuffix(' (may go)')}\n")
    for one in left:
        sys.stdout.write(f"{one.says}\n")
    if not left:
        sys.stdout.write("Nothing is left on this host.\n")
