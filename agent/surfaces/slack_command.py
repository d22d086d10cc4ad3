"""``leadline slack``: the bot, and the manifest of the Slack app."""

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


@slack.command("run")
def run_bot(
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=0, max=65535, help="Listen for signed requests there; default: Socket Mode."
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what Slack's libraries say.")] = False,
) -> None:
    """Run the bot until it is terminated: mentions, direct messages and shortcuts start investigations.

    Example: leadline slack run
    """
    from agent.slack.run import RunOptions, run

    run(RunOptions(http=http, verbose=verbose))
