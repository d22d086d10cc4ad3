"""Commands on a host itself: make an account for Leadline, check the one there is, remove what was left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.surfaces.options import HostArgument, JsonOption

host = typer.Typer(no_args_is_help=True, help="Accounts on hosts: set one up, check it, clean up after it.")


@host.command("setup")
def setup(
    name: HostArgument,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the commands; that is all this command ever does.")
    ] = False,
    units: Annotated[
        str, typer.Option(help="Services that may be changed and read: a.service,b.service.")
    ] = "",
    settings: Annotated[
        str,
        typer.Option(help="Flags and variables that may change there: --chunked-prefill-size,NCCL_DEBUG."),
    ] = "",
    user: Annotated[str, typer.Option(help="The account's name.")] = "leadline",
    key: Annotated[
        Path | None, typer.Option(help="The public key that may log in, such as ~/.ssh/id_ed25519.pub.")
    ] = None,
    ports: Annotated[str, typer.Option(help="Ports of servers there that benchmarks reach: 30000.")] = "",
) -> None:
    """Print the commands that make an unprivileged account with one root-owned program; run none of them.

    Example: leadline host setup gpu1 --print --units sglang.service --key ~/.ssh/id_ed25519.pub >setup.sh
    """
    from agent.surfaces.host_account import SetupOptions, print_setup

    print_setup(SetupOptions(name, print_, units, settings, user, key, ports))


@host.command("check")
def check(
    name: HostArgument,
    unit: Annotated[
        list[str] | None, typer.Option(help="Look at the files of this service as well; repeat for more.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Say what is in place, what is missing, and what the account could do that it should not; exit 3 then.

    Example: leadline host check leadline@gpu1
    """
    from agent.surfaces.host_account import check_account

    check_account(name, unit or [], as_json=json_)


@host.command("clean")
def clean(
    name: HostArgument,
    dry_run: Annotated[
        bool, typer.Option("--print", "--dry-run", help="List what lies there; remove nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove what may go without asking.")] = False,
    json_: JsonOption = False,
) -> None:
    """Remove what was left on a host, after a confirmation; kept changes are named and stay.

    Example: leadline host clean gpu1 --dry-run
    """
    from agent.surfaces.host_account import CleanOptions, clean_host

    clean_host(CleanOptions(name, dry_run, yes, json_))
