"""Runbooks: which there are, and what one says."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.surfaces.options import JsonOption

runbooks = typer.Typer(
    no_args_is_help=True, help="Runbooks of the site and of your own, in the Agent Skills format."
)


@runbooks.command("list")
def runbooks_list(json_: JsonOption = False) -> None:
    """List the runbooks with what each is for, and what is wrong with those that cannot be read.

    Example: leadline runbooks list
    """
    from agent.surfaces.runbooks_view import list_runbooks

    list_runbooks(as_json=json_)


@runbooks.command("show")
def runbooks_show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The runbook, as `leadline runbooks list` shows it.")
    ],
    file: Annotated[str | None, typer.Option(help="A file of it, such as references/nccl.md.")] = None,
) -> None:
    """Print one runbook as the model reads it.

    Example: leadline runbooks show slow-decode
    """
    from agent.surfaces.runbooks_view import show_runbook

    show_runbook(name, file)
