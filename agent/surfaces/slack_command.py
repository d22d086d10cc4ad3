"""``leadline slack``: the manifest of the Slack app."""

from __future__ import annotations

from typing import Annotated

import typer

slack = typer.Typer(no_args_is_help=True, help="The Slack bot; see docs/slack.md.")


@slack.command("manifest")
def print_manifest(
    http: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Slack sends events to this https address; default: Socket Mode."),
    ] = None,
) -> None:
    """Print the app manifest, to be pasted where Slack creates an app from one.

    Example: leadline slack manifest > leadline-slack.yaml
    """
    from agent.slack.manifest import text

    typer.echo(text(http), nl=False)
