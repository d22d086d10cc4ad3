"""The command ``leadline facts``: the facts of hosts side by side, once or again and again."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.surfaces.options import JsonOption


def facts(
    hosts: Annotated[
        list[str],
        typer.Argument(metavar="HOST...", help="Names, with blanks or commas between them, or @GROUP."),
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again, and print what changed.")
    ] = False,
    every: Annotated[str, typer.Option(metavar="TIME", help="Between two looks: 30s, 10m, 1h.")] = "10m",
    json_: JsonOption = False,
) -> None:
    """Show the facts of hosts side by side and what differs; a look is kept, so that changes are seen.

    Example: leadline facts gpu1 gpu2 --watch --every 10m
    """
    from agent.surfaces.facts_shown import FactsOptions, run

    run(FactsOptions(hosts, watch=watch, every=every, as_json=json_))


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(facts)
