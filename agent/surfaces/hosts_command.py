"""The hosts of the settings: list them, show one, look whether all can be worked on."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.surfaces.options import JsonOption

hosts = typer.Typer(no_args_is_help=True, help="The hosts that the settings name, by name, group and role.")

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[HOSTS...]", help="Names, lists with commas, @GROUP, role:ROLE, or all."),
]


@hosts.command("list")
def hosts_list(words: Words = None, json_: JsonOption = False) -> None:
    """List the hosts of the settings with address, role, groups and whether their key is pinned.

    Example: leadline hosts list role:decode
    """
    from agent.surfaces.hosts_view import list_hosts

    list_hosts(words or [], as_json=json_)


@hosts.command("show")
def hosts_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The host, as `leadline hosts list` shows it.")],
    json_: JsonOption = False,
) -> None:
    """Print all that the settings say of a host.

    Example: leadline hosts show gpu1
    """
    from agent.surfaces.hosts_view import show_host

    show_host(name, as_json=json_)


@hosts.command("check")
def hosts_check(words: Words = None, json_: JsonOption = False) -> None:
    """Connect to hosts side by side and say of each what may be done and what runs; exit 6 when one is down.

    Example: leadline hosts check @pool-a
    """
    from agent.surfaces.hosts_check import check_hosts

    check_hosts(words or [], as_json=json_)
